"""A child never writes into its parent's ring, and has its own only as a rank of its own."""

from __future__ import annotations

import pytest

from tests.hook.scripts import Job


def test_forked_child_that_loads_nothing_leaves_no_ring_and_no_record(job: Job) -> None:
    job.ok(
        """
        import os, slurm_io_hook
        loader = iter(slurm_io_hook.watch(range(10)))
        next(loader)
        pid = os.fork()
        if pid == 0:
            with slurm_io_hook.checkpoint("child"): pass
            raise SystemExit(0)
        assert os.waitpid(pid, 0)[1] == 0
        next(loader)
        """
    )
    ring = job.ring()
    assert len(ring.batches) == 2
    assert [event.kind for event in ring.events if event.kind != "epoch_start"] == [
        "loader",
        "exit",
    ]


def test_child_forked_in_the_middle_of_an_epoch_gets_its_own_ring(job: Job) -> None:
    stdout = job.ok(
        """
        import os, slurm_io_hook
        loader = iter(slurm_io_hook.watch(range(10)))
        next(loader), next(loader)
        pid = os.fork()
        if pid == 0:
            with slurm_io_hook.checkpoint("child"): pass
            next(loader)
            raise SystemExit(0)
        assert os.waitpid(pid, 0)[1] == 0
        next(loader), next(loader)
        print(pid)
        """
    )
    child_pid = int(stdout)
    by_pid = {ring.greeting["pid"]: ring for ring in job.rings()}
    child = by_pid.pop(child_pid)
    (parent,) = by_pid.values()
    assert [b.index for b in parent.batches] == [0, 1, 2, 3]
    assert [b.index for b in child.batches] == [2]
    assert len(child.loaders()) == 1
    assert [event.text["path"] for event in child.of_kind("ckpt_save")] == [
        str(job.folder / "child")
    ]
    assert not parent.of_kind("ckpt_save")
    assert parent.state == child.state == 2


def test_fork_inside_a_wait_does_not_silence_the_child(job: Job) -> None:
    job.ok(
        """
        import os, slurm_io_hook
        def forking():
            pid = os.fork()
            yield pid
        for pid in slurm_io_hook.watch(forking()):
            if pid == 0:
                list(slurm_io_hook.watch([1, 2, 3]))
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        """
    )
    assert sorted(len(ring.batches) for ring in job.rings()) == [1, 3]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_ranks_started_by_multiprocessing_have_rings_and_close_them(job: Job, method: str) -> None:
    job.ok(
        f"""
        import multiprocessing, slurm_io_hook
        def rank():
            list(slurm_io_hook.watch([1, 2]))
        def writer():
            with slurm_io_hook.checkpoint("child"): pass
        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            for target in (rank, writer):
                process = context.Process(target=target)
                process.start()
                process.join()
                assert process.exitcode == 0
        """
    )
    ring = job.ring()
    assert len(ring.batches) == 2
    assert ring.state == 2
    assert ring.events[-1].kind == "exit"
