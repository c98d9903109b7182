"""Ranks that no hook announces, told by the environment of real processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import tracemalloc
import unittest.mock
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.collectors.base import Member
from slurm_io.sampler.discovery import Discovery
from slurm_io.sampler.environ_numbers import BATCH, LAUNCHER, STEP, Told, told_by, words_in
from slurm_io.sampler.environ_ranks import _Search
from slurm_io.sampler.processes import Process
from tests.sampler.test_discovery import spec, started

SLEEP = "import time; time.sleep(60)"
WORDS = st.binary(max_size=8).filter(lambda value: b"\0" not in value)


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
    return refreshed(found, {}, holds)


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
        refreshed(found, {}, lambda members: ranks_of(members) == [None] and len(members) == 2)
        (tmp_path / "now").touch()
        refreshed(found, {}, lambda members: ranks_of(members) == [6])


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


def refreshed(
    found: Discovery, hooked: dict[int, int | None], holds: Callable[[list[Member]], bool]
) -> list[Member]:
    for _ in range(500):
        found.refresh(hooked)
        members = list(found.members())
        if holds(members):
            return members
        time.sleep(0.02)
    raise AssertionError([(m.pid, m.ppid, m.comm, m.role, m.rank) for m in members])


def test_without_an_attach_and_without_a_hook_the_environment_makes_ranks() -> None:
    with tree('"$PY" -c "$SLEEP" & wait', RANK="1") as root:
        refreshed(Discovery(spec("user", root)), {}, lambda members: ranks_of(members) == [1])


def test_a_container_with_a_clean_environment_has_a_rank_in_slurm_too() -> None:
    """Nothing names a number: the topmost Python of the job's processes is the rank."""
    job = {"SLURM_JOB_ID": "4242", "SLURM_PROCID": "0", "SLURMD_NODENAME": "node1"}
    with tree("""sh -c 'env -i "$PY" -c "$SLEEP" & wait' & wait""", **job):

        def is_right(members: list[Member]) -> bool:
            shells = [m.pid for m in members if m.comm == "sh"]
            ranks = [m for m in members if m.role == "rank"]
            return [([m.ppid], m.rank) for m in ranks] == [(shells, None)]

        refreshed(Discovery(spec("slurm")), {}, is_right)


def test_beside_a_hooked_rank_a_python_without_a_number_is_none() -> None:
    """A dashboard, a script that prepares data: the hook knows who trains."""
    with tree('"$PY" -c "$SLEEP" & "$PY" -c "$SLEEP" & wait') as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [None, None])
        hooked, other = (m for m in members if m.role == "rank")
        found.refresh({hooked.pid: None})
        assert [m.pid for m in found.members() if m.role == "rank"] == [hooked.pid]
        told = found.ranks_told([facts_of(hooked)])
        assert told == [], other


def test_beside_a_hooked_rank_a_helper_of_the_batch_script_is_none() -> None:
    with tree('"$PY" -c "$SLEEP" & "$PY" -c "$SLEEP" & wait', SLURM_PROCID="0") as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [0, 0])
        hooked = next(m for m in members if m.role == "rank")
        found.refresh({hooked.pid: 3})
        assert ranks_of(list(found.members())) == [3]
        assert found.ranks_told([{**facts_of(hooked), "rank": 3}]) == []


def test_a_rank_that_its_launcher_names_stands_beside_hooked_ones() -> None:
    """One of the job's programs cannot be hooked (python -I): it is not forgotten."""
    script = 'RANK=4 "$PY" -c "$SLEEP" & RANK=5 "$PY" -c "$SLEEP" & wait'
    with tree(script) as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [4, 5])
        hooked = next(m for m in members if m.rank == 4)
        found.refresh({hooked.pid: 4})
        assert ranks_of(list(found.members())) == [4, 5]
        assert [one["rank"] for one in found.ranks_told([facts_of(hooked)])] == [5]


def test_a_number_that_a_hooked_process_bears_is_taken() -> None:
    """`srun python prepare.py` before `srun python train.py`: the same ranks, not more of them."""
    script = 'RANK=4 "$PY" -c "$SLEEP" & RANK=4 "$PY" -c "$SLEEP" & wait'
    with tree(script) as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [4, 4])
        hooked = next(m for m in members if m.role == "rank")
        found.refresh({hooked.pid: 4})
        assert ranks_of(list(found.members())) == [4]
        assert found.ranks_told([facts_of(hooked)]) == []


