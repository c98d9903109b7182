"""Where an attach keeps its things: a store of the caller's and a spool on local disk."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slurm_io.errors import SlurmIoError, StoreError, UsageError
from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.runner.attach.target import Target
from slurm_io.runner.job_store import STORE_FILE, claim, join, make_folder, open_shared
from slurm_io.runner.place import Place, hold, identity, make_spool
from slurm_io.store.files import read_json, write_json_atomic

NO_RINGS = "no-rings"  # a name in the spool where there is nothing: the hook is not looked for
_FILE_MODE = 0o666
_MOST_STORES = 1000
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)

Take = Callable[[Path, dict[str, Any], str], bool]


@dataclass(frozen=True)
class AttachOptions:
    """What the user asked of ``slurm-io attach``."""

    duration_s: float
    output: Path | None = None
    nodes: tuple[str, ...] = ()
    load_hook: bool = False
    stacks: bool = False
    as_json: bool = False


def identity_of(target: Target) -> JobIdentity:
    """The job that a process tree is about: Slurm's words where its environment holds them.

    They are the owner's to forge, so only what cannot do harm is taken over.
    """
    kept = {name: value for name, value in target.environ.items() if name.startswith("SLURM_")}
    for name in ("SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT"):
        if not _PLAIN.fullmatch(kept.get(name, "")):
            kept.pop(name, None)
    if not re.fullmatch(r"[0-9]{1,10}", kept.get("SLURM_ARRAY_JOB_ID", "0"), re.ASCII):
        del kept["SLURM_ARRAY_JOB_ID"]
    name = kept.get("SLURM_JOB_NAME", "")
    if not name.isprintable() or len(name) > 256:
        del kept["SLURM_JOB_NAME"]
    if not re.fullmatch(r"[0-9]{1,6}", kept.get("SLURM_RESTART_COUNT", "0"), re.ASCII):
        del kept["SLURM_RESTART_COUNT"]
    job = identity(kept)
    return replace(job, user=target.user, uid=target.uid, work_dir=target.work_dir)


def node_of(target: Target, default: str) -> str:
    """Slurm's name of the node as the process knows it; it becomes part of a path."""
    node = target.environ.get("SLURMD_NODENAME", "")
    return node if _PLAIN.fullmatch(node) else default


def stores(output: Path | None, job: JobIdentity) -> Iterator[Path]:
    """The folders to try: `output`, else ``./slurm-io-<job>.attach``, numbered when taken."""
    if output is not None:
        yield output
        return
    first = f"slurm-io-{job.job}.attach"
    yield Path(first)
    yield from (Path(f"{first}-{number}") for number in range(2, _MOST_STORES))


def facts_of(place: Place, options: AttachOptions) -> dict[str, Any]:
    """``job.json``, or this node's part of it."""
    return {
        "schema": 1,
        "job": place.job.to_dict(),
        "step": None,
        "nodes_expected": list(place.nodes),
        "spool": {place.node: str(place.spool)},
        "command": None,
        "exit_code": None,
        "state": "RUNNING",
        "attached": {"duration_s": options.duration_s, "since_ts_ns": time.time_ns()},
    }


def open_store(
    store: Path, job: JobIdentity, nodes: tuple[str, ...], options: AttachOptions
) -> Path:
    """Make the store that the nodes of a job will join; its path. UsageError when it is taken.

    Absolute, but as the caller wrote it: what a link leads to here may bear another name there.
    """
    folder = make_folder(store)
    draft = Place(job, "", folder, folder, folder, (), None, None, nodes)
    if not open_shared(folder, facts_of(draft, options)):
        raise UsageError(f"{store} already holds a run: give another folder with -o")
    return store.absolute()


def take(
    spec: SamplerSpec,
    candidates: Iterable[Path],
    options: AttachOptions,
    nodes: tuple[str, ...],
    *,
    joins: bool = False,
) -> Place:
    """Make the spool, tell the sampler (`spec`, its spool put in), take a store; UsageError.

    `joins`: the store stands already and waits for this node.
    """
    spool = make_spool(None)
    try:
        lock = hold(spool)
        rings = Path(spec.ring_dir or spool / NO_RINGS)
        draft = Place(spec.job, spec.node, spool, spool, rings, (), lock, None, nodes)
        told = replace(spec, spool=str(spool), ring_dir=str(rings))
        (spool / "sampler.json").write_text(json.dumps(told.to_dict(), indent=1))
        return _settle(draft, candidates, options, join if joins else claim)
    except (OSError, SlurmIoError) as error:
        shutil.rmtree(spool, ignore_errors=True)
        if isinstance(error, SlurmIoError):
            raise
        raise UsageError(f"{error.strerror}: give another folder with -o, or set TMPDIR") from error


def close_store(store: Path) -> None:
    """Undo :func:`open_store`, as long as no node has come."""
    with contextlib.suppress(OSError):
        (store / STORE_FILE).unlink()
        store.rmdir()


def say_state(store: Path, state: str | None) -> None:
    """What ``job.json`` says of the job's state; None = not known. Raises StoreError."""
    told = read_json(store / STORE_FILE)
    write_json_atomic(store / STORE_FILE, {**told, "state": state}, mode=_FILE_MODE)


def read_store(store: Path) -> tuple[JobIdentity, tuple[str, ...]]:
    """(job, nodes) of a store that :func:`open_store` made. Raises StoreError."""
    told = read_json(store / STORE_FILE)
    try:
        nodes = told["nodes_expected"]
        if told.get("attached") is None or not all(isinstance(node, str) for node in nodes):
            raise KeyError("attached")
        return JobIdentity.from_dict(told["job"]), tuple(nodes)
    except (KeyError, TypeError) as error:
        raise StoreError(f"{store} is no store that an attach has opened") from error


def _settle(draft: Place, candidates: Iterable[Path], options: AttachOptions, take: Take) -> Place:
    tried = None
    for tried in candidates:
        place = replace(draft, store=make_folder(tried))
        if take(place.store, facts_of(place, options), place.node):
            return place
    raise UsageError(f"{tried} already holds a run: give another folder with -o")
