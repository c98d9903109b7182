"""A job that attacks what root runs beside it: its rings, its texts, its folders."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from slurm_io.model import JobIdentity, SamplerSpec
from slurm_io.sampler.membership import Membership
from slurm_io.sampler.processes import Process
from slurm_io.sampler.rings import Rings
from tests.crash.stores import bring_home, report_of, steps_of
from tests.crash.watched_job import STEADY, stop, watched_job
from tests.sampler.packed_rows import drained_steps
from tests.sampler.ring_maker import RingMaker
from tests.sampler.running_sampler import facts, make_spool, sampler, wait_for

MAD_RECORDS = 4096
HOSTILE_TEXTS = [
    b'{"id": 1, "num_workers": NaN}',
    b'{"id": 2, "num_workers": 1e999}',
    b'{"id": 3, "pid": "x", "rank": [], "num_workers": {"a": 1}}',
    b'{"id": 4, "num_workers": ' + b"9" * 500 + b"}",
    b'{"id": ' + b"[" * 300 + b"]" * 300 + b"}",
    b'{"id": 5, "dataset": "\\ud800\\u0000\\u001b[2J", "path": "\\ud800\\u001b]0;x\\u0007"}',
    b'{"id": true, "path": 7}',
    b"[]", b"null", b"\xff\xfe", b"",
]  # fmt: skip


def fill(ring: RingMaker, records: int) -> None:
    """Write that many batches in one go."""
    for _ in range(records):
        ring.batch()


def many_full_rings(folder: Path, count: int) -> None:
    """Copies of one full ring under the names of processes that may well exist."""
    first = RingMaker(folder, n_records=MAD_RECORDS)
    fill(first, MAD_RECORDS)
    first.close()
    whole = first.path.read_bytes()
    for number in range(1, count):
        (folder / f"ring-{number}-{number}").write_bytes(whole)


def test_a_thousand_full_rings_are_read_in_bounded_bites(tmp_path: Path) -> None:
    many_full_rings(tmp_path, 40)
    rings = Rings(tmp_path, os.getuid(), 0, lambda pid, starttime, pid_ns: pid)
    bites = []
    while True:
        steps = drained_steps(rings)
        if not steps:
            break
        bites.append(len(steps))
    assert max(bites) <= 32768 + 512
    assert sum(bites) == 40 * MAD_RECORDS, "nothing is lost by reading it in turns"
    rings.close()


def test_no_ring_waits_for_ever_behind_the_others(tmp_path: Path) -> None:
    rings = Rings(tmp_path, os.getuid(), 0, lambda pid, starttime, pid_ns: pid)
    makers = [RingMaker(tmp_path, pid=pid, starttime=pid, n_records=16384) for pid in range(1, 5)]
    seen: set[object] = set()
    for _ in range(4):
        for maker in makers:
            maker.written = 0
            fill(maker, 16384)
        steps = drained_steps(rings)
        seen |= {row[2] for row in steps}
    assert seen == {1, 2, 3, 4}
    rings.close()
    for maker in makers:
        maker.close()


def test_hostile_texts_leave_a_report(tmp_path: Path) -> None:
    (tmp_path / "rings").mkdir(mode=0o700)
    spool = make_spool(tmp_path, os.getpid(), interval_s=0.1)
    ring = RingMaker(tmp_path / "rings", n_records=1024, greeting={"world_size": -1, "torch": []})
    now = time.monotonic_ns()
    for text_id, text in enumerate(HOSTILE_TEXTS, 1):
        for kind in (1, 2, 3, 4, 7, 10):
            number = text_id * 100 + kind
            ring.event(
                kind, now, now + 5, parts=ring.text(number, text), text_id=number, bytes=2**62
            )
    for number in range(50):
        ring.batch(now + number * 10**6, now + number * 10**6 + 5 * 10**5, loader=number % 6)
    with sampler(spool) as process:
        wait_for(spool / "meta.json")
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    ring.close()
    meta, own = facts(spool, "meta.json"), facts(spool, "self.json")
    assert meta["clean_end"] is True, "no text keeps meta.json from being written"
    assert own["collectors"]["store"]["failures"] == 0
    report = report_of(bring_home(spool, tmp_path / "store"))
    assert "\x1b" not in json.dumps(report)
    assert len(steps_of(tmp_path / "store")) == 50


def test_a_job_that_tears_its_ring_apart_hurts_only_its_own_record(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    with watched_job(rings) as job:
        spool = make_spool(tmp_path, job.pid, interval_s=0.1)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            time.sleep(0.5)
            stop(job)
            (ring,) = rings.iterdir()
            with ring.open("r+b") as file:
                file.truncate(5000)
            (rings / "ring-1-1").symlink_to("/etc/shadow")
            os.mkfifo(rings / "ring-2-2")
            os.link(ring, rings / "ring-3-3")
            (rings / "ring-4-4").mkdir()
            with (rings / "ring-5-5").open("wb") as file:
                file.truncate(1 << 40)
            time.sleep(1.0)
            rings.rename(tmp_path / "moved")
            rings.symlink_to("/etc")
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    assert facts(spool, "self.json")["hook"]["refused"] >= 4
    assert facts(spool, "meta.json")["clean_end"] is True
    report_of(bring_home(spool, tmp_path / "store"))


def test_a_sampler_short_of_descriptors_goes_on(tmp_path: Path) -> None:
    """Thousands of threads and a low limit: what cannot be looked at is not gone."""
    with watched_job(tmp_path / "rings", STEADY) as job:
        spool = make_spool(tmp_path, job.pid, interval_s=0.1)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
            before = facts(spool, "meta.json")["clean_end"]
            time.sleep(1.0)
            assert (process.poll(), before) == (None, False)
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
    assert facts(spool, "meta.json")["clean_end"] is True


@pytest.mark.parametrize(("process_uid", "is_member"), [(0, False), (1000, True)])
def test_a_setuid_child_is_not_looked_into_for_the_user(process_uid: int, is_member: bool) -> None:
    """What su or sudo opens is root's business; the report goes to the job's user."""
    job = JobIdentity("c", "7", 0, "u", 1000)
    judge = Membership(SamplerSpec(job=job, node="t1", mode="slurm", spool="/s", ring_dir="/r"))
    child = Process(77, 5, 70, "sudo", process_uid, 1)
    assert (judge.claim(child, lambda pid: pid == 70) is not None) is is_member
    judge.cgroup_pids = frozenset({77})
    assert (judge.claim(child, lambda pid: False) is not None) is is_member
