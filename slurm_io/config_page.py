"""docs/configuration.md, made from the settings themselves.

``python -m slurm_io.config_page`` writes the page, ``--check`` exits 1 when it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

from slurm_io.config import (
    DEFAULT_PATH,
    SECTIONS,
    CheckConfig,
    Config,
    DatasetConfig,
    ReservationConfig,
    Setting,
    default_of,
    settings_of,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

EXAMPLE = """\
[check.mounts]
policy = "stop"
required = ["/scratch fstype=lustre options=rw"]

[check.space]
min_free_bytes = ["/tmp=50GB"]

[dataset.c4]
local = "/scratch/datasets/c4"
manifest = "/etc/slurm_io/manifests/c4.manifest"

[partition.gpu]
check = "hold"
price = 2.5
"""

HEAD = f"""\
# Configuration

Made from `slurm_io/config/` by `python -m slurm_io.config_page`; change it there.

One TOML file, `{DEFAULT_PATH}` unless `slurm-io install --config FILE` named another. Every key is
optional, and so is the file at its usual place. An unknown key is an error that names the nearest
one; a file that cannot be used never stops a job: the prolog logs why and lets it start unprofiled.
So look after each change: `slurm-io check --list` reads the file, own keys of checks included, and
says what is wrong. No daemon has to be told: the next job's prolog reads it anew (`runtime_dir` and
`prolog.deadline_s` stand in the entry scripts too: `slurm-io install` again after changing them).

```toml
{EXAMPLE}```
"""

PARTITIONS = """\
## [partition.NAME]

Defaults for the jobs of one partition, in the words a job itself may use in
`--comment "slurm-io: key=value …"`. What the job says wins.

| key | meaning |
|---|---|
"""
WORDS = {
    "dataset": "NAME or NAME@CONTENT-ID of [dataset.NAME]: what the checks look at",
    "ckpt": "absolute path of the folder that checkpoints go to",
    "tier": "`local` or `shared`: which copy of the dataset",
    "profile": "`off`: neither sampler nor hook; `light`: waits are looked at twice a second at "
    "most; `full`: stacks are recorded with py-spy too, for `sampler.stacks_share` of a core",
    "price": "dollars per GPU hour: findings then say what they cost",
    "silence": "rules whose findings the report leaves out: `F01,F04`, in this file a list",
    "check": "`hold`: a FAIL stops the job; `warn`: none does; `off`: the job's own checks do not "
    "run",
}


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD, _section("Top of the file", "", Config)]
    for name, kind in SECTIONS.items():
        parts.append(_section(f"[{name}]", _about(kind), kind))
    parts.append(_section("[check.NAME]", _about(CheckConfig), CheckConfig))
    parts.append(_section("[dataset.NAME]", _about(DatasetConfig), DatasetConfig))
    parts.append(_section("[reservation.NAME]", _about(ReservationConfig), ReservationConfig))
    words = "".join(f"| `{key}` | {meaning} |\n" for key, meaning in WORDS.items())
    return "\n".join([*parts, PARTITIONS + words])


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with ``--check`` compare it; 1 when it is stale."""
    text = page()
    if "--check" in arguments:
        return 0 if PAGE.exists() and PAGE.read_text("utf-8") == text else 1
    PAGE.write_text(text, "utf-8")
    return 0


def _about(kind: type[Any]) -> str:
    text = cleandoc(kind.__doc__ or "").split(": ", 1)[-1]
    return f"{text[:1].upper()}{text[1:]}\n\n"


def _section(title: str, about: str, kind: type[Any]) -> str:
    return f"## {title}\n\n{about}{settings_table(kind)}"


def settings_table(kind: type[Any]) -> str:
    """The keys of one section's dataclass as a Markdown table."""
    lines = ["| key | default | unit | meaning | why this default |", "|---|---|---|---|---|"]
    lines += [_row(kind, key, setting) for key, setting in settings_of(kind).items()]
    return "\n".join(lines) + "\n"


def _row(kind: type[Any], key: str, setting: Setting) -> str:
    words = [setting.doc, _bounds(setting)]
    meaning = "; ".join(word for word in words if word)
    default = _toml(default_of(kind, key))
    cells = (f"`{key}`", f"`{default}`", setting.unit, meaning, setting.reason)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _bounds(setting: Setting) -> str:
    if setting.choices:
        return "one of " + ", ".join(
            f"`{choice}`" if choice else '`""`' for choice in setting.choices
        )
    if setting.low is None:
        return ""
    low = _number(setting.low)
    return f"≥ {low}" if setting.high is None else f"{low} to {_number(setting.high)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.12g}"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return "[]" if value == () else f"{value:.12g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
