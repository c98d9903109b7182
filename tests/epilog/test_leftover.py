"""The finisher reads, as root, what a killed sampler left in the user's rings."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.epilog.leftover import read_rings
from slurm_io.errors import StoreError
from slurm_io.host.same_process import is_alive
from slurm_io.store.reader import open_job
from tests.crash.stores import report_of, said_missing, steps_of
from tests.crash.watched_job import wait_until
from tests.labs.slurmd_room import SlurmdRoom
from tests.sampler.ring_maker import RingMaker

pytestmark = pytest.mark.root
DONE = "analysed"
FIRST, THEN = 100, 400
MS = 1_000_000


@pytest.fixture
def ring(room: SlurmdRoom) -> RingMaker:
    """Of a profiled job: FIRST batches are in the spool, then the sampler was killed, and the job
    made batches up to THEN."""
    room.write_config("[epilog]\ngrace_s = 0\nsampler_stop_s = 3\n")
    room.prolog()
    room.wait_for_sampler()
    made = RingMaker(room.runtime() / "ring", n_records=1024, greeting={"rank": 0})
    os.chown(made.path, room.uid, room.gid)
    began = time.monotonic_ns()
    write(made, began, 0, FIRST)
    wait_until(lambda: steps_in(room.spool()) == FIRST)
    kill_the_sampler(room)
    write(made, began, FIRST, THEN)
    return made


def write(ring: RingMaker, began_ns: int, first: int, last: int) -> None:
    for index in range(first, last):
        ring.batch(began_ns + index * MS, began_ns + index * MS + MS // 2, index=index, step=index)


def kill_the_sampler(room: SlurmdRoom) -> None:
    claim = json.loads((room.spool() / "sampler.pid").read_text())
    os.kill(claim["pid"], signal.SIGKILL)
    wait_until(lambda: not is_alive(claim["pid"], claim["starttime"]))


def steps_in(spool: Path) -> int:
    try:
        return int(open_job(spool).table("steps", ["pid"]).num_rows)
    except StoreError:
        return 0


def store_of(room: SlurmdRoom) -> Path:
    return room.root / "work" / "slurm-io-7"


def batches_of(room: SlurmdRoom) -> list[int]:
    return [row["batch"] for row in steps_of(store_of(room))]


def told(room: SlurmdRoom) -> dict[str, Any]:
    """``leftover`` of the delivered meta.json."""
    meta = json.loads((store_of(room) / "node=t1" / "meta.json").read_text())
    found: dict[str, Any] = meta["leftover"]
    return found


def test_steps_after_the_kill_are_in_the_report(room: SlurmdRoom, ring: RingMaker) -> None:
    room.epilog()
    room.wait_for_log(DONE)
    assert batches_of(room) == list(range(THEN))
    assert "rings" not in room.log()
    assert not room.runtime().exists()
    report = report_of(store_of(room))
    assert report["time"]["steps"] >= THEN - 1
    assert "steps after that are from the hook's rings" in said_missing(report)


def test_a_normal_end_reads_no_ring(room: SlurmdRoom) -> None:
    room.write_config("[epilog]\ngrace_s = 0\nsampler_stop_s = 3\n")
    room.prolog()
    room.wait_for_sampler()
    room.epilog()
    room.wait_for_log(DONE)
    meta = json.loads((store_of(room) / "node=t1" / "meta.json").read_text())
    assert meta["clean_end"] is True
    assert "leftover" not in meta


def test_finishers_killed_one_after_the_other(room: SlurmdRoom, ring: RingMaker) -> None:
    for moment_s in (0.3, 0.7, 1.1):
        room.epilog()
        time.sleep(moment_s)
        pid = int(re.findall(r"finisher has pid ([0-9]+)", room.log())[-1])
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            break
    deadline = time.monotonic() + 90
    while room.spool().exists():
        assert time.monotonic() < deadline, room.log()
        room.epilog()
        time.sleep(1.0)
    assert batches_of(room) == list(range(THEN))


def test_traps_among_the_rings_reach_nothing_of_roots(room: SlurmdRoom, ring: RingMaker) -> None:
    folder = room.runtime() / "ring"
    secret = room.root / "roots-ring"
    shutil.copy(ring.path, secret)  # a ring that root owns: whoever follows the link would read it
    (folder / "ring-11-11").symlink_to(secret)
    os.link(secret, folder / "ring-12-12")
    os.mkfifo(folder / "ring-13-13")
    (folder / "ring-14-14").symlink_to("/dev/zero")
    room.epilog()
    room.wait_for_log(DONE)
    assert batches_of(room) == list(range(THEN))
    assert told(room)["refused"] == 4


def test_rings_of_the_next_run_are_not_taken(room: SlurmdRoom, ring: RingMaker) -> None:
    """The job comes again before this run's finisher is at work: its folder has that place."""
    room.prolog(SLURM_JOB_RESTART_COUNT="1")
    room.wait_for_sampler("7.1")
    theirs = RingMaker(room.runtime() / "ring", n_records=64, greeting={"rank": 0})
    os.chown(theirs.path, room.uid, room.gid)
    write(theirs, time.monotonic_ns(), 9000, 9010)
    spool = room.spool()
    read_rings(spool)
    assert steps_in(spool) == FIRST
    meta = json.loads((spool / "meta.json").read_text())
    assert "next run" in meta["leftover"]["unread"]


def test_rings_that_are_gone_are_told(room: SlurmdRoom, ring: RingMaker) -> None:
    shutil.rmtree(room.runtime())
    room.epilog()
    room.wait_for_log(DONE)
    assert batches_of(room) == list(range(FIRST))
    assert "not all of the hook's rings was read" in said_missing(report_of(store_of(room)))


def test_a_file_system_mounted_over_the_rings_is_not_entered(
    room: SlurmdRoom, ring: RingMaker
) -> None:
    """A user's own one may never answer, and root would wait for it in the kernel."""
    folder = room.runtime() / "ring"
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "over", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no mounts")
    try:
        read_rings(room.spool())
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
    meta = json.loads((room.spool() / "meta.json").read_text())
    assert meta["leftover"] == {"unread": "a tmpfs file system is mounted over them"}


def test_a_ring_folder_swapped_for_a_link_is_not_entered(room: SlurmdRoom, ring: RingMaker) -> None:
    """The folder above is root's, so the user cannot; and if he could."""
    folder = room.runtime() / "ring"
    folder.rename(room.root / "elsewhere")
    folder.symlink_to(room.root / "elsewhere")
    spool = room.spool()
    read_rings(spool)
    assert steps_in(spool) == FIRST
