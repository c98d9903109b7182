"""Relative paths: what a manifest accepts, and what it must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest import paths
from slurm_io.staging.manifest.paths import (
    Ascending,
    checked_path,
    decode_path,
    encode_path,
    fault_of,
    notes_on,
    printable,
)

COMPONENT = st.binary(min_size=1, max_size=20).filter(
    lambda raw: raw not in (b".", b"..") and not {0, 47} & {*raw}
)
RAW_PATH = st.lists(COMPONENT, min_size=1, max_size=5).map(b"/".join)


@given(RAW_PATH)
def test_every_name_of_a_file_system_survives(raw: bytes) -> None:
    assert checked_path(decode_path(raw)) == raw


@given(st.lists(st.sampled_from([b"", b".", b"..", b"a", b"...", b"/", b"\0", b"x" * 255])))
def test_the_quick_look_at_a_path_finds_the_same_faults(parts: list[bytes]) -> None:
    for raw in (b"/".join(parts), b"".join(parts)):
        assert fault_of(raw) == paths._fault(raw)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "empty"),
        ("/etc/passwd", "absolute"),
        ("..", r"'\.\.'"),
        ("a/../../etc", r"'\.\.'"),
        (".", "'.' component"),
        ("a/./b", "'.' component"),
        ("a//b", "empty or"),
        ("a/", "empty or"),
        ("a\0b", "NUL"),
        ("x" * 256, "component of 256 bytes"),
        ("é" * 128, "component of 256 bytes"),
        ("x/" * 5000 + "x", "10001 bytes"),
        ("\ud800", "no file name"),
        ("\udcc3\udca9", "escapes"),
    ],
)
def test_refused_path_says_why(path: str, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        checked_path(path)


def test_limits_themselves_are_accepted() -> None:
    longest = "/".join(["x" * 255] * 16)
    assert len(checked_path(longest)) == 4095
    with pytest.raises(ManifestError, match="4097 bytes"):
        checked_path(longest + "/x")
    assert checked_path("é" * 127 + "x")


@given(RAW_PATH)
def test_printed_path_is_one_line_of_ascii(raw: bytes) -> None:
    shown = printable(decode_path(raw))
    assert shown.isascii() and shown.isprintable()


def test_long_path_is_printed_short() -> None:
    assert len(printable("x" * 10_000)) < 230


@given(st.sets(RAW_PATH, max_size=20))
def test_sorted_paths_pass_unless_a_file_is_a_folder_too(raws: set[bytes]) -> None:
    order = Ascending()
    is_tree = not any(a != b and b.startswith(a + b"/") for a in raws for b in raws)
    try:
        for raw in sorted(raws):
            order.add(decode_path(raw))
    except ManifestError as error:
        assert "below another file" in str(error) and not is_tree
    else:
        assert is_tree


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["a", "a"], "twice"),
        (["b", "a"], "ascending"),
        (["a", "a.b", "a/b"], "below another file"),
        (["a", "a!", "a!/c"], "below another file"),
        (["\udcff", "é"], "ascending"),
    ],
)
def test_order_and_duplicates(paths: list[str], reason: str) -> None:
    order = Ascending()
    with pytest.raises(ManifestError, match=reason):
        for path in paths:
            order.add(path)


def test_order_is_that_of_bytes_not_of_characters() -> None:
    # U+FF21 sorts below U+10000 as bytes too, but surrogates of raw bytes sort apart.
    raws = sorted([b"\xff", "é".encode(), "\U00010000".encode(), "\uff21".encode()])
    order = Ascending()
    assert [order.add(decode_path(raw)) for raw in raws] == raws


def test_names_that_trip_other_systems_are_noted() -> None:
    notes = notes_on(["Data/a", "data/a", "e\u0301", "\udcff", "fine"])
    assert [note.split(",")[0] for note in notes] == [
        "1 path(s) not in Unicode NFC",
        "1 path(s) equal but for case",
        "1 path(s) not UTF-8",
    ]
    assert notes_on(["a", "b/ä"]) == []


def test_encoding_does_not_depend_on_the_locale() -> None:
    assert encode_path("é\udcff") == b"\xc3\xa9\xff"
