"""What rsync says, as 3.5 and older ones say it."""

import pytest

from slurm_io.staging.stage.rsync_judge import was_turned_away
from slurm_io.staging.stage.rsync_text import Output, complaints, of_exit_code


def test_complaints_of_the_peer() -> None:
    errors = (
        b'rsync: [sender] link_stat "/d/new\\#012line" (in data) failed: '
        b"No such file or directory (2)\n"
        b'rsync: send_files failed to open "/old" (in data): Permission denied (13)\n'
        b'file has vanished: "/gone" (in data)\n'
        b'rsync: [sender] read errors mapping "/rot" (in data): Input/output error (5)\n'
        b"rsync error: some files/attrs were not transferred (code 23) at main.c(1956)\n"
    )
    said = complaints(errors)
    assert said.of_source == {
        "d/new\nline": "No such file or directory (2)",
        "old": "Permission denied (13)",
        "gone": "it vanished from the peer",
        "rot": "Input/output error (5)",
    }
    assert said.of_target is None
    assert said.last.endswith("Input/output error (5)")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'rsync: [receiver] write failed on "/proc/7/fd/9/a": No space left on device (28)', True),
        (
            b'rsync: [generator] recv_generator: mkdir "/x/d" failed: Read-only file system (30)',
            True,
        ),
        (b"rsync: [receiver] read error: Connection reset by peer (104)", False),
        (b"rsync: [Receiver] failed to connect to n1 (10.0.0.1): Connection refused (111)", False),
    ],
)
def test_a_broken_connection_is_not_this_nodes_fault(line: bytes, why: bool) -> None:
    assert (complaints(line).of_target is not None) is why


def test_bits_that_changed_twice() -> None:
    errors = (
        b"WARNING: once failed verification -- update retained (will try again).\n"
        b"ERROR: d/\\#377twice failed verification -- update retained.\n"
    )
    assert complaints(errors).damaged == {"d/\udcfftwice"}


def test_terminal_codes_are_not_passed_on() -> None:
    said = complaints(b'rsync: [sender] open "/a" (in data): \x1b[31mred\x07 (5)\n')
    assert said.of_source["a"].isprintable()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_progress_in_pieces_of_any_length(size: int) -> None:
    text = (
        b'skipping non-regular file "l\\#012n"\n\r      1000  33%  0.00kB/s\r   3000  99%  1kB/s\n'
    )
    output = Output()
    for at in range(0, len(text), size):
        output.take(text[at : at + size])
    assert output.total_bytes == 3000
    assert output.no_files == {"l\nn"}


@pytest.mark.parametrize(
    ("code", "whose"),
    [(5, "source"), (10, "link"), (11, "target"), (12, "link"), (23, "source"), (24, "source"),
     (30, "link"), (35, "link"), (-9, "link"), (99, "link")],
)  # fmt: skip
def test_exit_codes(code: int, whose: str) -> None:
    assert of_exit_code(code)[0] == whose


@pytest.mark.parametrize(
    ("line", "away"),
    [
        (b"rsync: did not see server greeting", True),
        (
            b"rsync: [Receiver] safe_read failed to read 1 bytes: Connection reset by peer (104)",
            True,
        ),
        (b"rsync: [receiver] read error: Connection reset by peer (104)", False),
        (b"@ERROR: auth failed on module data", False),
    ],
)
def test_a_door_that_is_closed_at_once_is_no_broken_stream(line: bytes, away: bool) -> None:
    assert was_turned_away(complaints(line + b"\n")) is away
