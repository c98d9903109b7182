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
    Setting,
    default_of,
    settings_of,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"

HEAD = f"""\
# Configuration

Made from `slurm_io/config.py` by `python -m slurm_io.config_page`; change it there.

One TOML file, `{DEFAULT_PATH}` unless `slurm-io install --config FILE` named another. Every key is
optional. An unknown key is an error that names the nearest one; a file that cannot be used never
stops a job: the prolog logs why and lets it start unprofiled.
"""

PARTITIONS = """\
## [partition.NAME]

Defaults for the jobs of one partition, in the words a job itself may use in
`--comment "slurm-io: key=value …"`: `dataset`, `ckpt`, `tier`, `profile`, `price` (dollars per GPU
hour), `silence` (a list of rule codes), `check`. What the job says wins.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD, _section("Top of the file", "", Config)]
    for name, kind in SECTIONS.items():
        parts.append(_section(f"[{name}]", _about(kind), kind))
    parts.append(_section("[check.NAME]", _about(CheckConfig), CheckConfig))
    parts.append(_section("[dataset.NAME]", _about(DatasetConfig), DatasetConfig))
    return "\n".join([*parts, PARTITIONS])


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
    lines = [f"## {title}\n\n{about}| key | default | unit | meaning | why this default |"]
    lines.append("|---|---|---|---|---|")
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
        return "one of " + ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.low is None:
        return ""
    return (
        f"≥ {setting.low:.12g}"
        if setting.high is None
        else f"{setting.low:.12g} to {setting.high:.12g}"
    )


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    return "[]" if value == () else f"{value:.12g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
