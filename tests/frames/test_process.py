"""Which thread of a process decides, and what the others add."""

from __future__ import annotations

from slurm_io.frames.process import judge_process
from slurm_io.stacktext.model import Thread
from tests.frames.stacks import BOOTSTRAP, FETCH, FORKED, LOADER, MODULE, TABLE, stack, thread

WAIT = "Condition.wait (threading.py:327)"
GET = "Queue.get (queue.py:180)"
MONITOR = (WAIT, "TMonitor.run (tqdm/_monitor.py:60)", *BOOTSTRAP)


def test_the_main_thread_decides_wherever_it_stands() -> None:
    for threads in (
        [thread(*MONITOR), thread(WAIT, GET, *LOADER)],
        [thread(WAIT, GET, *LOADER), thread(*MONITOR)],
    ):
        told = judge_process(threads, TABLE)
        assert (told.role, told.state, told.sub) == ("rank", "data_wait", "workers")


def test_a_name_counts_before_a_root() -> None:
    told = judge_process(
        [
            thread("f (a.py:1)", MODULE),
            thread("save (torch/serialization.py:1)", name="MainThread"),
        ],
        TABLE,
    )
    assert told.decider == 1 and told.state == "ckpt"


def test_a_ranks_wait_is_explained_by_its_own_prefetch_thread() -> None:
    """Loaders made of threads: the training thread sits in a queue, another one reads."""
    reader = thread(
        "TarFile.open (tarfile.py:1)", "_apply_udf (torchdata/nodes/_apply_udf.py:49)", *BOOTSTRAP
    )
    main = thread(WAIT, GET, "LoaderIterator.next (torchdata/nodes/loader.py:125)", MODULE)
    told = judge_process([main, reader], TABLE)
    assert (told.state, told.sub) == ("data_wait", "reading")


def test_a_worker_that_waits_for_its_download_pool_reads() -> None:
    pool = thread("recv_into (ssl.py:1)", "_worker (concurrent/futures/thread.py:83)", *BOOTSTRAP)
    main = thread(
        WAIT,
        "Future.result (concurrent/futures/_base.py:4)",
        "D.__getitem__ (train.py:1)",
        FETCH,
        *FORKED,
    )
    told = judge_process([main, pool], TABLE)
    assert (told.role, told.state, told.sub) == ("worker", "data_wait", "reading")
    assert not told.certain, "that pool may work for somebody else"


def test_a_background_writer_does_not_make_the_rank_checkpoint() -> None:
    writer = thread(
        "_write_item (torch/distributed/checkpoint/filesystem.py:1)",
        "save_wrapper (torch/distributed/checkpoint/_async_thread_executor.py:30)",
        *BOOTSTRAP,
    )
    told = judge_process([thread("backward (torch/_tensor.py:1)", MODULE), writer], TABLE)
    assert (told.state, told.blocking) == ("compute", None)
    assert told.threads[1].blocking is False


def test_no_threads_no_state() -> None:
    told = judge_process([], TABLE)
    assert (told.state, told.certain, told.decider) == ("other", False, None)
    told = judge_process([Thread(())], TABLE)
    assert (told.state, told.certain) == ("compute", False)


def test_a_crash_dump_without_roots_is_decided_by_the_current_thread() -> None:
    threads = [thread(*MONITOR), Thread(stack("f (/opt/a.py:1)"), current=True)]
    assert judge_process(threads, TABLE).decider == 1
