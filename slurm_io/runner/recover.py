"""Bring home what a killed ``slurm-io run`` left in its spool, when its report is asked for.

``job.json`` names the spool, and a store may come from anybody: nothing is sealed, delivered or
removed unless store and spool belong to this user, the spool bears the name and the
``sampler.json`` that a run of this user's gave it, and neither its wrapper (which holds a lock as
long as it lives) nor its sampler is at work.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.host.same_process import is_alive
from slurm_io.runner.job_store import told_by_nodes
from slurm_io.runner.meeting import MEETING_FILES
from slurm_io.runner.place import LOCK_FILE, hold, ring_dir_prefix, spool_prefix
from slurm_io.sampler.leftover import take_over
from slurm_io.store.deliver import deliver
from slurm_io.store.files import read_json_if_there
from slurm_io.store.markers import arrived
from slurm_io.store.seal import seal_spool


def recover(store: Path) -> list[str]:
    """Names of the nodes whose spools were brought home now.

    Raises StoreError while the run goes on, and when sealing or delivery fails; the spool then
    stays as it is. Running it twice, or again after it was killed, loses and doubles nothing.
    """
    if not _is_own_folder(store):
        return []
    brought = [
        node
        for told in told_by_nodes(store)
        for node, spool in _spools(told)
        if _bring_home(store, node, spool, told)
    ]
    if brought:
        _look_at_saves(store)
    return brought


def _look_at_saves(store: Path) -> None:
    """Whoever killed the run may have torn a checkpoint. Failing means that nobody looked."""
    subprocess.run(
        [sys.executable, "-m", "slurm_io.staging.checkpoints.look", str(store)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


def _spools(told: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    named = told.get("spool")
    for node, path in named.items() if isinstance(named, dict) else ():
        if (
            isinstance(path, str)
            and "\0" not in path
            and Path(path).name.startswith(spool_prefix())
        ):
            yield node, Path(path)


def _bring_home(store: Path, node: str, spool: Path, told: dict[str, Any]) -> bool:
    if not _is_own_folder(spool):
        return False
    lock = hold(spool)
    if lock is None:
        raise StoreError(f"{store}: this run still goes on: ask for its report when it has ended")
    try:
        return _seal_and_deliver(store, node, spool, told)
    finally:
        os.close(lock)


def _seal_and_deliver(store: Path, node: str, spool: Path, told: dict[str, Any]) -> bool:
    spec = read_json_if_there(spool / "sampler.json") or {}
    if {path.name for path in spool.iterdir()} <= {LOCK_FILE}:
        _remove_spool(spool)  # the last removal was cut short just before its end
    if not told.get("job") or spec.get("job") != told["job"] or spec.get("node") != node:
        return False
    _refuse_while_sampled(store, spool)
    is_new = node not in arrived(store)
    if is_new:
        unread = _read_rings(spool)
        missing = tuple(f"{name} could not be sealed" for name in seal_spool(spool).failed)
        killed = "slurm-io attach" if spec.get("attached_by") else "slurm-io run"
        deliver(spool, store, node, False, (f"{killed} was killed", *unread, *missing))
    if not spec.get("reads_along"):  # the rings of the recording beside us are not ours
        _remove_rings(spec.get("ring_dir"))
    _remove_spool(spool)
    return is_new


def _read_rings(spool: Path) -> tuple[str, ...]:
    """Steps that a killed sampler left in the hook's rings; what could not be done."""
    try:
        take_over(spool)
    except StoreError as error:
        return (f"steps in the hook's rings could not be read: {error}",)
    return ()


def _refuse_while_sampled(store: Path, spool: Path) -> None:
    """The wrapper alone was killed: command and sampler go on, and the spool with them."""
    claim = read_json_if_there(spool / "sampler.pid") or {}
    pid, starttime = claim.get("pid"), claim.get("starttime")
    if isinstance(pid, int) and isinstance(starttime, int) and is_alive(pid, starttime):
        raise StoreError(
            f"{store}: the command still runs, watched by process {pid}: ask for its report when "
            "it has ended"
        )


def _is_own_folder(path: Path) -> bool:
    """A real folder of this user's, no link to one."""
    try:
        facts = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid()


def _remove_rings(ring_dir: object) -> None:
    if not isinstance(ring_dir, str):
        return
    base = Path(ring_dir).parent  # of a hook that an attach had loaded
    if base.name.startswith(ring_dir_prefix()) and _is_own_folder(base):
        shutil.rmtree(base, ignore_errors=True)
        return
    if not Path(ring_dir).name.startswith(ring_dir_prefix()):
        return
    if not _is_own_folder(Path(ring_dir)):
        return
    for pattern in ("ring-*", *MEETING_FILES):
        for path in Path(ring_dir).glob(pattern):
            with contextlib.suppress(OSError):
                path.unlink()
    with contextlib.suppress(OSError):
        Path(ring_dir).rmdir()


def _remove_spool(spool: Path) -> None:
    """``sampler.json`` goes last: without it a removal cut short could not be taken up again."""
    for path in spool.iterdir():
        if path.name != "sampler.json":
            with contextlib.suppress(OSError):
                path.unlink()
    shutil.rmtree(spool, ignore_errors=True)
