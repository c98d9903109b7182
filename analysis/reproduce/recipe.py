"""What rerunning a job's loader needs, from its store; what the store does not tell is named.

Recorded by the hook: workers, prefetch, batch size, persistence, pinning, start method and class of
the dataset of each loader. Not recorded: the dataset's own arguments and the order of samples (the
job's program brings both along); the order of the plain reads is taken from the files that were
waited for. The folder comes from these files too, so a job that never waited for storage has none.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

import polars as pl

from slurm_io.analysis.facts import ranks_of, whole
from slurm_io.analysis.loaders import training_loaders
from slurm_io.analysis.picture import Picture

RECIPE_SCHEMA = 1
MISSING = "MISSING"
MOST_STEPS = 200
_ORDER_PAIRS = 10
_LISTED, _SHUFFLED = 0.8, 0.65


@dataclass(frozen=True)
class Recipe:
    """recipe.json. Seconds, of one rank; None or a text beginning with MISSING = not known.

    `store_owner`: user id of who wrote the store, and with it `command`.
    """

    schema: int
    job: str | None
    steps: int
    compute_s: float | str
    dataset: str
    order: str | None
    bytes_per_item: int | str
    workers: int | None
    prefetch: int | None
    batch_size: int | None
    persistent: bool | None
    pin_memory: bool | None
    context: str | None
    dataset_class: str | None
    command: list[str] | str
    work_dir: str | None
    ranks_on_a_node: int | None
    world_size: int | None
    wait_share: float | None
    store_owner: int | None
    not_recorded: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """As recipe.json holds it."""
        return asdict(self)


def read_recipe(picture: Picture, store_owner: int | None = None) -> Recipe:
    """Of the rank that trained longest and the loader that gave it most batches."""
    loader = _main_loader(picture)
    paths = _paths(picture)
    batch = whole(loader.get("batch_size"))
    compute_s = _compute_s(picture)
    command = picture.store.extra.get("command")
    job = picture.store.job
    found: dict[str, Any] = {
        "compute_s": compute_s,
        "dataset": _folder(picture, paths),
        "order": _order(paths),
        "bytes_per_item": _bytes_per_item(picture, batch),
        "workers": whole(loader.get("num_workers")),
        "prefetch": whole(loader.get("prefetch_factor")),
        "batch_size": batch,
        "dataset_class": _text(loader.get("dataset")),
        "command": [str(word) for word in command] if isinstance(command, list) else None,
    }
    reasons = _reasons(found)
    must = {name: found[name] for name in ("compute_s", "dataset", "bytes_per_item", "command")}
    filled = {
        name: f"{MISSING}: {reasons[name]}" if value is None else value
        for name, value in must.items()
    }
    return Recipe(
        schema=RECIPE_SCHEMA,
        job=job.job if job else None,
        steps=min(MOST_STEPS, picture.steps) or MOST_STEPS,
        persistent=_flag(loader.get("persistent")),
        pin_memory=_flag(loader.get("pin_memory")),
        context=_text(loader.get("context")),
        work_dir=job.work_dir if job else None,
        ranks_on_a_node=_ranks_on_a_node(picture),
        world_size=_world_size(picture),
        wait_share=_wait_share(picture),
        store_owner=store_owner,
        not_recorded=reasons,
        **{**found, **filled},
    )


def _main_loader(picture: Picture) -> Mapping[str, Any]:
    found = training_loaders(picture)
    return max(found, key=lambda one: one.batches).facts if found else {}


def _compute_s(picture: Picture) -> float | None:
    """Median step without waits and checkpoints; other ranks' lateness is in it."""
    steps = picture.losses.unit_steps.filter(~pl.col("broken"))
    middle = steps["rest_s"].median() if not steps.is_empty() else None
    if not isinstance(middle, (int, float)):
        return None
    return round(float(middle), 6)


def _paths(picture: Picture) -> list[str]:
    """Files waited for in data waits, in order of time, of the mount with most of the waits."""
    mounts = picture.where.mounts
    if not mounts:
        return []
    samples = picture.causes.samples.filter(
        (pl.col("phase") == "data_wait")
        & (pl.col("n_storage") > 0)
        & (pl.col("mount") == mounts[0].mount)
    ).drop_nulls("path")
    return [str(path) for path in samples.sort("node", "mono_ns")["path"].to_list()]


def _folder(picture: Picture, paths: list[str]) -> str | None:
    parents = {str(PurePosixPath(path).parent) for path in paths if path.startswith("/")}
    common = os.path.commonpath(parents) if parents else ""
    if common not in ("", "/"):
        return common
    mounts = picture.where.mounts
    return mounts[0].mount if mounts and mounts[0].mount != "/" else None


def _order(paths: list[str]) -> str | None:
    """listed, shuffled, or None: from how often the next file waited for has a later name."""
    changes = [(a, b) for a, b in pairwise(paths) if a != b]
    if len(changes) < _ORDER_PAIRS:
        return None
    rising = sum(b > a for a, b in changes) / len(changes)
    if rising >= _LISTED:
        return "listed"
    return "shuffled" if rising <= _SHUFFLED else None


def _bytes_per_item(picture: Picture, batch: int | None) -> int | None:
    """Bytes asked for over items; of mapped files, which nobody asks for, those from storage."""
    reads = picture.reads
    if reads is None or not batch:
        return None
    told = [one.storage.high if reads.mapped else one.asked_bytes for one in reads.slices]
    asked = [each for each in told if each is not None]
    batches = sum(process.batches for process in picture.timeline.processes)
    return round(sum(asked) / batches / batch) if asked and batches else None


def _ranks_on_a_node(picture: Picture) -> int | None:
    nodes = [process.node for process in picture.timeline.processes]
    return max((nodes.count(node) for node in set(nodes)), default=None)


def _world_size(picture: Picture) -> int | None:
    """None where no launcher gave the job's processes rank numbers."""
    told = [
        rank.get("world_size") for view in picture.store.nodes.values() for rank in ranks_of(view)
    ]
    return max((size for size in map(whole, told) if size is not None), default=None)


def _wait_share(picture: Picture) -> float | None:
    processes = picture.timeline.processes
    base = sum(process.training_s for process in processes)
    return round(sum(p.data_wait_s for p in processes) / base, 4) if base > 0 else None


def _reasons(found: Mapping[str, Any]) -> dict[str, str]:
    """Field -> why the store does not tell it."""
    no_loader = "the hook described no torch DataLoader of this job (no hook, or another loader)"
    why = {
        "compute_s": "no step was timed: seconds of a step without its data wait",
        "dataset": "nobody waited for a file of it: the folder that the loader reads",
        "order": "too few waits to tell; files are read in the order of their names",
        "bytes_per_item": "not counted (mapped files, no right to): small files are read whole",
        "workers": no_loader,
        "prefetch": no_loader if found["workers"] is None else "the loader has no workers",
        "batch_size": no_loader,
        "dataset_class": no_loader,
        "command": "a batch job's store holds none: script and arguments, after --",
    }
    always = {"dataset arguments and sampler": "no hook sees them; the job's program has them"}
    return {**{name: why[name] for name in why if found[name] is None}, **always}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
