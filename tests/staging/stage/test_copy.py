"""The plain copy engine: whole files, pieces, resumed ones, and whose fault it was."""

import os
from pathlib import Path

import pytest

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage import stream
from slurm_io.staging.stage.engines.base import FetchOptions
from slurm_io.staging.stage.engines.copy import Copy
from slurm_io.staging.stage.model import Batch, Fetched
from tests.labs.fault_kit import fill
from tests.staging.stage.kit import path_source

SIZES = {"a/b": 100_000, "c": 10, "empty": 0}


@pytest.fixture
def engine(tmp_path: Path) -> Copy:
    fill(tmp_path / "source", SIZES)
    (tmp_path / "room").mkdir()
    return Copy(path_source(tmp_path / "source"))


def fetch(engine: Copy, tmp_path: Path, options: FetchOptions | None = None) -> Fetched:
    batch = Batch(1, tuple(FileEntry(path, size) for path, size in SIZES.items()))
    return engine.fetch(batch, os.fspath(tmp_path / "room"), options or FetchOptions())


def same(tmp_path: Path, path: str) -> bool:
    return (tmp_path / "room" / path).read_bytes() == (tmp_path / "source" / path).read_bytes()


@pytest.mark.parametrize("without", [(), ("copy_file_range",), ("copy_file_range", "sendfile")])
def test_every_way_brings_the_same(
    without: tuple[str, ...], engine: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> int:
        raise OSError(22, "Invalid argument")

    for name in without:
        monkeypatch.setattr(stream.os, name, fail)
    moved: list[int] = []
    answer = fetch(engine, tmp_path, FetchOptions(moved=moved.append))
    assert set(answer.done) == set(SIZES)
    assert all(same(tmp_path, path) for path in SIZES)
    assert sum(moved) == answer.bytes_moved == sum(SIZES.values())


def test_a_partly_copied_file_is_gone_on_with(engine: Copy, tmp_path: Path) -> None:
    (tmp_path / "room/a").mkdir()
    beginning = (tmp_path / "source/a/b").read_bytes()[:60_000]
    (tmp_path / "room/a/b").write_bytes(beginning)
    answer = fetch(engine, tmp_path)
    assert answer.bytes_moved == sum(SIZES.values()) - 60_000
    assert same(tmp_path, "a/b")


def test_pieces_of_a_file(engine: Copy, tmp_path: Path) -> None:
    (tmp_path / "room/a").mkdir()
    (tmp_path / "room/a/b").write_bytes(bytes(100_000))
    entry = FileEntry("a/b", 100_000)
    room = os.fspath(tmp_path / "room")
    engine.fetch_ranges(entry, ((0, 10), (99_990, 10)), room, FetchOptions())
    source = (tmp_path / "source/a/b").read_bytes()
    assert (tmp_path / "room/a/b").read_bytes() == source[:10] + bytes(99_980) + source[-10:]


def test_a_source_that_changes_meanwhile_is_refused(engine: Copy, tmp_path: Path) -> None:
    def change(count: int) -> None:
        with (tmp_path / "source/a/b").open("r+b") as file:
            file.write(b"changed")

    answer = fetch(engine, tmp_path, FetchOptions(moved=change))
    assert [(f.path, f.whose) for f in answer.failures] == [("a/b", "source")]
    assert (tmp_path / "room/a/b").stat().st_size == 0


def test_a_source_of_another_size_or_without_the_file(engine: Copy, tmp_path: Path) -> None:
    (tmp_path / "source/c").write_bytes(b"longer than it was")
    (tmp_path / "source/a/b").unlink()
    answer = fetch(engine, tmp_path)
    assert {(f.path, f.whose) for f in answer.failures} == {("a/b", "source"), ("c", "source")}
    assert answer.done == ("empty",)


def break_calls(monkeypatch: pytest.MonkeyPatch, code: int, *names: str) -> None:
    """These system calls end with this error."""

    def fail(*arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    for name in names:
        monkeypatch.setattr(stream.os, name, fail)


@pytest.mark.parametrize(("code", "whose"), [(5, "source"), (116, "link"), (110, "link")])
def test_read_errors_are_the_sources_or_the_links(
    code: int, whose: str, engine: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_calls(monkeypatch, code, "copy_file_range", "sendfile", "pread")
    answer = fetch(engine, tmp_path)
    assert {failure.whose for failure in answer.failures} == {whose}


@pytest.mark.parametrize("code", [28, 122, 5])
def test_write_errors_are_the_targets(
    code: int, engine: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_calls(monkeypatch, code, "copy_file_range", "sendfile", "pwrite")
    answer = fetch(engine, tmp_path)
    assert {failure.whose for failure in answer.failures} == {"target"}


def test_told_to_stop_it_says_what_is_done(engine: Copy, tmp_path: Path) -> None:
    options = FetchOptions()
    options.stop.set()
    answer = fetch(engine, tmp_path, options)
    assert (answer.done, len(answer.failures)) == ((), 3)


def test_a_limit_makes_small_steps(engine: Copy, tmp_path: Path) -> None:
    moved: list[int] = []
    fetch(engine, tmp_path, FetchOptions(bandwidth_bytes_s=1_000_000, moved=moved.append))
    assert max(moved) <= 500_000
    pump = stream.Pump(FetchOptions(bandwidth_bytes_s=100_000))
    assert pump._step() == 50_000


def test_a_link_inside_is_followed_and_one_outside_is_not(engine: Copy, tmp_path: Path) -> None:
    (tmp_path / "source/a/b").rename(tmp_path / "source/real")
    (tmp_path / "source/a/b").symlink_to("../real")
    assert "a/b" in fetch(engine, tmp_path).done
    (tmp_path / "source/real").rename(tmp_path / "outside")
    (tmp_path / "source/a/b").unlink()
    (tmp_path / "source/a/b").symlink_to(tmp_path / "outside")
    assert [f.path for f in fetch(engine, tmp_path).failures] == ["a/b"]


def test_what_is_wrong_with_a_source(tmp_path: Path) -> None:
    assert Copy.missing() is None
    assert "cannot be opened" in str(Copy(path_source(tmp_path / "nowhere")).problem())
    assert Copy(path_source(tmp_path)).problem() is None
