"""Damaged texts: no crash, every frame well formed, every loss counted or the text shorter.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.frames.table import load_table
from slurm_io.frames.windows import judge_window
from slurm_io.stacktext.chrometrace import parse_chrometrace
from slurm_io.stacktext.faulthandler import parse_faulthandler
from slurm_io.stacktext.folded import parse_folded
from slurm_io.stacktext.gdb import parse_backtrace
from slurm_io.stacktext.model import LONGEST_NAME, MOST_FRAMES, Frame, Trace
from slurm_io.stacktext.ps import parse_ps
from slurm_io.stacktext.pyspy_dump import parse_dump
from slurm_io.stacktext.pyspy_json import parse_dump_json
from slurm_io.stacktext.tracebacks import parse_tracebacks
from slurm_io.stacktext.worker_deaths import find_worker_deaths
from tests.filesystems.layout.mutations import mutate_text
from tests.stacktext.samples import DATA

LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
TABLE = load_table()


def trace_frames(raw: bytes) -> Iterator[tuple[Frame, ...]]:
    trace: Trace = parse_chrometrace(raw)
    assert trace.torn >= 0 and trace.torn_us >= 0 and trace.damaged_events >= 0
    for one in trace.stretches:
        assert 0 <= one.start_us < one.end_us <= trace.end_us
        yield one.frames
    if trace.end_us < 60_000_000:
        window = judge_window(trace, TABLE, 10.0, 5_000_000_000, 4_000_000_000)
        assert sum(row.samples for row in window.rows) + window.torn == window.instants
        assert all(0 <= row.certain <= row.samples for row in window.rows)


READERS: dict[str, Callable[[bytes], Iterator[tuple[Frame, ...]]]] = {
    "dump": lambda raw: (thread.frames for thread in parse_dump(raw).threads),
    "json": lambda raw: (thread.frames for thread in parse_dump_json(raw).threads),
    "raw": lambda raw: (record.frames for record in parse_folded(raw)[0]),
    "chrometrace": trace_frames,
    "faulthandler": lambda raw: (thread.frames for thread in parse_faulthandler(raw).threads),
    "traceback": lambda raw: (one.frames for one in parse_tracebacks(raw)),
    "gdb": lambda raw: (thread.frames for thread in parse_backtrace(raw)),
}


def check(reader: str, raw: bytes) -> int:
    frames = 0
    for stack in READERS[reader](raw):
        assert len(stack) <= MOST_FRAMES
        for frame in stack:
            assert 0 < len(frame.name) <= LONGEST_NAME and len(frame.file) <= LONGEST_NAME
            assert all(ord(c) >= 32 for c in frame.name + frame.file)
            assert frame.line is None or frame.line >= 0
            TABLE.meaning_of(frame)
            frames += 1
    return frames


@given(st.sampled_from(sorted(READERS)), st.binary(max_size=600))
def test_any_bytes_are_read_without_a_crash(reader: str, raw: bytes) -> None:
    check(reader, raw)
    parse_ps(raw)
    find_worker_deaths(raw)


@given(
    st.sampled_from(sorted(READERS)),
    st.lists(
        st.sampled_from(
            [
                'Thread 1 (idle): "MainThread"',
                "    f (a.py:1)",
                "Process 1: x",
                "Python v3.11.7 (x)",
                "Traceback (most recent call last):",
                '  File "a.py", line 3, in f',
                "ValueError: x",
                "╭─ Traceback (most recent call last) ─╮",
                "│ /a/b.py:1 in │",
                "│ f │",
                "╰──╯",
                "Current thread 0x01 (most recent call first):",
                '  File "a", line 1 in g',
                "a;b (c:1) 3",
                'process 1:"',
                '";thread (1): x;f (a:1) 2',
                "#0  f (a=1) at b.c:1",
                '[{"ph":"B","name":"<module>","ts":1,"pid":1,"tid":1,"args":{}}',
                ',{"ph":"E","name":"<module>","ts":900000,"pid":1,"tid":1}',
                "]",
                "",
                " ",
            ]
        ),
        max_size=30,
    ),
)
def test_their_own_words_in_any_order_are_read_without_a_crash(
    reader: str, lines: list[str]
) -> None:
    check(reader, "\n".join(lines).encode())


def samples() -> list[tuple[str, bytes]]:
    ends = {".dump": "dump", ".raw": "raw", ".json": "json"}
    starts = {"faulthandler": "faulthandler", "traceback": "traceback", "rich": "traceback"}
    found = []
    for path in sorted(DATA.iterdir()):
        reader = ends.get(path.suffix) or next(
            r for s, r in starts.items() if path.name.startswith(s)
        )
        found.append(("chrometrace" if "chrometrace" in path.name else reader, path.read_bytes()))
    return found


def fuzz(seconds: float, rounds: int | None, seed: int) -> Counter[str]:
    chance, done = random.Random(seed), Counter[str]()
    until, texts = time.monotonic() + seconds, samples()
    while (done["rounds"] < rounds) if rounds is not None else (time.monotonic() < until):
        reader, raw = chance.choice(texts)
        text = raw.decode("utf-8", "replace")
        if reader == "chrometrace":
            text = text[: chance.randrange(2000, len(text))].replace("},{", "},\n{")
        for _ in range(chance.randrange(1, 8)):
            text = mutate_text(
                text, [other.decode("utf-8", "replace") for _, other in texts], chance
            )
        done["frames"] += check(reader, text.encode("utf-8", "replace"))
        done["rounds"] += 1
    return done


def test_mutated_samples_are_read_without_a_crash() -> None:
    assert fuzz(0, 400, seed=1)["frames"] > 500


@pytest.mark.long
def test_mutated_samples_for_long() -> None:
    seed = int(time.time())
    print(f"\nseed {seed}: {dict(fuzz(LONG_S, None, seed))}")
