"""Whatever a program launches and waits for: what is told of its waits is what its streams did."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.hook import gpu_idle, gpu_pairs
from tests.hook.gpu_bench import MS, Bench

WAITS = st.tuples(
    st.sampled_from(["wait"]), st.integers(0, 40 * MS), st.sampled_from([0, 0, 0, 7]),
    st.sampled_from([None] * 6 + ["mine", "another's"]),
)  # fmt: skip
OPTIMIZERS = st.tuples(st.sampled_from(["step"]), st.just(0), st.sampled_from([0, 7]))
LAUNCHES = st.tuples(st.sampled_from(["launch"]), st.integers(0, 60 * MS), st.sampled_from([0, 7]))
STEPS = st.lists(
    st.one_of(
        WAITS, LAUNCHES, OPTIMIZERS, st.tuples(st.sampled_from(["pass"]), st.integers(0, 80 * MS))
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_what_is_told_is_what_the_streams_did(steps: list[tuple[Any, ...]]) -> None:
    """Whatever a program launches and waits for: each figure is right, belongs to its wait, and
    lacks only where it may."""
    bench = Bench()
    truth: dict[int, int] = {}
    at_once: dict[int, int] = {}
    for what, ns, *more in steps:
        if what == "launch":
            bench.cuda.stream_of(0, more[0]).launch(ns)
        elif what == "pass":
            bench.clock.pass_ns(ns)
        elif what == "step":
            _step(bench, more[0])
        else:
            _wait(bench, ns, *more, truth, at_once)
    bench.clock.pass_ns(10**12)
    for _ in range(gpu_pairs.PAIRS):
        bench.wait(0)
    later = {wait.batch: wait.idle_ns for wait in bench.told()}
    assert not at_once.keys() & later.keys()
    assert at_once.keys() | later.keys() == truth.keys()
    for batch, idle_ns in (at_once | later).items():
        assert idle_ns == pytest.approx(truth[batch], abs=5)  # of a float32 of milliseconds
    assert bench.counts()[0] == bench.counts()[2] == 0
    assert bench.cuda.trespasses == []


def _step(bench: Bench, current: int) -> None:
    """An optimizer steps on that stream, and this step is one of those that are looked at."""
    if bench.gpu.training is not None:
        bench.gpu.training._until_look = 0
        with bench.cuda.stream(bench.cuda.stream_of(0, current)):
            bench.gpu.training.after_step()


def _wait(
    bench: Bench, ns: int, current: int, capture: str | None, truth: dict[int, int],
    at_once: dict[int, int],
) -> None:  # fmt: skip
    """One wait, and what the model says of it: idle is what no stream it looks at worked in."""
    cuda, index = bench.cuda, bench.loader.index
    start_ns = bench.clock.now_ns()
    training = bench.gpu.training.handle if bench.gpu.training is not None else 0
    streams = {cuda.stream_of(0, current), cuda.stream_of(0, training)}
    idle_ns = min(max(0, start_ns + ns - max(start_ns, stream.busy_until_ns)) for stream in streams)
    if capture is not None:
        cuda.capturing = cuda.stream_of(0, current if capture == "mine" else 9)
        bench.gpu.captures = int(capture != "mine")
    with cuda.stream(cuda.stream_of(0, current)):
        known = bench.wait(ns)
    is_busy = max(stream.busy_until_ns for stream in streams) > start_ns + ns
    if capture is None and (is_busy or ns >= gpu_idle.SHORTEST_NS):
        truth[index] = idle_ns
    if known is not None:
        at_once[index] = known
    cuda.capturing, bench.gpu.captures = None, 0
