"""From the epilog to the report, with the real sampler, sealing and analysis; and the attacks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from slurm_io.store.reader import open_job
from tests.labs.cluster_parts import is_running
from tests.labs.slurmd_room import SlurmdRoom
from tests.store.wide_store import make_store

pytestmark = pytest.mark.root
DONE = "analysed"
QUICK = "[epilog]\ngrace_s = 0\nsampler_stop_s = 3\n"


@pytest.fixture
def profiled(room: SlurmdRoom) -> SlurmdRoom:
    """A room in which the prolog ran and the sampler is at work."""
    room.write_config(QUICK)
    room.prolog()
    room.wait_for_sampler()
    return room


def report_of(room: SlurmdRoom, name: str = "slurm-io-7") -> Path:
    return room.root / "work" / f"{name}.txt"


def finish_again(room: SlurmdRoom, expect: str) -> str:
    """Another epilog, until its finisher said `expect` once more."""
    before = room.log().count(expect)
    room.epilog()
    deadline = time.monotonic() + 60
    while room.log().count(expect) == before:
        assert time.monotonic() < deadline, room.log()
        time.sleep(0.1)
    return room.log()


def test_the_report_comes_home_and_nothing_is_left(profiled: SlurmdRoom) -> None:
    pid = profiled.wait_for_sampler()
    assert profiled.epilog(SLURM_JOB_EXIT_CODE2="3:0") == 0
    profiled.wait_for_log(DONE)
    store = profiled.root / "work" / "slurm-io-7"
    for path in (store, store / "job.json", store / "node=t1" / "meta.json", report_of(profiled)):
        assert path.stat().st_uid == profiled.uid, path
        assert path.stat().st_mode & 0o077 == 0, path
    assert (store / "DONE.t1").exists()
    assert (store / "report.json").exists()
    assert json.loads((store / "job.json").read_text())["exit_code"] == 3
    assert json.loads((store / "job.json").read_text())["nodes_expected"] == ["t1"]
    assert not is_running(pid)
    assert not profiled.spool().parent.exists()
    assert not profiled.runtime().exists()


def test_the_finisher_goes_before_any_job_when_memory_runs_out(profiled: SlurmdRoom) -> None:
    os.kill(profiled.sampler_pid(), signal.SIGSTOP)  # the finisher waits for it
    profiled.epilog()
    (found,) = re.findall(r"finisher has pid (\d+)", profiled.wait_for_log("finisher has pid"))
    adjustment, deadline = Path(f"/proc/{found}/oom_score_adj"), time.monotonic() + 20
    while adjustment.read_text().strip() != "500":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(profiled.sampler_pid(), signal.SIGCONT)
    profiled.wait_for_log(DONE)


def test_an_epilog_without_a_prolog_does_nothing(room: SlurmdRoom) -> None:
    assert room.epilog() == 0
    assert "nothing to finish" in room.log()
    assert not list((room.root / "work").iterdir())


def test_a_second_epilog_does_nothing_more(profiled: SlurmdRoom) -> None:
    profiled.epilog()
    profiled.wait_for_log(DONE)
    before = report_of(profiled).stat()
    assert profiled.epilog() == 0
    assert "nothing to finish" in profiled.log()
    assert report_of(profiled).stat().st_mtime_ns == before.st_mtime_ns


def test_two_epilogs_at_once_deliver_once(profiled: SlurmdRoom) -> None:
    profiled.epilog()
    profiled.epilog()
    log = profiled.wait_for_log(DONE)
    assert log.count("delivered to") == 1


def test_the_epilog_of_a_requeued_run_is_told_the_next_runs_number(profiled: SlurmdRoom) -> None:
    profiled.epilog(SLURM_JOB_RESTART_COUNT="1")
    profiled.wait_for_log(DONE)
    assert report_of(profiled).exists()
    profiled.prolog(SLURM_JOB_RESTART_COUNT="1")
    profiled.wait_for_sampler("7.1")
    profiled.epilog(SLURM_JOB_RESTART_COUNT="1")
    deadline = time.monotonic() + 60
    while not report_of(profiled, "slurm-io-7.1").exists():
        assert time.monotonic() < deadline, profiled.log()
        time.sleep(0.1)


def test_a_late_finisher_leaves_the_next_runs_folder_alone(profiled: SlurmdRoom) -> None:
    os.kill(profiled.wait_for_sampler(), signal.SIGSTOP)  # so that the first finisher has to wait
    profiled.epilog()
    profiled.prolog(SLURM_JOB_RESTART_COUNT="1")
    profiled.wait_for_log(DONE)
    assert (profiled.runtime() / "restart").read_text() == "1\n"
    assert not [p for p in profiled.runtime().parent.iterdir() if p.name.startswith(".old")]


def test_an_unprofiled_jobs_runtime_folder_goes_too(room: SlurmdRoom) -> None:
    room.prolog(SLURM_JOB_COMMENT="slurm-io: profile=off")
    assert room.runtime().exists()
    room.epilog()
    deadline = time.monotonic() + 20
    while room.runtime().exists():
        assert time.monotonic() < deadline, room.log()
        time.sleep(0.1)


def test_a_killed_sampler_costs_its_last_seconds_only(profiled: SlurmdRoom) -> None:
    os.kill(profiled.wait_for_sampler(), signal.SIGKILL)
    profiled.epilog()
    profiled.wait_for_log(DONE)
    assert report_of(profiled).exists()


def test_a_sampler_that_does_not_end_is_killed_and_that_is_told(profiled: SlurmdRoom) -> None:
    pid = profiled.wait_for_sampler()
    os.kill(pid, signal.SIGSTOP)
    profiled.epilog()
    profiled.wait_for_log(DONE)
    assert not is_running(pid)
    marker = json.loads((profiled.root / "work" / "slurm-io-7" / "DONE.t1").read_text())
    assert marker["clean"] is False
    assert "sampler killed" in marker["missing"]


def test_a_stranger_with_the_samplers_pid_is_not_touched(profiled: SlurmdRoom) -> None:
    os.kill(profiled.wait_for_sampler(), signal.SIGKILL)
    stranger = subprocess.Popen(["/bin/sleep", "60"])
    try:
        for name in ("sampler.pid", "started.json"):
            recycled = {"pid": stranger.pid, "starttime": 1}
            (profiled.spool() / name).write_text(json.dumps(recycled))
        profiled.epilog()
        profiled.wait_for_log(DONE)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def work_dir(room: SlurmdRoom) -> Path:
    return room.root / "work"


def test_a_work_dir_swapped_for_a_link_to_roots_folder(profiled: SlurmdRoom) -> None:
    victim = profiled.root / "etc"
    victim.mkdir(mode=0o755)
    work_dir(profiled).rmdir()
    work_dir(profiled).symlink_to(victim)
    profiled.epilog()
    profiled.wait_for_log("unfinished")
    assert not list(victim.iterdir())
    assert (profiled.spool() / "meta.json").exists(), "the data waits in the spool"


def test_a_work_dir_that_is_gone_keeps_the_data_until_it_is_back(profiled: SlurmdRoom) -> None:
    gone = profiled.root / "gone"
    spec = json.loads((profiled.spool() / "sampler.json").read_text())
    spec["job"]["work_dir"] = str(gone / "job")
    (profiled.spool() / "sampler.json").write_text(json.dumps(spec))
    profiled.epilog()
    log = profiled.wait_for_log("unfinished")
    assert "gone/job" in log
    assert (profiled.spool() / "meta.json").exists()
    (gone / "job").mkdir(parents=True)
    os.chown(gone / "job", profiled.uid, profiled.gid)
    finish_again(profiled, DONE)
    assert (gone / "job" / "slurm-io-7.txt").exists()
    assert not profiled.spool().exists()


def test_a_report_path_that_is_a_link_to_roots_file(profiled: SlurmdRoom) -> None:
    victim = profiled.root / "shadow"
    victim.write_text("kept")
    report_of(profiled).symlink_to(victim)
    profiled.epilog()
    log = profiled.wait_for_log("unfinished")
    assert victim.read_text() == "kept"
    assert report_of(profiled).is_symlink()
    assert "not ours" in log
    assert (work_dir(profiled) / "slurm-io-7" / "report.txt").exists()


def test_a_users_own_file_at_the_reports_path_is_kept(profiled: SlurmdRoom) -> None:
    report_of(profiled).write_text("my notes")
    os.chown(report_of(profiled), profiled.uid, profiled.gid)
    profiled.epilog()
    profiled.wait_for_log("not ours")
    assert report_of(profiled).read_text() == "my notes"


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_store_prepared_by_somebody_else_gets_nothing(profiled: SlurmdRoom, kind: str) -> None:
    work_dir(profiled).chmod(0o1777)
    theirs, store = profiled.root / "theirs", work_dir(profiled) / "slurm-io-7"
    if kind == "link":
        theirs.mkdir()
        theirs.chmod(0o777)
        store.symlink_to(theirs)
        os.chown(store, 33, 33, follow_symlinks=False)
    else:
        store.mkdir()
        store.chmod(0o777)
        os.chown(store, 33, 33)
    profiled.epilog()
    profiled.wait_for_log("unfinished")
    assert not list(store.iterdir())
    assert (profiled.spool() / "meta.json").exists()


def test_a_hostile_tree_in_the_ring_folder_is_removed_and_followed_nowhere(
    profiled: SlurmdRoom,
) -> None:
    victim = profiled.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("kept")
    ring = profiled.runtime() / "ring"
    (ring / "link").symlink_to(victim)
    here = os.open(ring, os.O_RDONLY)
    for _ in range(1500):  # deeper than Python's recursion goes and longer than PATH_MAX
        os.mkdir("d" * 10, dir_fd=here)
        below = os.open("d" * 10, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    profiled.epilog()
    profiled.wait_for_log(DONE)
    assert not profiled.runtime().exists()
    deadline = time.monotonic() + 60
    while list(profiled.runtime().parent.iterdir()):  # the last thing a finisher does
        assert time.monotonic() < deadline, profiled.log()
        time.sleep(0.05)
    assert (victim / "precious").read_text() == "kept"


def test_undelivered_data_is_removed_after_its_time(profiled: SlurmdRoom) -> None:
    old = profiled.root / "spool" / "lab" / "3.0" / "t1"
    old.mkdir(parents=True)
    young = profiled.root / "spool" / "lab" / "4.0" / "t1"
    young.mkdir(parents=True)
    os.utime(old, (1, 1))
    profiled.epilog()
    profiled.wait_for_log("too old")
    assert not old.parent.exists()
    assert young.exists()


def test_the_sites_copy_is_written_by_its_service_user(room: SlurmdRoom) -> None:
    site = room.root / "site"
    site.mkdir()
    os.chown(site, 33, 33)
    room.write_config(QUICK + f'[store]\nsite_path = "{site}"\nservice_user = "www-data"\n')
    room.prolog()
    room.wait_for_sampler()
    room.epilog()
    room.wait_for_log(DONE)
    copy = site / "cluster=lab" / "job=7.0"
    assert (copy / "DONE.t1").stat().st_uid == 33
    assert (copy / "node=t1" / "meta.json").exists()
    assert report_of(room).exists()


def test_a_job_of_roots_own_belongs_to_root(room: SlurmdRoom) -> None:
    room.write_config(QUICK)
    room.environment()
    os.chown(work_dir(room), 0, 0)
    root = {"SLURM_JOB_UID": "0", "SLURM_JOB_GID": "0", "SLURM_JOB_USER": "root"}
    room.prolog(**root)
    room.wait_for_sampler()
    room.epilog(**root)
    room.wait_for_log(DONE)
    assert report_of(room).stat().st_uid == 0


def give(folder: Path, uid: int) -> None:
    """A folder and all in it to `uid`."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid)


