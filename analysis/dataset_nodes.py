"""What findings about the dataset of some nodes have in common: where, who trained there, what to
type."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm_io.analysis.checks import MAX_NODES_NAMED
from slurm_io.analysis.dataset_answers import DatasetAnswer
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.plain_words import count_of, node_list, some_nodes
from slurm_io.analysis.rules.base import Evidence, Place

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_ID = re.compile(r"c1-[0-9a-f]{32}")


def names_of(group: Sequence[DatasetAnswer]) -> str:
    """Their nodes, some of them by name."""
    return some_nodes([one.node for one in group])


def are_shared(group: Sequence[DatasetAnswer]) -> bool:
    """Whether it is the copy that all nodes read, which one of them looked at."""
    return all(one.tier == "shared" for one in group)


def place_of(picture: Picture, group: Sequence[DatasetAnswer]) -> Place:
    """These nodes and the ranks that trained there; everywhere for a shared copy."""
    if are_shared(group):
        return Place()
    nodes = {one.node for one in group}
    ranks = {one.rank for one in picture.timeline.processes if one.node in nodes}
    known = sorted(rank for rank in ranks if rank is not None)
    return Place(nodes=tuple(sorted(nodes))[:MAX_NODES_NAMED], ranks=tuple(known)[:MAX_NODES_NAMED])


def trained_there(picture: Picture, group: Sequence[DatasetAnswer]) -> list[Evidence]:
    """What became of the ranks there; nothing where no rank was seen anywhere."""
    nodes = {one.node for one in group}
    seen = picture.timeline.processes
    if not seen or are_shared(group):
        return []
    there = sum(one.node in nodes for one in seen)
    if not there:
        return [Evidence("no rank was seen training on these nodes", "ranks_there", 0)]
    held = sum(one.share for one in picture.where.holders if one.node in nodes)
    lost = f", and held {held:.0%} of what was lost to storage" if picture.loses_to_storage else ""
    text = f"{count_of(there, 'rank')} trained on these nodes all the same{lost}"
    return [Evidence(text, "ranks_there", there)]


def stage_command(group: Sequence[DatasetAnswer]) -> list[str]:
    """Brings these nodes the version that is wanted; [] where it has no plain name."""
    first, nodes = group[0], node_list([one.node for one in group])
    name = _plain_name(first)
    if name is None:
        return []
    if _ID.fullmatch(first.content_id or ""):
        name = f"{name}@{first.content_id}"
    if are_shared(group):
        return [f"slurm-io dataset stage {name} --tier shared"]
    return [f"slurm-io dataset stage {name} --to {nodes}"] if nodes else []


def verify_command(one: DatasetAnswer) -> list[str]:
    """Proves the copy anew, on its node; [] where it has no plain name."""
    name = _plain_name(one)
    if name is None or one.tier not in ("local", "shared"):
        return []
    return [f"slurm-io dataset verify {name} --tier {one.tier} --level 4 --record"]


def _plain_name(one: DatasetAnswer) -> str | None:
    return one.dataset if one.dataset is not None and _NAME.fullmatch(one.dataset) else None
