"""Who is a rank, a worker, a helper: over made-up process trees."""

from __future__ import annotations

from slurm_io.collectors.base import Member
from slurm_io.sampler.processes import Process
from slurm_io.sampler.roles import Image, RoleJudge, program_of

PYTHON = Image("/opt/venv/bin/python3.11", "program")
TRACKER = Image("/opt/venv/bin/python3.11", "tracker")
FORKSERVER = Image("/opt/venv/bin/python3.11", "forkserver")
SHELL = Image("/bin/dash", "program")

Tree = dict[int, tuple[int, Image]]
"""pid -> (parent, image)."""


class Job:
    """A judge over a tree that can change."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._judge = RoleJudge(lambda process: self.tree[process.pid][1])

    def roles(self, ranks: dict[int, int | None]) -> dict[int, Member]:
        processes = {
            pid: Process(pid, 10 * pid, parent, "python", 0, 0)
            for pid, (parent, _image) in self.tree.items()
        }
        return {member.pid: member for member in self._judge.members(processes, ranks)}


def test_fork_workers_are_the_children_of_a_rank() -> None:
    found = Job({5: (1, SHELL), 10: (5, PYTHON), 11: (10, PYTHON)}).roles({10: 2})
    assert (found[10].role, found[10].rank) == ("rank", 2)
    assert (found[11].role, found[11].rank, found[11].rank_pid) == ("worker", 2, 10)
    assert (found[5].role, found[5].rank) == ("other", None)


def test_without_a_timed_batch_nobody_is_a_rank() -> None:
    assert {m.role for m in Job({10: (1, PYTHON), 11: (10, PYTHON)}).roles({}).values()} == {
        "other"
    }


def test_forkserver_workers_hang_below_the_server_which_is_none_itself() -> None:
    tree = {10: (1, PYTHON), 20: (10, FORKSERVER), 21: (20, FORKSERVER), 22: (20, FORKSERVER)}
    found = Job(tree).roles({10: 0})
    assert (found[20].role, found[20].helper_of) == ("other", 10)
    assert {found[pid].role for pid in (21, 22)} == {"worker"}
    assert {found[pid].rank_pid for pid in (21, 22)} == {10}


def test_spawn_brings_a_tracker_that_is_no_worker() -> None:
    found = Job({10: (1, PYTHON), 11: (10, TRACKER), 12: (10, PYTHON)}).roles({10: 0})
    assert (found[11].role, found[11].rank, found[11].helper_of) == ("other", 0, 10)
    assert found[12].role == "worker"


def test_a_grandchild_behind_a_pipe_helps_its_worker() -> None:
    tree = {10: (1, PYTHON), 11: (10, PYTHON), 12: (11, SHELL), 13: (12, SHELL)}
    found = Job(tree).roles({10: 0})
    assert {found[pid].helper_of for pid in (12, 13)} == {11}


def test_a_pool_inside_a_worker_helps_it_and_is_not_counted() -> None:
    found = Job({10: (1, PYTHON), 11: (10, PYTHON), 12: (11, PYTHON)}).roles({10: 0})
    assert (found[12].role, found[12].helper_of) == ("other", 11)


def test_a_command_of_the_rank_helps_the_rank() -> None:
    found = Job({10: (1, PYTHON), 11: (10, SHELL)}).roles({10: 0})
    assert (found[11].role, found[11].helper_of) == ("other", 10)


def test_the_agent_of_two_ranks_is_none_of_them() -> None:
    tree = {5: (1, PYTHON), 10: (5, PYTHON), 11: (5, PYTHON), 12: (11, PYTHON)}
    found = Job(tree).roles({10: 0, 11: 1})
    assert (found[5].role, found[5].rank) == ("other", None)
    assert (found[12].role, found[12].rank) == ("worker", 1)


def test_a_rank_started_by_a_rank_stays_a_rank() -> None:
    found = Job({10: (1, PYTHON), 11: (10, PYTHON), 12: (11, PYTHON)}).roles({10: 0, 11: 1})
    assert (found[11].role, found[11].rank) == ("rank", 1)
    assert (found[12].rank, found[12].rank_pid) == (1, 11)


def test_an_orphaned_worker_keeps_its_rank() -> None:
    job = Job({10: (1, PYTHON), 11: (10, PYTHON)})
    job.roles({10: 4})
    job.tree = {11: (1, PYTHON)}
    found = job.roles({})
    assert (found[11].role, found[11].rank, found[11].rank_pid) == ("worker", 4, 10)


def test_an_unreadable_program_is_told_by_its_name() -> None:
    hidden = Image(None, "program")
    assert Job({10: (1, hidden), 11: (10, hidden)}).roles({10: 0})[11].role == "worker"


def test_a_ring_of_parents_does_not_hang() -> None:
    assert len(Job({10: (11, PYTHON), 11: (10, PYTHON)}).roles({})) == 2


def test_multiprocessing_is_known_by_its_command_line() -> None:
    tracker = b"/usr/bin/python3\0-c\0from multiprocessing.resource_tracker import main;main(5)"
    server = b"/usr/bin/python3\0-c\0from multiprocessing.forkserver import main; main(4, 5)"
    assert program_of(tracker) == "tracker"
    assert program_of(server) == "forkserver"
    assert program_of(b"python\0train.py") == "program"
