"""The two messages, byte by byte, and what hostile clients send instead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.reservation.health_socket.messages import read_request, write_answer


def test_request_as_the_client_of_nvrx_writes_it() -> None:
    """Recorded: HealthCheckRequest(args=["--prolog", "x"]).SerializeToString()."""
    assert read_request(b"\n\x08--prolog\n\x01x") == ("--prolog", "x")
    assert read_request(b"") == ()


def test_answers_as_the_client_of_nvrx_reads_them() -> None:
    """Recorded with the client's own protocol buffers."""
    assert write_answer(True, 0, '{"fail_count": 0}') == b'\x08\x01\x1a\x11{"fail_count": 0}'
    assert write_answer(False, 1, "", "x") == b'\x10\x01"\x01x'
    assert write_answer(False, -1, "") == b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"


def test_fields_of_later_versions_are_passed_over() -> None:
    assert read_request(b"\x10\x05\x1d1234\x29" + b"12345678" + b"\x32\x01a\n\x01x") == ("x",)


@pytest.mark.parametrize(
    "data",
    [
        b"\n\xff",
        b"\n\x05abc",
        b"\n" + b"\xff" * 11,
        b"\x0b",
        b"\n\x01\xff",
        b"\n\x00" * 300,
        b"\n" + b"a" * 70_000,
        b"\x09123",
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_request(data)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    try:
        read_request(data)
    except ValueError:
        return
