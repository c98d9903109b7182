"""After the command: seal the spool, deliver it to the store, analyse, compact. Each a process.

Sealing and analysis import pyarrow and polars; the wrapper stays small by leaving that to children.
Whatever fails is noted in ``run.log`` of the store, and the spool is kept so that nothing is lost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from slurm_io.errors import SlurmIoError
from slurm_io.runner.child import CommandEnd
from slurm_io.runner.gather import WAIT_S, gather
from slurm_io.runner.job_store import write_exit_code
from slurm_io.runner.place import Place, write_job_file
from slurm_io.sampler.ended import ended_by_itself
from slurm_io.store.compacted import is_worthwhile


def finish(place: Place, end: CommandEnd, *, report: bool, stayed: int = 0) -> None:
    """Bring the recording home and write the report; never raises for a fault of ours.

    `stayed` is how many tasks of the node still ran when their sampler had to go.
    """
    exit_code = None if end.errno is not None else os.waitstatus_to_exitcode(end.status)
    write_job_file(place, exit_code=exit_code)
    missing = (f"{stayed} tasks outlived their sampler",) if stayed else ()
    if bring_home(place, missing):
        _analyse(place, report)
    _tell(place, report)


def bring_home(place: Place, missing: tuple[str, ...] = ()) -> bool:
    """Seal the spool, deliver it and remove it; False, with the reason in ``run.log``, when it
    could not be delivered and stays."""
    if not ended_by_itself(place.spool) and any(place.ring_dir.glob("ring-*")):
        child(place, "slurm_io.sampler.leftover", str(place.spool))
    child(place, "slurm_io.store.seal", str(place.spool))  # what it cannot seal goes as it is
    delivered = _deliver(place, missing)
    if delivered:
        shutil.rmtree(place.spool, ignore_errors=True)
    return delivered


def _analyse(place: Place, report: bool) -> None:
    """At once when this node is the only one, else together with the others."""

    def work() -> None:
        if len(place.nodes) > 1:
            write_exit_code(place.store)
        if report:
            _look_at_saves(place)
            child(place, "slurm_io.analysis.api", str(place.store))

    def compact() -> None:
        if report:
            compact_store(place)

    try:
        if len(place.nodes) == 1:
            work()
            compact()
            return
        gather(place.store, place.node, place.nodes, WAIT_S if report else 0.0, work, compact)
    except (SlurmIoError, OSError) as error:
        _note(place, f"not analysed: {error}")


def _look_at_saves(place: Place) -> None:
    """Whether what the job saved is whole; nothing to do where no hook nor request told of it."""
    if any(place.store.glob("node=*/events*")) or "ckpt=" in (place.job.comment or ""):
        child(place, "slurm_io.staging.checkpoints.look", str(place.store))


def compact_store(place: Place) -> None:
    """A long or wide job's files become a dozen; what cannot be compacted stays as it is."""
    if is_worthwhile(place.store):
        leader = (place.node,) if len(place.nodes) > 1 else ()
        child(place, "slurm_io.store.compact", str(place.store), *leader)


def _deliver(place: Place, missing: tuple[str, ...]) -> bool:
    from slurm_io.store.deliver import deliver

    try:
        deliver(place.spool, place.store, place.node, clean=not missing, missing=missing)
    except (SlurmIoError, OSError) as error:
        _note(place, f"delivery failed, the data is in {place.spool}: {error}")
        return False
    return True


def child(place: Place, module: str, *arguments: str) -> None:
    """Run ``python -m MODULE ARGUMENTS`` quietly; its complaints go to ``run.log``."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        _note(place, f"{module} ended with {done.returncode}: {_last_line(done.stderr)}")


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def _note(place: Place, text: str) -> None:
    # The store may lie where others can write: a link there must not lead us to another file.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(OSError), os.fdopen(os.open(_log_of(place), flags, 0o666), "w") as log:
        log.write(f"{text}\n")


def _log_of(place: Place) -> Path:
    return place.store / "run.log"


def _tell(place: Place, report: bool) -> None:
    """One line for a person at a terminal; scripts and logs get nothing of ours."""
    if not sys.stderr.isatty():
        return
    log = _log_of(place)
    if log.exists():
        print(f"slurm-io: something went wrong, see {log}", file=sys.stderr)
    elif report:
        print(f"slurm-io: report with `slurm-io report {place.store}`", file=sys.stderr)