def neighbour(store: Path, uid: int, scratch: Path) -> None:
    """Another node's delivery, of a job long enough for many parts."""
    scratch.mkdir()
    made = make_store(scratch / "store", ["t2"], parts=6)
    (made / "job.json").unlink()
    made.chmod(0o700)
    shutil.copytree(made, store)
    give(store, uid)


def test_the_users_process_compacts_what_two_nodes_brought(
    profiled: SlurmdRoom, tmp_path: Path
) -> None:
    store = profiled.root / "work" / "slurm-io-7"
    neighbour(store, profiled.uid, tmp_path / "n")
    profiled.epilog()
    profiled.wait_for_log(DONE)
    assert "compacted" not in profiled.log()
    assert not list(store.glob("node=*"))
    assert sorted(open_job(store).nodes) == ["t1", "t2"]
    assert json.loads((store / "report.json").read_text())["coverage"]["nodes_seen"] == ["t1", "t2"]
    for path in store.iterdir():
        assert path.stat().st_uid == profiled.uid, path
        assert path.name.startswith("report.") or path.stat().st_mode & 0o077 == 0, path


def test_what_cannot_be_compacted_is_said_in_the_log(profiled: SlurmdRoom, tmp_path: Path) -> None:
    store = profiled.root / "work" / "slurm-io-7"
    neighbour(store, profiled.uid, tmp_path / "n")
    victim = tmp_path / "roots"
    victim.write_text("root's own")
    (store / "node=t2" / "log-0009.parquet").symlink_to(victim)
    profiled.epilog()
    profiled.wait_for_log("not all was compacted")
    assert victim.read_text() == "root's own"
    assert [path.name for path in store.glob("node=*")] == ["node=t2"]
    assert report_of(profiled).exists()


def test_the_sites_copy_is_compacted_by_its_service_user(room: SlurmdRoom, tmp_path: Path) -> None:
    site = room.root / "site"
    store = site / "cluster=lab" / "job=7.0"
    store.parent.mkdir(parents=True)
    neighbour(store, 33, tmp_path / "n")
    for path in (site, store.parent):
        os.chown(path, 33, 33)
    room.write_config(QUICK + f'[store]\nsite_path = "{site}"\nservice_user = "www-data"\n')
    room.prolog()
    room.wait_for_sampler()
    room.epilog()
    room.wait_for_log(DONE)
    deadline = time.monotonic() + 30
    while list(store.glob("node=*")):
        assert time.monotonic() < deadline, room.log()
        time.sleep(0.1)
    assert {path.stat().st_uid for path in store.iterdir()} == {33}
    assert sorted(open_job(store).nodes) == ["t1", "t2"]
