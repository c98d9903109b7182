"""How long a main thread ran and queued, read now and then."""

from __future__ import annotations

import random
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.host.run_queue import RunQueue, RunTimes, parse_run_times
from tests.collectors.real_process import running

NS = 1_000_000_000


def told(folder: Path, texts: list[str]) -> list[tuple[int, float, float]]:
    """(second, ran, queued) of each reading; second k finds `texts[k]`."""
    queue = RunQueue(folder, random.Random(1))
    found = []
    for second, text in enumerate(texts):
        (folder / "schedstat").write_text(text)
        shares = queue.shares(second * NS)
        if shares is not None:
            found.append((second, *shares))
    queue.close()
    return found


def test_shares_are_means_since_the_reading_before(tmp_path: Path) -> None:
    texts = [f"{second * NS // 4} {second * NS // 10} {second + 1}\n" for second in range(1800)]
    found = told(tmp_path, texts)
    assert {(round(ran, 6), round(queued, 6)) for _, ran, queued in found} == {(0.25, 0.1)}
    seconds = [second for second, *_ in found]
    steps = [after - before for before, after in pairwise(seconds)]
    assert max(steps[:3]) <= 9, "a run of half a minute needs some"
    assert 30 <= min(steps[-10:]) < max(steps) <= 91, "at an even pace some miss all"


def test_a_thread_that_runs_runs(tmp_path: Path) -> None:
    with running("ready()\nwhile True: pass") as pid:
        queue = RunQueue(Path("/proc") / str(pid), random.Random(1))
        queue.shares(time.monotonic_ns())
        ran, until = 0.0, time.monotonic() + 60
        while ran < 0.1 and time.monotonic() < until:
            time.sleep(0.1)
            queue.due_ns = 0
            shares = queue.shares(time.monotonic_ns())
            ran = shares.ran if shares is not None else 0.0
        queue.close()
    assert 0.1 <= ran <= 1


@pytest.mark.parametrize("text", ["0 0 0\n", "", "1 2\n", "a b c\n", "-1 2 3\n"])
def test_a_kernel_that_does_not_count_is_asked_once(tmp_path: Path, text: str) -> None:
    assert told(tmp_path, [text] + ["1 1 1\n", "9 9 9\n"] * 20) == []


def test_counters_that_go_back_or_race_stay_shares(tmp_path: Path) -> None:
    back = told(tmp_path, ["9000000000 9000000000 5"] + ["1 1 6"] * 20)
    assert {(ran, queued) for _, ran, queued in back} == {(0.0, 0.0)}
    ahead = told(tmp_path, ["1 1 1"] + ["99999999999999999999999 1 2"] * 8)
    assert all(ran <= 1 for _, ran, _ in ahead)


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    assert RunQueue(tmp_path / "gone", random.Random(1)).shares(1) is None


@given(st.binary(max_size=80))
def test_no_bytes_break_the_parser(raw: bytes) -> None:
    found = parse_run_times(raw)
    assert found is None or min(found) >= 0


def test_the_sample_of_the_page() -> None:
    assert parse_run_times(b"4210377 81034 57\n") == RunTimes(4210377, 81034)
