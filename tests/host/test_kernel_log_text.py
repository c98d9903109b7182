"""One line of text: every form that logs are handed over in gives the kernel's own message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.host.kernel_log_text import parse_line

MESSAGE = "nvme nvme0: Abort status: 0x0"


@pytest.mark.parametrize(
    ("line", "at_s", "clock"),
    [
        (f"[  150.539498] {MESSAGE}", 150.539498, "boot"),
        (f"[  150.539498][ T1018] {MESSAGE}", 150.539498, "boot"),
        (f"[  150.539498] [   C52] {MESSAGE}", 150.539498, "boot"),
        (f"<4>[  150.539498] {MESSAGE}", 150.539498, "boot"),
        (f"kern  :warn  : [  150.539498] {MESSAGE}", 150.539498, "boot"),
        (f"Sep 12 12:36:45 [kernel] [  150.539498][ T1018] {MESSAGE}", 150.539498, "boot"),
        (f"Sep  2 12:36:45 node7 kernel: [  150.539498] {MESSAGE}", 150.539498, "boot"),
        (f"2024-09-12T12:36:45.1+02:00 node7 kernel: [1.5] {MESSAGE}", 1.5, "boot"),
        (f"4,339,150539498,-,caller=T1;{MESSAGE}", 150.539498, "boot"),
        (f"2025-01-21T04:41:44,285060+00:00 {MESSAGE}", 1737434504.28506, "wall"),
        (f"[Sun Sep  1 19:13:30 2024] [  T423] {MESSAGE}", 1725218010.0, "wall"),
        (f"kernel: {MESSAGE}", None, "none"),
        (MESSAGE, None, "none"),
    ],
)
def test_forms(line: str, at_s: float | None, clock: str) -> None:
    found = parse_line(line)
    assert found is not None
    assert found.message == MESSAGE
    assert found.at_s == pytest.approx(at_s)
    assert found.clock == clock


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        " SUBSYSTEM=nvme",
        f"<12>[  150.5] {MESSAGE}",
        f"user  :notice: [  150.5] {MESSAGE}",
        f"Sep 12 12:36:45 node7 python[42]: {MESSAGE}",
        f"12,339,150539498,-;{MESSAGE}",
    ],
)
def test_lines_of_others_are_left_out(line: str) -> None:
    assert parse_line(line) is None


def test_syslog_dates_differ_by_their_seconds() -> None:
    first = parse_line(f"Feb 29 12:36:45 node7 kernel: {MESSAGE}")
    second = parse_line(f"Mar  1 12:36:45 node7 kernel: {MESSAGE}")
    assert first is not None and second is not None and first.at_s and second.at_s
    assert second.at_s - first.at_s == 86400


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_any_line(line: str) -> None:
    found = parse_line(line)
    assert found is None or found.message


@settings(max_examples=200, deadline=None)
@given(
    st.floats(0, 1e9).map(lambda number: round(number, 6)),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80),
)
def test_time_and_message_come_back(at_s: float, message: str) -> None:
    found = parse_line(f"[{at_s:12.6f}] {message}")
    if message.startswith("["):  # may be a column of its own
        return
    assert found is not None and found.message == message and found.at_s == pytest.approx(at_s)
