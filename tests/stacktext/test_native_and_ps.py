"""gdb's frames with their arguments, and lists of processes with zombies among them."""

from __future__ import annotations

import pytest

from slurm_io.stacktext.gdb import parse_backtrace
from slurm_io.stacktext.ps import parse_ps

BT = """\
[New LWP 12]
Thread 2 (Thread 0x7f00 (LWP 12) "python"):
#0  0x00007f in __futex_abstimed_wait (a=1, b=<optimized out>) at futex-internal.c:57
#1  0x00007f in std::this_thread::sleep (d=...) from /lib/x86_64-linux-gnu/libstdc++.so.6
Thread 1 (Thread 0x7f01 (LWP 11) "python"):
#0  __open64 (file=0x55 "/data/set/a.tar", oflag=0) at ../sysdeps/open64.c:41
#1  0x0000 in walk (dir=0x1 "/data/set", fn=0x7f <callback_of_ours(char const*)+16>) at walk.c:9
#2  ?? () from /opt/lib.so
"""


def test_threads_frames_and_arguments() -> None:
    second, first = parse_backtrace(BT)
    assert (second.ident, first.ident) == ("2", "1")
    assert [frame.name for frame in second.frames] == [
        "__futex_abstimed_wait",
        "std::this_thread::sleep",
    ]
    assert first.frames[0].file == "../sysdeps/open64.c" and first.frames[0].line == 41
    assert first.paths == ("/data/set", "/data/set/a.tar"), "the outermost path first"


def test_a_frame_that_cannot_be_read_is_counted() -> None:
    (thread,) = parse_backtrace("#0  f (a=1) at a.c:1\n#1  (((\n#2  g () at a.c:2\n")
    assert [frame.name for frame in thread.frames] == ["f", "g"]
    assert thread.dropped_frames == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "  PID  PPID STAT COMMAND\n 1 0 Ss python t.py\n 2 1 Z [python] <defunct>\n",
            [(1, 0, False, "python"), (2, 1, True, "python")],
        ),
        (
            "UID PID PPID C STIME TTY TIME CMD\nu 5 1 0 10:00 ? 0:01 /usr/bin/python3.11 -m x y\n",
            [(5, 1, False, "python3.11")],
        ),
        (
            "PID S ARGS\n7 Z python <defunct>\n8 S -bash\n",
            [(7, None, True, "python"), (8, None, False, "bash")],
        ),
    ],
)
def test_the_usual_forms_of_ps(text: str, expected: list[tuple[object, ...]]) -> None:
    found, dropped = parse_ps(text)
    assert [(one.pid, one.ppid, one.is_zombie, one.program) for one in found] == expected
    assert dropped == 0


def test_a_zombies_percentage_is_history() -> None:
    head = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n"
    text = f"{head}u 8 51.7 0.0 0 0 ? Z 1:1 3:05 [p] <defunct>\n"
    (one,), _ = parse_ps(text)
    assert (one.lifetime_cpu, one.cpu_now) == (0.517, 0.0)


def test_lines_without_columns_are_dropped_and_counted() -> None:
    found, dropped = parse_ps("1 2 3\nPID STAT COMMAND\nx y z\n4\n5 S a\n")
    assert [one.pid for one in found] == [5]
    assert dropped == 3