def test_a_wrapper_of_a_hooked_rank_is_none_and_the_rank_was_no_worker() -> None:
    """Before its first batch only the wrapper is known, and what it started looks like a worker."""
    child = f"[sys.executable, '-c', {SLEEP!r}]"
    wrapper = f"import subprocess, sys, time; subprocess.Popen({child}); time.sleep(60)"
    with tree(f'"$PY" -c "{wrapper}" & wait') as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: any(m.role == "worker" for m in members))
        trainer = next(m for m in members if m.role == "worker")
        assert found.workers_seen == 1
        found.refresh({trainer.pid: 0})
        assert [m.pid for m in found.members() if m.role == "rank"] == [trainer.pid]
        assert found.workers_seen == 0
        assert found.ranks_told([{**facts_of(trainer), "rank": 0}]) == []


def test_a_job_all_of_whose_ranks_are_hooked_is_not_searched_again() -> None:
    """What the search costs is not spent where the hook has told everything."""
    with tree('"$PY" -c "$SLEEP" & wait', RANK="1") as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [1])
        hooked = {next(m.pid for m in members if m.role == "rank"): 1}
        with unittest.mock.patch.object(
            found._environ_ranks, "_look", wraps=found._environ_ranks._look
        ) as look:
            for _ in range(20):
                found.refresh(hooked)
        assert look.call_count <= 1, "only a change among the members is worth a search"


def test_short_lived_processes_of_a_hooked_job_cost_a_search_now_and_then() -> None:
    with tree('"$PY" -c "$SLEEP" & while :; do sleep 0.01; done', RANK="1") as root:
        found = Discovery(spec("user", root))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [1])
        hooked = {next(m.pid for m in members if m.role == "rank"): 1}
        with unittest.mock.patch.object(
            found._environ_ranks, "_look", wraps=found._environ_ranks._look
        ) as look:
            for _ in range(20):
                found.refresh(hooked)
                time.sleep(0.02)
        assert 1 <= look.call_count <= 5


def facts_of(member: Member) -> dict[str, object]:
    return {"pid": member.pid, "starttime": member.starttime, "rank": member.rank}


def test_the_hooks_word_wins_on_its_own_processes_and_meta_tells_who_told() -> None:
    script = '"$PY" -c "$SLEEP" & RANK=9 "$PY" -c "$SLEEP" & wait'
    with tree(script, RANK="1") as root:
        found = Discovery(replace(spec("user", root), attached_by=os.getpid()))
        members = refreshed(found, {}, lambda members: ranks_of(members) == [1, 9])
        hooked = next(m for m in members if m.rank == 1)
        found.refresh({hooked.pid: 42})
        assert set(ranks_of(list(found.members()))) == {9, 42}
        told = found.ranks_told([{**facts_of(hooked), "rank": 42}])
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


def test_thousands_of_processes_nested_in_one_another_are_searched_once_each() -> None:
    chain = {pid: Process(pid, pid, pid - 1, "sh", 1000, 1) for pid in range(1000, 6000)}
    looks: Counter[int] = Counter()

    def told(process: Process) -> Told:
        looks[process.pid] += 1
        return Told(LAUNCHER, process.pid)

    children = {process.ppid: [process] for process in chain.values()}
    search = _Search(children, told, lambda process, _has_python_below: process.pid == 5999)
    assert [process.pid for process in search.run(chain)] == [5999]
    assert max(looks.values()) <= 2


def test_an_environment_of_a_million_entries_costs_no_memory() -> None:
    hostile = b"RANK=3\0" + b"".join(b"%x=\0" % number for number in range(300_000))
    hostile += b"XRANK=4\0SLURM_JOB_ID=7=8\0WORLD_SIZE=\0SLURM_STEP_ID"
    tracemalloc.start()
    words = words_in(hostile)
    _now, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert words == {b"RANK": b"3", b"SLURM_JOB_ID": b"7=8", b"WORLD_SIZE": b""}
    assert most_bytes < 2 * len(hostile)


@given(st.dictionaries(st.sampled_from([b"RANK", b"LOCAL_RANK", b"A", b"PMI_RANK"]), WORDS))
def test_words_are_those_of_the_whole_environment(environ: dict[bytes, bytes]) -> None:
    raw = b"".join(name + b"=" + value + b"\0" for name, value in environ.items())
    assert words_in(raw) == {name: value for name, value in environ.items() if name != b"A"}
