"""Where a dataset of the registry lies for one job on one node.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import os
import re
from typing import Literal

from slurm_io.config import Config, DatasetConfig
from slurm_io.errors import SpecError
from slurm_io.records import dataclass
from slurm_io.slurm.node_name import node_name
from slurm_io.spec import JobSpec

Tier = Literal["local", "shared"]

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PATTERN = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True)
class Names:
    """What the patterns of paths stand for: node, user and job, each one plain path component."""

    node: str
    user: str
    job: str | None = None


@dataclass(frozen=True)
class Place:
    """One dataset as one job wants it: which tier, which folder, which version.

    `content_id` None means "whatever the manifest says". `manifest` None means that there is none.
    """

    name: str
    tier: Tier
    path: str
    manifest: str | None
    content_id: str | None
    settings: DatasetConfig


def place_of(config: Config, spec: JobSpec, names: Names) -> Place | None:
    """The dataset a job asked for; None when it asked for none.

    Raises SpecError (one line for the user) when the site has no such dataset or tier.
    """
    if spec.dataset is None:
        return None
    if spec.dataset.startswith("/"):
        tier: Tier = "local" if spec.tier == "local" else "shared"
        return Place(spec.dataset, tier, spec.dataset, None, None, DatasetConfig())
    name, _, content_id = spec.dataset.partition("@")
    settings = config.datasets.get(name)
    if settings is None:
        known = ", ".join(sorted(config.datasets)) or "none"
        raise SpecError(f"this site has no dataset {name!a}; there are: {known}")
    tier = _tier(settings, spec.tier, name)
    return Place(
        name=name,
        tier=tier,
        path=expand_pattern(settings.local if tier == "local" else settings.shared, names),
        manifest=expand_pattern(settings.manifest, names) or None,
        content_id=_one_case(content_id or settings.content_id) or None,
        settings=settings,
    )


def expand_pattern(pattern: str, names: Names) -> str:
    """Fill in %N, %n, %h (short host name, Slurm's node name, host name), %u, %j and %%.

    Raises SpecError when a name cannot stand in a path or a pattern is not one of these.
    """
    values = {"N": names.node.partition(".")[0], "n": names.node, "h": names.node}
    values |= {"u": names.user, "j": names.job or ""}

    def fill(found: re.Match[str]) -> str:
        letter = found[1]
        if letter == "%":
            return "%"
        value = values.get(letter)
        if value is None:
            raise SpecError(f"{pattern}: %{letter} is not one of %N %n %h %u %j %%")
        if not _PLAIN.fullmatch(value):
            raise SpecError(f"{pattern}: %{letter} would be {value!a:.80}, which no path may hold")
        return value

    return _PATTERN.sub(fill, pattern)


def state_folder(config: Config, node: str | None = None) -> str:
    """``state_dir`` of a node, by default of this one: it may hold %N, %n and %h, where nodes
    share a folder. Raises SpecError when the name cannot stand in a path."""
    return expand_state_dir(config.state_dir, node)


def expand_state_dir(pattern: str, node: str | None = None) -> str:
    """The same for whoever has only the setting's text."""
    if "%" not in pattern:
        return pattern
    return expand_pattern(pattern, Names(node or node_name(os.environ), "root"))


def _one_case(content_id: str) -> str:
    """An id is written in lower case; who wrote it otherwise meant the same."""
    folded = content_id.lower()
    return folded if folded.startswith("c1-") else content_id


def _tier(settings: DatasetConfig, asked: str | None, name: str) -> Tier:
    wanted = asked or settings.tier
    if wanted == "any":
        return "local" if settings.local else "shared"
    if not (settings.local if wanted == "local" else settings.shared):
        raise SpecError(f"dataset {name!a} is not kept on the {wanted} tier at this site")
    return "local" if wanted == "local" else "shared"
