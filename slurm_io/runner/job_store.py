"""Which folder becomes the store of a run, and what its ``job.json`` says.

A store is taken by creating ``job.json``, which only one run can. A step on several nodes shares
one: the first node creates it, each node then adds ``job.<node>.json`` with its own spool and exit
code, so that no node ever rewrites what another has written.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError, UsageError
from slurm_io.model import JobIdentity
from slurm_io.runner.step import Step
from slurm_io.store.compacted import told_inside
from slurm_io.store.files import read_json, write_all, write_json_atomic
from slurm_io.store.small_files import is_known_version, read_or_note

STORE_FILE = "job.json"
_NODE_FILES = "job.*.json"
_MOST_RUNS = 1000
_FILE_MODE = 0o666  # less the user's umask


def candidates(
    output: Path | None, job: JobIdentity, step: Step | None, *, numbered: bool
) -> Iterator[Path]:
    """The folders to try, in order. A default name gets a number when it is taken; `output` only
    where `numbered` says so."""
    suffix = _own_suffix() if step is None else f".step{step.number}"
    first = output or Path(f"slurm-io-{job.job}{suffix}")
    yield first
    if output is None or numbered:
        yield from (Path(f"{first}-{number}") for number in range(2, _MOST_RUNS))


def _own_suffix() -> str:
    """Where the site's hooks profile the job too, ``slurm-io-<job>`` is the Epilog's to write."""
    return ".run" if "SLURM_IO_RING_DIR" in os.environ else ""


def make_folder(store: Path) -> Path:
    """The folder, absolute; UsageError when it cannot be made or written to."""
    try:
        store.mkdir(mode=0o700, parents=True, exist_ok=True)  # paths and command lines are private
    except OSError as error:
        raise UsageError(
            f"cannot make the store {store}: {error.strerror}; give another with -o"
        ) from error
    if not os.access(store, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to the store {store}: give another folder with -o")
    return store.resolve()


def claim(store: Path, facts: dict[str, Any], node: str) -> bool:
    """Take `store` for the run that `facts` describe, or join it as one more node of its step.

    False when another run has it. Raises OSError, StoreError.
    """
    joins = len(facts["nodes_expected"]) > 1
    own = {**facts, "nodes_expected": [node]}
    common = {**facts, "spool": None} if joins else facts
    is_first = _create(store / STORE_FILE, common)
    if is_first and not joins:
        return True
    if not is_first and not (joins and _is_of_same_step(store, facts, node)):
        return False
    return _create(store / node_file(node), own)


def open_shared(store: Path, facts: dict[str, Any]) -> bool:
    """Take `store` for nodes that will :func:`join` it; False when another run has it."""
    return _create(store / STORE_FILE, {**facts, "spool": None})


def join(store: Path, facts: dict[str, Any], node: str) -> bool:
    """Take part in the store that waits for `node`; False when it does not. Raises OSError."""
    own = {**facts, "nodes_expected": [node]}
    return _is_of_same_step(store, facts, node) and _create(store / node_file(node), own)


def node_file(node: str) -> str:
    """Name of the file that one node of several writes."""
    return f"job.{node}.json"


def told_by_nodes(store: Path) -> list[dict[str, Any]]:
    """``job.json`` and every ``job.<node>.json`` that can be read, or was when it was compacted.

    StoreError when a newer slurm_io wrote ``job.json``.
    """
    first = read_or_note(store / STORE_FILE, [])
    if first is not None and not is_known_version(store / STORE_FILE, first, []):
        first = None
    of_nodes = {node_file(node): told for node, told in told_inside(store).items()}
    for path in store.glob(_NODE_FILES):
        with contextlib.suppress(StoreError):
            of_nodes[path.name] = read_json(path)
    return [*([] if first is None else [first]), *(of_nodes[name] for name in sorted(of_nodes))]


def write_own(store: Path, facts: dict[str, Any], node: str) -> None:
    """Replace what this node said when it claimed the store. Raises StoreError."""
    is_alone = len(facts["nodes_expected"]) == 1
    path = store / (STORE_FILE if is_alone else node_file(node))
    write_json_atomic(path, {**facts, "nodes_expected": [node]}, mode=_FILE_MODE)


def write_exit_code(store: Path) -> None:
    """Say in ``job.json`` how the nodes ended: the first failure among them, None = not known.

    To be called by one node at a time. Raises StoreError.
    """
    told = read_json(store / STORE_FILE)
    of_nodes = told_by_nodes(store)[1:]
    codes = [each.get("exit_code") for each in of_nodes]
    failed = next((code for code in codes if code), None)
    is_known = len(codes) == len(told["nodes_expected"]) and None not in codes
    code = failed if failed is not None else (0 if is_known else None)
    write_json_atomic(store / STORE_FILE, {**told, "exit_code": code}, mode=_FILE_MODE)


def _is_of_same_step(store: Path, facts: dict[str, Any], node: str) -> bool:
    """Whether the store is ours, of this very step, and still waits for this node."""
    owner = os.lstat(store)
    if not stat.S_ISDIR(owner.st_mode) or owner.st_uid != os.geteuid():
        return False
    try:
        told = read_json(store / STORE_FILE)
    except StoreError:
        return False
    return (
        told.get("step") == facts["step"]
        and node in (told.get("nodes_expected") or ())
        and _identity(told) == _identity(facts)
    )


def _identity(facts: dict[str, Any]) -> list[Any]:
    job = facts.get("job")
    keys = ("cluster", "job", "restart", "uid")
    return [job.get(key) for key in keys] if isinstance(job, dict) else []


def _create(path: Path, facts: dict[str, Any]) -> bool:
    """A new file, whole from the first moment; False when there is one of that name."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    data = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
    try:
        _write_new(aside, data)
        try:
            os.link(aside, path, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            return _write_if_absent(path, data)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()


def _write_if_absent(path: Path, data: bytes) -> bool:
    try:
        _write_new(path, data)
    except FileExistsError:
        return False
    return True


def _write_new(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, _FILE_MODE)
    try:
        write_all(fd, data)
    finally:
        os.close(fd)
