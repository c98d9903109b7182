"""Texts of the ring: always valid JSON, always within their limit, the end of a path kept."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.hook import text

PATHS = st.text(st.characters(exclude_characters="", codec=None), max_size=3000)


@given(path=PATHS, name=st.text(max_size=2000))
def test_any_text_fits_and_reads_back(path: str, name: str) -> None:
    raw = text.encode({"path": path, "name": name, "id": 7})
    assert len(raw) <= 640
    read = json.loads(raw.decode("utf-8"))
    assert read["id"] == 7
    if not read.get("cut"):
        assert (read["path"], read["name"]) == (path, name)
    assert path.endswith(read["path"])
    assert name.endswith(read["name"])


@given(raw=st.binary(max_size=640))
def test_parts_are_the_whole(raw: bytes) -> None:
    pieces = text.parts(raw)
    assert b"".join(pieces) == raw
    assert all(0 < len(piece) <= 40 for piece in pieces)
    assert len(pieces) <= 16


@given(length=st.integers(min_value=641, max_value=4000))
def test_cut_path_uses_most_of_the_room(length: int) -> None:
    assert len(text.encode({"path": "/" * length})) > 320
