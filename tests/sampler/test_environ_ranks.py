"""Ranks that no hook announces, told by the environment of real processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from slurm_io.collectors.base import Member
from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.environ_ranks import BATCH, LAUNCHER, STEP, Told, told_by
from tests.sampler.test_discovery import spec, started

SLEEP = "import time; time.sleep(60)"


def test_a_launchers_variable_is_trusted_before_slurms() -> None:
    slurm = {b"SLURM_PROCID": b"3", b"SLURM_STEP_ID": b"0", b"SLURM_LOCALID": b"1"}
    assert told_by(slurm) == Told(STEP, 3, 1, None)
    assert told_by({b"SLURM_PROCID": b"0"}) == Told(BATCH, 0, None, None)
    both = {**slurm, b"RANK": b"6", b"LOCAL_RANK": b"2", b"WORLD_SIZE": b"8"}
    assert told_by(both) == Told(LAUNCHER, 6, 2, 8)
    assert told_by({b"OMPI_COMM_WORLD_RANK": b"5", b"SLURM_PROCID": b"0"}).rank == 5


def test_a_number_that_is_none_counts_as_absent() -> None:
    for text in (b"", b"-1", b"x", b"1" * 9, "٣".encode()):
        assert told_by({b"RANK": text}) == Told()


@contextlib.contextmanager
def tree(script: str, **environment: str) -> Iterator[int]:
    """A shell script; pid of its shell. $PY is a Python."""
    clean = {name: "" for name in os.environ if "RANK" in name or name.startswith("SLURM_")}
    with started(script, **{**clean, **environment, "PY": sys.executable, "SLEEP": SLEEP}) as root:
        yield root.pid


def discover(root: int, holds: Callable[[list[Member]], bool]) -> list[Member]:
    """The members, once `holds` is true of them: before exec a child looks like its parent."""
    found = Discovery(replace(spec("user", root), attached_by=os.getpid()))
    for _ in range(500):
        found.refresh({})
        members = list(found.members())
        if holds(members):
            return members
        time.sleep(0.02)
    raise AssertionError([(m.pid, m.ppid, m.comm, m.role, m.rank) for m in members])


def ranks_of(members: list[Member]) -> list[int | None]:
    return sorted((m.rank for m in members if m.role == "rank"), key=str)


def test_the_python_below_a_shell_is_the_rank_and_its_children_are_workers() -> None:
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {SLEEP!r}])"
    script = f'"$PY" -c "{parent}; time.sleep(60)" & wait'
    with tree(script, SLURM_PROCID="5", SLURM_STEP_ID="0") as root:

        def is_right(members: list[Member]) -> bool:
            roles = {m.role: m for m in members}
            return (
                len(members) == len(roles) == 3
                and (roles["other"].pid, roles["rank"].ppid) == (root, root)
                and roles["worker"].ppid == roles["rank"].pid
                and (roles["rank"].rank, roles["worker"].rank) == (5, 5)
            )

        discover(root, is_right)


def test_an_agent_that_numbers_its_children_is_no_rank() -> None:
    starts = "".join(
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], env=dict(os.environ, RANK='{n}'));"
        for n in (4, 5)
    )
    agent = f"import os, subprocess, sys, time; {starts} time.sleep(60)"
    with tree(f'exec "$PY" -c "{agent}"', SLURM_PROCID="1", SLURM_STEP_ID="0") as root:
        discover(root, lambda members: ranks_of(members) == [4, 5] and len(members) == 3)


def test_a_fork_that_becomes_another_python_later_is_judged_anew(tmp_path: Path) -> None:
    """Its name, age and parent are those of the fork before: it was looked at too early once."""
    program = tmp_path / "fork.py"
    program.write_text(f"""import os, sys, time
while not os.fork():
    while not os.path.exists("now"):
        time.sleep(0.01)
    os.execve(sys.executable, [sys.executable, "-c", {SLEEP!r}], dict(os.environ, RANK="6"))
