"""Foreign JSON: every value checked, every fault with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_json import Fields, parse_json


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings(encoding: str) -> None:
    assert parse_json('{"é": 1}'.encode(encoding), "x") == {"é": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'{"a": Infinity}', "Infinity is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": {"b": 1, "b": 2}}', "key 'b' occurs twice"),
        (b'{\n"a": }', "x line 2: not JSON"),
        (b"\xff", "not JSON"),
        (b"9" * 5000, "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_documents(text: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        parse_json(text, "x")


@pytest.mark.parametrize(
    "value", ["1", 1.0, True, -1, 2**63, [], {}, float("inf"), 10**400], ids=lambda v: repr(v)[:20]
)
def test_only_whole_numbers_of_63_bits_are_counts(value: Any) -> None:
    with pytest.raises(ManifestError, match=r"^x\.size: ") as caught:
        Fields({"size": value}, "x").count("size")
    assert len(str(caught.value)) < 200


def test_absent_and_null_are_the_same() -> None:
    fields = Fields({"none": None, "empty": "", "zero": 0, "most": 2**63 - 1}, "x")
    assert fields.optional_count("none") is fields.optional_count("gone") is None
    assert (fields.count("zero"), fields.count("most")) == (0, 2**63 - 1)
    assert fields.optional_text("empty") is None
    assert list(fields.objects("none")) == fields.list_of("gone") == []
    assert ("none" in fields, "zero" in fields) == (False, True)
    with pytest.raises(ManifestError, match="x: lacks none"):
        fields.text("none")


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_no_bytes_crash(text: bytes) -> None:
    try:
        parse_json(text, "x")
    except ManifestError as error:
        assert "\n" not in str(error)


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
    )
)
def test_good_documents_come_back(value: Any) -> None:
    assert parse_json(json.dumps(value).encode(), "x") == value
