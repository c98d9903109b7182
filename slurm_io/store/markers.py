"""Marker files in a job store: which nodes have delivered, and which one leads the analysis.

Stores lie on shared file systems, so everything here rests on link and rename, which are atomic
on NFS as well, and ages are measured by the file server's clock alone.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.store.compacted import read_marker
from slurm_io.store.files import why, write_json_atomic
from slurm_io.store.parts import list_names

_NODE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}\Z")
_DONE = "DONE."
_LEADER = ".leader"
STALE_LEADER_S = 1800.0


def check_node_name(node: str) -> str:
    """The name itself when it is safe in a file name; StoreError otherwise."""
    if _NODE_NAME.match(node) is None:
        raise StoreError(f"{node[:80]!r} is no node name")
    return node


def mark_done(store: Path, node: str, info: dict[str, Any], mode: int = 0o600) -> None:
    """Say that `node` has delivered all it has: ``{ts_ns, clean, missing}``."""
    write_json_atomic(store / f"{_DONE}{check_node_name(node)}", info, fsync=True, mode=mode)


def done_file(node: str) -> str:
    """Name of a node's marker."""
    return f"{_DONE}{node}"


def arrivals(store: Path) -> dict[str, int]:
    """Node -> when its DONE marker was written, ns: a node that delivers again counts as new.

    Of nodes inside a compacted store the marker is gone and its time is remembered.
    """
    found = {}
    for name in list_names(store):
        node = name.removeprefix(_DONE)
        written_ns = _written_ns(store / name) if name.startswith(_DONE) else None
        if written_ns is not None and _NODE_NAME.match(node):
            found[node] = written_ns
    inside = {node: each.done_ns for node, each in read_marker(store).items()}
    return {**inside, **found}


def arrived(store: Path) -> set[str]:
    """The nodes that have delivered."""
    return set(arrivals(store))


def claim_leader(store: Path, node: str, stale_s: float = STALE_LEADER_S) -> bool:
    """Whether the caller leads from now on; one at a time, until :func:`release_leader`.

    A claim older than `stale_s` counts as left behind by a dead leader and is taken over.
    """
    check_node_name(node)
    lock = store / _LEADER
    mine = store / f"{_LEADER}-{secrets.token_hex(8)}"
    try:
        _create(mine, node)
        try:
            now_s = mine.stat().st_mtime
            if _link(mine, lock):
                return True
            return _set_stale_aside(lock, mine, now_s, stale_s) and _link(mine, lock)
        finally:
            with suppress(FileNotFoundError):
                mine.unlink()
    except OSError as exc:
        raise StoreError(f"cannot write {lock}: {why(exc)}") from exc


def release_leader(store: Path, node: str) -> None:
    """Give the lead back; nothing happens when another node has it."""
    lock = store / _LEADER
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if file.read(256) == node.encode():
                lock.unlink()
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError(f"cannot remove {lock}: {why(exc)}") from exc


def keep_lead(store: Path, node: str) -> None:
    """Say that the leader still lives: long work must not look left behind.

    StoreError when another node leads by now: what was prepared must not be put in place.
    """
    lock = store / _LEADER
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if file.read(256) == node.encode():
                os.utime(fd)
                return
    except OSError as exc:
        raise StoreError(f"cannot read {lock}: {why(exc)}") from exc
    raise StoreError(f"{store}: another node leads by now")


def _written_ns(path: Path) -> int | None:
    """When a regular file was written; None for anything else."""
    try:
        facts = path.lstat()
    except OSError:
        return None
    return facts.st_mtime_ns if stat.S_ISREG(facts.st_mode) else None


def _create(path: Path, node: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(node.encode())


def _link(mine: Path, lock: Path) -> bool:
    try:
        os.link(mine, lock, follow_symlinks=False)
    except FileExistsError:
        return False
    return True


def _set_stale_aside(lock: Path, mine: Path, now_s: float, stale_s: float) -> bool:
    """Move a stale lock away; False when it is fresh, or when somebody else was faster."""
    try:
        if now_s - lock.lstat().st_mtime < stale_s:
            return False
        aside = mine.with_name(f"{mine.name}.stale")
        lock.rename(aside)
    except FileNotFoundError:
        return True  # released meanwhile
    try:
        if now_s - aside.lstat().st_mtime >= stale_s:
            return True
        _link(aside, lock)  # we took a fresh one by mistake: put it back
        return False
    finally:
        aside.unlink()