time.sleep(60)
""")
    with tree(f'cd {tmp_path}; exec "$PY" fork.py') as root:
        found = Discovery(replace(spec("user", root), attached_by=os.getpid()))

        def refreshed_until(holds: Callable[[list[Member]], bool]) -> None:
            for _ in range(500):
                found.refresh({})
                if holds(list(found.members())):
                    return
                time.sleep(0.02)
            raise AssertionError(found.members())

        refreshed_until(lambda members: ranks_of(members) == [None] and len(members) == 2)
        (tmp_path / "now").touch()
        refreshed_until(lambda members: ranks_of(members) == [6])


def test_a_python_that_only_waits_for_another_one_is_no_rank() -> None:
    launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"
    with tree(f'exec "$PY" -c "{launcher}"', RANK="7") as root:
        discover(root, lambda members: [m.ppid for m in members if m.role == "rank"] == [root])


def test_a_helper_of_the_batch_script_is_no_rank_beside_a_steps_task() -> None:
    task = 'SLURM_STEP_ID=0 SLURM_PROCID=2 "$PY" -c "$SLEEP" &'
    helper = '"$PY" -c "$SLEEP" &'
    with tree(f"{task} {helper} wait", SLURM_PROCID="0") as root:
        discover(root, lambda members: ranks_of(members) == [2] and len(members) == 3)


def test_our_own_commands_are_no_ranks() -> None:
    ours = "import sys, time; sys.argv = []; time.sleep(60)"
    script = f'exec -a slurm-io "$PY" -c "{ours}" & "$PY" -c "$SLEEP" & wait'
    with tree(f"exec bash -c '{script}'", RANK="1") as root:
        discover(root, lambda members: len(members) == 3 and ranks_of(members) == [1])


def test_without_any_number_the_topmost_python_is_a_rank_of_no_number() -> None:
    with tree('"$PY" -c "$SLEEP" & wait') as root:
        discover(root, lambda members: ranks_of(members) == [None] and len(members) == 2)


def test_without_an_attach_the_environment_makes_no_ranks() -> None:
    with tree('"$PY" -c "$SLEEP" & wait', RANK="1") as root:
        found = Discovery(spec("user", root))
        for _ in range(100):
            found.refresh({})
            if len(found.members()) == 2:
                break
            time.sleep(0.02)
        assert {m.role for m in found.members()} == {"other"}


def test_the_hooks_word_wins_on_its_own_processes_and_meta_tells_who_told() -> None:
    script = '"$PY" -c "$SLEEP" & RANK=9 "$PY" -c "$SLEEP" & wait'
    with tree(script, RANK="1") as root:
        found = Discovery(replace(spec("user", root), attached_by=os.getpid()))
        for _ in range(500):
            found.refresh({})
            ranks = {m.rank: m for m in found.members() if m.role == "rank"}
            if set(ranks) == {1, 9}:
                break
            time.sleep(0.02)
        hooked = ranks[1]
        found.refresh({hooked.pid: 42})
        assert sorted(ranks_of(list(found.members()))) == [9, 42]
        told = found.ranks_told([(hooked.pid, hooked.starttime)])
    assert [(each["rank"], each["told_by"]) for each in told] == [(9, "environ")]


def test_attach_and_its_children_are_not_of_the_job() -> None:
    """The attach may run inside the job it watches: below the very process it was given."""
    with tree('"$PY" -c "$SLEEP" & "$PY" -c "$SLEEP" & wait', RANK="1") as root:
        members = discover(root, lambda members: len(ranks_of(members)) == 2)
        ours, other = (m.pid for m in members if m.role == "rank")
        found = Discovery(replace(spec("user", root), attached_by=ours))
        found.refresh({})
        assert ours not in {m.pid for m in found.members()}
        assert other in {m.pid for m in found.members()}


def test_a_process_that_got_the_pid_later_is_not_the_one_meant() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        other = replace(
            spec("user", process.pid), root_starttime=int(stat[19]) - 1, attached_by=os.getpid()
        )
        found = Discovery(other)
        found.refresh({})
        assert list(found.members()) == []
    finally:
        process.kill()
        process.wait()
