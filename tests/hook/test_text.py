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


def test_an_error_is_its_class_and_nothing_of_its_words() -> None:
    assert text.of_error(ValueError("secret")) == {"error": "ValueError"}


def test_the_number_behind_an_error_is_found() -> None:
    assert text.of_error(OSError(28, "No space left")) == {"error": "OSError", "errno": 28}
    try:
        try:
            raise OSError(122, "quota")
        except OSError:
            raise RuntimeError("writer failed") from None
    except RuntimeError as error:
        assert text.of_error(error) == {"error": "RuntimeError", "errno": 122}


def test_torchs_writer_names_no_number() -> None:
    """What torch.save raises on a full file system, by path."""
    error = RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534")
    error.__cause__ = RuntimeError("basic_ios::clear: iostream error")
    assert text.of_error(error) == {"error": "RuntimeError", "write_failed": True}


def test_errors_that_cause_one_another_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert text.of_error(first) == {"error": "RuntimeError"}


def test_how_a_worker_was_lost() -> None:
    """The words of torch's signal handler and of its DataLoader."""
    signal = RuntimeError(
        "DataLoader worker (pid 71) is killed by signal: Bus error. It is possible that "
        "dataloader's workers are out of shared memory. Please try to raise your shared memory "
        "limit."
    )
    assert text.of_error(signal)["worker"] == "is killed by signal: Bus error"
    vanished = RuntimeError("DataLoader worker (pid(s) 71, 72) exited unexpectedly")
    assert text.of_error(vanished)["worker"] == "exited unexpectedly"
    vanished.__cause__ = signal
    assert text.of_error(vanished)["worker"] == "is killed by signal: Bus error"
    assert "worker" not in text.of_error(RuntimeError("Caught KeyError in DataLoader worker"))
