"""Whatever a log holds: never an error, never a row that cannot be, never an endless search.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures; its seeds are
always the same.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_io.joblog.model import LogRecord
from slurm_io.joblog.tail import LogTail
from tests.filesystems.counter_mutations import mutate
from tests.joblog.logs import CASES, ONE_OF_EACH, parse

LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
LOGS = [path.read_bytes() for path in sorted(CASES.glob("A*/*.txt"))]
SEEDS = LOGS + [text.encode() + b"\n" for text in ONE_OF_EACH.values()]
PIECES = [
    b"\r", b"\n", b"\r\n", b"\x1b[2K", b"\x1b[31m", b"\0", b"0: ", b"[default7]:", b" | ", b"{'",
    b"iteration ", b"it/s", b"%|", b" 5/10 [", b"]", b"nan", b"inf", b"1e400", b"9" * 400, b"[[[",
    b"elapsed time per iteration (ms): ", b"[batch=", b"\xff\xfe", "█━•".encode(), b"Epoch 1: ",
]  # fmt: skip

any_log = st.lists(
    st.one_of(st.sampled_from(SEEDS), st.sampled_from(PIECES), st.binary(max_size=60)),
    max_size=12,
).map(b"".join)


def check_record(record: LogRecord) -> None:
    """What any row must be."""
    for value in (record.step_time_s, record.samples_per_s, record.tokens_per_s):
        assert value is None or (isinstance(value, float) and math.isfinite(value) and value >= 0)
    assert record.step is None or record.step >= 0
    assert record.run >= 1 and record.at_byte >= 0
    text = json.dumps(record.detail, allow_nan=False)
    assert len(text) < 4096


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@given(any_log)
@example(b"\r".join(SEEDS))
@example(b"".join(SEEDS)[::-1])
def test_any_bytes(data: bytes) -> None:
    for record in parse(data):
        check_record(record)


@given(any_log, st.lists(st.integers(0, 1 << 20), max_size=12))
def test_pieces_make_no_difference(data: bytes, places: list[int]) -> None:
    tail = LogTail()
    for piece in cut(data, places):
        tail.feed(piece)
    whole = LogTail()
    whole.feed(data)
    assert tail.take(last=True) == whole.take(last=True)
    assert whole.counts.faults == 0
    assert tail.counts == whole.counts


@given(any_log, st.lists(st.integers(0, 1 << 20), max_size=6))
def test_looks_in_between_lose_no_step(data: bytes, places: list[int]) -> None:
    """Steps and events do not depend on when somebody looked; of bars every look has its own."""
    tail = LogTail()
    seen = []
    for piece in cut(data, places):
        tail.feed(piece)
        seen += tail.take()
    seen += tail.take(last=True)
    assert tail.counts.faults == 0
    for record in seen:
        check_record(record)
    key = [(one.source, one.kind, one.step, one.at_byte) for one in seen if one.kind == "step"]
    assert len(key) == len(set(key))


@given(st.binary(max_size=300), st.integers(0, 200), any_log)
def test_holes_and_emptied_files(before: bytes, size: int, after: bytes) -> None:
    tail = LogTail()
    tail.feed(before)
    tail.skip(size)
    tail.feed(after)
    tail.restart()
    tail.feed(before)
    for record in tail.take(last=True):
        check_record(record)
    assert tail.counts.faults == 0


EVIL = [
    b" " * 60_000, b"1" * 60_000, b"iteration " * 6_000, b"iteration 1/ 2 |" * 3_700,
    b"|" * 60_000, b"{'loss': " * 6_600, b"{'loss': 1.0, 'epoch': 1.0" + b", 'a': 1" * 7_000,
    b"step: 1 loss: " + b"a: " * 18_000, b"1/1 [" * 12_000, b"num_updates=1, wps=" * 3_000,
    b"data_time: " * 5_400, b"Epoch 1 \xe2\x94\x81" * 4_000, b"\x1b[" * 30_000, b"\x1b]" * 30_000,
    b"it/s 1/2 [1:1" * 4_600, b"consumed_tokens:" * 3_700, b"skipped=1, lr=" * 4_000,
    b"eta: 1 iter: data_time: " * 2_500, b"valid loss at iteration 1 " * 2_300,
    b"saving model to Epoch 1, step 1: " * 1_800, b"[batch=1/2]:\n" + b" a: b\n" * 9_000,
    b"0: " * 20_000 + b"iteration", b"(a pid=1) " * 6_000 + b"iteration", b"-1/1/1 " * 8_000,
    b"batch-generator ...: (" * 2_700, b"[1-1 " * 12_000 + b"iteration", b": " * 30_000,
    b"Train Epoch: 1 [1/1 Data (t): " * 2_000, b"Training epoch 1, iteration 1 |" * 1_900,
]  # fmt: skip


@pytest.mark.parametrize("line", EVIL, ids=lambda line: repr(line[:24]))
def test_no_line_takes_long(line: bytes) -> None:
    """Of 64 KiB at most: a quadratic search would take minutes, a linear one milliseconds."""
    for text in (line, line.replace(b" ", b"  ")[:65_000], line[: len(line) // 2] + b"]|}"):
        tail = LogTail()
        began_s = time.process_time()
        tail.feed(text + b"\n")
        tail.take(last=True)
        assert time.process_time() - began_s < 2.0


def test_damaged_logs() -> None:
    _fuzz(random.Random(1), end_s=time.monotonic() + 3)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_damaged_logs_for_long() -> None:
    logs, found, slowest_s = _fuzz(random.Random(2), end_s=time.monotonic() + LONG_S)
    print(f"{logs} damaged logs, slowest {slowest_s:.3f} s, records by form: {dict(found)}")


def _fuzz(chance: random.Random, end_s: float) -> tuple[int, Counter[str], float]:
    found: Counter[str] = Counter()
    logs, slowest_s = 0, 0.0
    while time.monotonic() < end_s:
        data = mutate(chance.choice(SEEDS), SEEDS, chance)
        tail = LogTail()
        began_s = time.process_time()
        for piece in cut(data, [chance.randrange(1 << 20) for _ in range(chance.randrange(4))]):
            tail.feed(piece)
            if chance.random() < 0.3:
                tail.skip(chance.choice((0, 1, 100)))
        records = tail.take(last=True)
        assert tail.counts.faults == 0, data
        slowest_s = max(slowest_s, time.process_time() - began_s)
        for record in records:
            check_record(record)
            found[record.source] += 1
        logs += 1
    assert slowest_s < 2.0
    return logs, found, slowest_s
