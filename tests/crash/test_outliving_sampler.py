"""A sampler whose job is gone, or whose SIGTERM was lost, ends by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.crash.killed_run import profiled_run
from tests.crash.watched_job import wait_until, watched_job
from tests.labs.children import children_of
from tests.sampler.running_sampler import facts, make_spool, sampler, wait_for

NO_SCONTROL = """
import sys
from pathlib import Path
import slurm_io.sampler.main as main
main.ask_scontrol = lambda job, restart: "unknown"
sys.exit(main.run(Path(sys.argv[1])))
"""


def test_user_mode_ends_with_the_root_process(tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        spool = make_spool(tmp_path, job.pid, interval_s=0.2)
        with sampler(spool) as process:
            wait_for(spool / "meta.json")
            job.kill()
            job.wait()
            assert process.wait(30) == 0
    meta = facts(spool, "meta.json")
    assert (meta["clean_end"], meta["end_reason"]) == (True, "job ended")


def test_slurm_mode_ends_when_nothing_lives_and_slurm_does_not_answer(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, None, mode="slurm", interval_s=0.1, idle_exit_s=0.2)
    process = subprocess.run(
        [sys.executable, "-c", NO_SCONTROL, str(spool)], check=False, timeout=60
    )
    assert process.returncode == 0
    meta, own = facts(spool, "meta.json"), facts(spool, "self.json")
    assert (meta["clean_end"], meta["end_reason"]) == (True, "no process of the job")
    assert own["wall_s"] >= 12 * 0.2, "it waits, because Slurm may only be slow"


def test_max_lifetime_ends_it_whatever_lives(tmp_path: Path) -> None:
    with watched_job(tmp_path / "rings") as job:
        spool = make_spool(tmp_path, job.pid, interval_s=0.1, max_lifetime_s=0.5)
        with sampler(spool) as process:
            assert process.wait(30) == 0
        assert job.poll() is None
    assert facts(spool, "meta.json")["end_reason"] == "longest lifetime"


def test_rings_of_the_dead_are_removed_and_the_living_keep_theirs(tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    with watched_job(rings) as lasting:
        spool = make_spool(tmp_path, os.getpid(), interval_s=0.1)
        with sampler(spool), watched_job(rings) as passing:
            wait_until(lambda: len(list(rings.iterdir())) == 2)
            wait_until(lambda: facts_of_ranks(spool) == 2)
            passing.kill()
            passing.wait()
            wait_until(lambda: len(list(rings.iterdir())) == 1)
            (left,) = rings.iterdir()
            assert left.name.split("-")[1] == str(lasting.pid)


def facts_of_ranks(spool: Path) -> int:
    """Ranks the sampler has read from: rows of two pids are in the stream."""
    from slurm_io.errors import StoreError
    from slurm_io.store.reader import open_job

    try:
        rows = open_job(spool).table("steps", ["pid"])
    except StoreError:
        return 0
    return len(set(rows["pid"].to_pylist()))


def test_orphans_of_the_command_are_no_zombies(tmp_path: Path) -> None:
    """The wrapper is their subreaper, so it has to reap what falls to it."""
    script = (
        "import subprocess, time\n"
        "import slurm_io_hook\n"
        "for number in slurm_io_hook.watch(range(10**9)):\n"
        "    time.sleep(0.02)\n"
        "    if number < 20:\n"
        "        subprocess.run(['sh', '-c', 'sleep 0.05 & exit'], close_fds=True)\n"
    )
    with profiled_run(tmp_path, script) as run:
        wait_until(lambda: count_children(run.wrapper.pid, state=None) >= 1)
        wait_until(lambda: spawned_all(run.ring_dir))
        wait_until(lambda: count_children(run.wrapper.pid, "Z") == 0, seconds=5)
        assert count_children(run.sampler_pid, "Z") == 0


def spawned_all(ring_dir: Path) -> bool:
    """The command is past its twentieth batch and its last sleeper has ended."""
    import struct

    (ring,) = ring_dir.iterdir()
    head: int = struct.unpack_from("<Q", ring.read_bytes()[:64], 48)[0]
    return head > 40


def count_children(pid: int, state: str | None) -> int:
    """Children of `pid`, of one state or of all."""
    found = 0
    for child in children_of(pid):
        try:
            said = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += state is None or said == state
    return found


def test_a_whole_run_leaves_nothing_behind(tmp_path: Path) -> None:
    with profiled_run(tmp_path, options=()) as run:
        run.end_command()
        assert run.wrapper.wait(60) == -15
        assert not run.spool.exists()
        assert not run.ring_dir.exists()
        assert (run.store / "report.txt").exists()
        left = {path.name for path in run.store.iterdir() if not path.name.startswith("node=")}
        node = next(run.store.glob("node=*")).name.removeprefix("node=")
        assert left == {"job.json", f"DONE.{node}", "report.json", "report.txt"}
        assert not any(pid_in_session(run.wrapper.pid))


def pid_in_session(session: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == session:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
