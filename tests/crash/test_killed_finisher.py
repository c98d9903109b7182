"""kill -9 of the Epilog's finisher, then the finish again: nothing lost, nothing doubled."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from slurm_io.errors import StoreError
from slurm_io.store.reader import open_job
from tests.crash.stores import steps_of
from tests.crash.watched_job import wait_until
from tests.labs.slurmd_room import SlurmdRoom
from tests.sampler.ring_maker import RingMaker

pytestmark = pytest.mark.root
BATCHES = 500


def record(room: SlurmdRoom) -> list[int]:
    """A profiled job whose batches lie in the spool; when each of them began."""
    room.write_config("[epilog]\ngrace_s = 0\nsampler_stop_s = 3\n")
    room.prolog()
    room.wait_for_sampler()
    rings = room.runtime() / "ring"
    ring = RingMaker(rings, n_records=1024)
    began = time.monotonic_ns()
    starts = [began + 1_000_000 * number for number in range(BATCHES)]
    for start_ns in starts:
        ring.batch(start_ns, start_ns + 500_000)
    ring.close()
    os.chown(ring.path, room.uid, room.gid)
    wait_until(lambda: steps_in(room.spool()) == BATCHES)
    return starts


def steps_in(spool: Path) -> int:
    try:
        return int(open_job(spool).table("steps", ["pid"]).num_rows)
    except StoreError:
        return 0


def finishers(room: SlurmdRoom) -> list[int]:
    """Pids of the finishers that epilogs of this room started."""
    return [int(pid) for pid in re.findall(r"finisher has pid ([0-9]+)", room.log())]


def finish_killed_at(room: SlurmdRoom, moments_s: list[float]) -> None:
    """One epilog after the other, each one's finisher killed; then one that may end."""
    for moment_s in moments_s:
        room.epilog()
        time.sleep(moment_s)
        with contextlib.suppress(ProcessLookupError):
            os.kill(finishers(room)[-1], signal.SIGKILL)
    store = room.root / "work" / "slurm-io-7"
    deadline = time.monotonic() + 60
    while room.spool().exists():
        assert time.monotonic() < deadline, room.log()
        room.epilog()
        time.sleep(1.0)
    assert (store / "DONE.t1").exists(), room.log()


def check(room: SlurmdRoom, starts: list[int]) -> None:
    store = room.root / "work" / "slurm-io-7"
    assert [row["mono_ns"] for row in steps_of(store)] == starts
    left = {path.name for path in store.iterdir() if path.name.startswith("node=")}
    assert left == {"node=t1"}, "no half copies stay"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_finisher_killed_again_and_again(room: SlurmdRoom, seed: int) -> None:
    chance = random.Random(seed)
    starts = record(room)
    finish_killed_at(room, [chance.uniform(0.0, 1.5) for _ in range(3)])
    check(room, starts)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 15))
def test_a_finisher_killed_many_times(room: SlurmdRoom, seed: int) -> None:
    chance = random.Random(seed)
    starts = record(room)
    finish_killed_at(room, [chance.uniform(0.0, 2.0) for _ in range(5)])
    check(room, starts)


def test_what_another_jobs_finisher_could_not_remove_goes_too(room: SlurmdRoom) -> None:
    """A user may leave more files in a ring folder than rm(1) removes within its time."""
    record(room)
    left = room.runtime().parent / ".old-3-0.99"
    (left / "ring").mkdir(parents=True)
    (left / "ring" / "litter").touch()
    finish_killed_at(room, [])
    wait_until(lambda: not left.exists())
