"""The GPU-side measuring by itself, against a device whose clock stands still between the calls."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from slurm_io.hook import gpu_idle, gpu_pairs, gpu_stream, record
from slurm_io.sampler.ring_format import GpuWait
from tests.hook.gpu_bench import MS, Bench
from tests.labs.queued_gpu.torch._device import FOREVER_NS


@pytest.fixture
def bench() -> Iterator[Bench]:
    one = Bench()
    yield one
    assert one.cuda.trespasses == []


def test_a_queue_that_outlasts_the_wait_is_known_at_once_as_no_idle_time(bench: Bench) -> None:
    bench.cuda.default_stream().launch(50 * MS)
    assert bench.wait(20 * MS) == 0
    assert bench.wait(20 * MS) == 0
    bench.clock.pass_ns(100 * MS)
    assert bench.wait(1) is None
    assert bench.told() == []
    assert bench.loader.batch_word >> 8 & record.CUDA


def test_a_queue_that_runs_dry_in_the_wait_leaves_the_rest_idle(bench: Bench) -> None:
    bench.cuda.default_stream().launch(5 * MS)
    assert bench.wait(20 * MS) is None
    assert bench.told() == []  # it is read at a later wait
    start_ns = bench.clock.now_ns() - 20 * MS
    bench.wait(1)
    assert bench.told() == [
        GpuWait(3, 2, 0, start_ns, start_ns + 20 * MS, pytest.approx(15 * MS, abs=2), True)
    ]


def test_an_idle_gpu_is_idle_for_the_whole_wait_and_no_longer(bench: Bench) -> None:
    bench.wait(20 * MS, during=lambda: bench.clock.pass_ns(3))  # the events lie around the wait
    bench.wait(1)
    [told] = bench.told()
    assert told.idle_ns == 20 * MS


def test_a_short_wait_gets_no_second_event(bench: Bench) -> None:
    assert bench.wait(gpu_idle.SHORTEST_NS - 1) is None
    bench.wait(1)
    assert bench.told() == []
    assert bench.cuda.calls["event.record"] == 2


def test_work_on_the_default_stream_counts_while_another_one_is_current(bench: Bench) -> None:
    """A loader asked within `with torch.cuda.stream(copies)`: training runs on the default one."""
    copies = bench.cuda.stream_of(0, 7)
    bench.cuda.default_stream().launch(FOREVER_NS)
    with bench.cuda.stream(copies):
        assert bench.wait(20 * MS) == 0


def test_work_on_the_stream_of_the_optimizers_counts_while_another_one_is_current(
    bench: Bench,
) -> None:
    """A loop that trains within `with torch.cuda.stream(mine)` and asks its loader outside."""
    mine = bench.cuda.stream_of(0, 7)
    bench.wait(20 * MS)
    assert bench.gpu.training is not None
    with bench.cuda.stream(mine):
        bench.gpu.training.after_step()
    mine.launch(5 * MS)
    bench.wait(20 * MS)
    mine.launch(FOREVER_NS)
    assert bench.wait(20 * MS) == 0
    assert [wait.idle_ns for wait in bench.told()] == [20 * MS, pytest.approx(15 * MS, abs=2)]


def test_the_stream_of_another_library_is_not_kept(bench: Bench) -> None:
    foreign = bench.cuda.stream_of(0, 8)
    foreign.stream_id = 4096  # an address
    bench.wait(20 * MS)
    assert bench.gpu.training is not None
    with bench.cuda.stream(foreign):
        bench.gpu.training.after_step()
    assert bench.gpu.training.handle == 0


def test_optimizers_are_looked_at_seldom_once_their_stream_is_known(bench: Bench) -> None:
    bench.wait(20 * MS)
    training = bench.gpu.training
    assert training is not None
    before = bench.cuda.calls["current_stream"]
    for _ in range(2 + 10 * gpu_stream._STEPS_A_LOOK):
        training.after_step()
    assert bench.cuda.calls["current_stream"] - before == 2 + 10


def test_work_on_the_current_stream_counts_beside_an_idle_default_one(bench: Bench) -> None:
    mine = bench.cuda.stream_of(0, 7)
    mine.launch(5 * MS)
    with bench.cuda.stream(mine):
        assert bench.wait(20 * MS) is None
        bench.wait(1)
    assert [wait.idle_ns for wait in bench.told()] == [pytest.approx(15 * MS, abs=2)]


def test_pairs_that_never_complete_are_never_waited_for_and_counted(bench: Bench) -> None:
    """Another thread queues endless work between the question and the second event."""
    stream = bench.cuda.default_stream()
    original = gpu_pairs.Pair.finish

    def finish_late(pair: gpu_pairs.Pair) -> None:
        stream.launch(FOREVER_NS)
        original(pair)
        stream.busy_until_ns = 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gpu_pairs.Pair, "finish", finish_late)
        for _ in range(gpu_pairs.PAIRS):
            assert bench.wait(20 * MS) is None
    assert bench.counts() == (0, 0, 0)
    for _ in range(5):
        assert bench.wait(20 * MS) is None
    assert bench.counts() == (5, 0, 0)
    assert bench.told() == []
    bench.clock.pass_ns(2 * FOREVER_NS)  # endless is over: it goes on as if nothing had been
    before = bench.loader.index
    for _ in range(12):
        bench.wait(20 * MS)
    assert bench.counts() == (6, 0, 0)
    told = [wait.batch for wait in bench.told()]
    assert told == [*range(gpu_pairs.PAIRS), *range(before + 1, before + 1 + len(told) - 8)]
    assert len(told) == 12


def test_pairs_of_two_streams_may_complete_in_any_order(bench: Bench) -> None:
    bench.wait(20 * MS)
    with bench.cuda.stream(bench.cuda.stream_of(0, 7)):
        bench.wait(30 * MS)
        bench.wait(40 * MS)
    bench.wait(1)
    bench.wait(1)
    assert [wait.batch for wait in bench.told()] == [0, 1, 2]
    assert [wait.idle_ns // MS for wait in bench.told()] == [20, 30, 40]


def test_each_device_has_pairs_of_its_own(bench: Bench) -> None:
    for device in (0, 1, 0, 1):
        bench.cuda.set_device(device)
        bench.wait(20 * MS)
    bench.wait(1)
    assert [wait.batch for wait in bench.told()] == [0, 1, 2, 3]


def test_nothing_is_asked_while_a_graph_is_captured(bench: Bench) -> None:
    bench.wait(20 * MS)
    bench.cuda.capturing = bench.cuda.default_stream()
    assert bench.wait(20 * MS) is None
    assert bench.counts() == (0, 1, 0)
    bench.cuda.capturing = None
    bench.wait(20 * MS)
    bench.wait(1)
    assert [wait.batch for wait in bench.told()] == [0, 2]


def test_nothing_is_asked_while_another_thread_captures(bench: Bench) -> None:
    """torch tells of the current stream only; the captures are counted (torch_graphs)."""
    bench.wait(20 * MS)
    bench.cuda.capturing = bench.cuda.stream_of(0, 9)
    bench.gpu.captures = 1
    assert bench.wait(20 * MS) is None
    bench.gpu.captures, bench.cuda.capturing = 0, None
    bench.wait(1)
    assert [wait.batch for wait in bench.told()] == [0]


def test_a_capture_that_begins_in_the_wait_ends_the_measuring_of_that_wait(bench: Bench) -> None:
    def capture() -> None:
        bench.cuda.capturing, bench.gpu.captures = bench.cuda.default_stream(), 1

    assert bench.wait(20 * MS, during=capture) is None
    bench.cuda.capturing, bench.gpu.captures = None, 0
    bench.wait(20 * MS)
    bench.wait(1)
    assert [wait.batch for wait in bench.told()] == [1]


@pytest.mark.parametrize(
    "call", ["event.record", "event.query", "event.elapsed_time", "current_stream",
             "is_current_stream_capturing"],
)  # fmt: skip
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_error_of_the_device_ends_it_and_is_told(bench: Bench, call: str, at: int) -> None:
    bench.cuda.fail_at[call] = at
    for _ in range(6):
        assert bench.wait(20 * MS) in (None, 0)
    assert bench.counts() == (0, 0, 1)
    calls = dict(bench.cuda.calls)
    bench.wait(20 * MS)
    assert bench.cuda.calls == calls
    assert bench.loader.batch_word >> 8 & record.CUDA


def test_cuda_that_is_not_in_use_is_not_touched() -> None:
    bench = Bench(is_initialized=False)
    assert bench.wait(20 * MS) is None
    assert bench.cuda.calls == {}
    assert not bench.loader.batch_word >> 8 & record.CUDA
    bench.cuda.init()
    bench.wait(20 * MS)
    bench.wait(1)
    assert [wait.batch for wait in bench.told()] == [1]


def test_a_wait_that_ends_without_a_batch_gives_its_pair_back(bench: Bench) -> None:
    bench.wait(20 * MS)
    for _ in range(3 * gpu_pairs.PAIRS):
        before = sys.modules.get("torch.cuda")
        bench.gpu.begin(bench.ring)
        assert sys.modules.get("torch.cuda") is before
        bench.gpu.stopped(bench.ring)
    assert [wait.batch for wait in bench.told()] == [0]
    assert bench.counts() == (0, 0, 0)


def test_a_wait_that_never_ended_gives_its_pair_back(bench: Bench) -> None:
    bench.wait(20 * MS)
    for _ in range(3 * gpu_pairs.PAIRS):
        bench.gpu.begin(bench.ring)
    assert bench.counts() == (0, 0, 0)
