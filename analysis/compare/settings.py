"""What a job was run with, as far as its store tells: each setting a set of texts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from slurm_io.analysis.facts import mapping, ranks_of, sources_of, whole
from slurm_io.analysis.inputs import NodeView
from slurm_io.analysis.loaders import training_loaders
from slurm_io.analysis.picture import Picture

_LOADER = {
    "num_workers": "loader workers", "prefetch_factor": "loader prefetch",
    "batch_size": "batch size", "persistent": "persistent workers", "pin_memory": "pin memory",
    "context": "worker start method", "dataset": "dataset class",
}  # fmt: skip
_GIB = 2**30


@dataclass(frozen=True)
class Settings:
    """Name -> values, sorted; an empty tuple is not known. `batch_sizes`: of training loaders."""

    values: Mapping[str, tuple[str, ...]]
    batch_sizes: frozenset[int]


@dataclass(frozen=True)
class Change:
    """One setting that is not the same, or is known on one side only (then None there)."""

    setting: str
    a: tuple[str, ...] | None
    b: tuple[str, ...] | None


def read_settings(picture: Picture) -> Settings:
    """Of the store; loaders are those that gave training batches."""
    store, job = picture.store, picture.store.job
    views = [view for _name, view in sorted(store.nodes.items())]
    loaders = [one.facts for one in training_loaders(picture)]
    command = store.extra.get("command")
    ranks = [rank for view in views for rank in ranks_of(view)]
    values: dict[str, list[Any]] = {
        "command": [shlex.join(map(str, command))] if isinstance(command, list) else [],
        "job name": [job.name if job else None],
        "partition": [job.partition if job else None],
        "nodes": [len(store.nodes_expected) or len(store.nodes) or None],
        "node names": sorted(store.nodes),
        "ranks": [len(picture.timeline.processes) or None],
        "GPUs of a node": [job.gpus_on_node if job else None],
        **{label: [one.get(key) for one in loaders] for key, label in _LOADER.items()},
        "file systems read": [pair for view in views for pair in _mounts(view)],
        "Python": [rank.get("python") for rank in ranks],
        "torch": [rank.get("torch") for rank in ranks],
        "kernel": [view.meta.get("kernel") for view in views],
        "CPUs of a node": [view.meta.get("ncpu") for view in views],
        "memory of a node": [_gib(view.meta.get("mem_total_bytes")) for view in views],
    }
    sizes = (whole(one.get("batch_size")) for one in loaders)
    return Settings(
        {name: _texts(told) for name, told in values.items()},
        frozenset(size for size in sizes if size),
    )


def changes(a: Settings, b: Settings) -> tuple[list[Change], list[Change], list[str]]:
    """Those that differ, those known on one side only, names of those that are the same."""
    differ, one_sided, same = [], [], []
    for name in a.values:
        left, right = a.values[name], b.values[name]
        if left == right:
            same += [name] if left else []
        elif left and right:
            differ.append(Change(name, left, right))
        else:
            one_sided.append(Change(name, left or None, right or None))
    return differ, one_sided, same


def _mounts(view: NodeView) -> Iterable[str]:
    told = mapping(mapping(sources_of(view).get("waits")).get("mounts_waited_for"))
    return (f"{mount} ({fstype})" for mount, fstype in told.items())


def _gib(value: object) -> str | None:
    known = whole(value)
    return None if known is None else f"{known / _GIB:.0f} GiB"


def _texts(told: Iterable[Any]) -> tuple[str, ...]:
    known = {str(one) for one in told if isinstance(one, (str, int, float, bool)) and one != ""}
    return tuple(sorted(known))
