"""Engines that hang, break off, lie or raise: nothing they do late or say falsely counts."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions, Ranges
from slurm_io.staging.stage.model import Batch, Failure, Fetched
from tests.labs.fault_kit import fill
from tests.staging.stage.kit import QUICK, SIZES, Site, path_source
from tests.staging.stage.scripted import NAME, Scripted, scripted

__all__ = ["scripted"]
BIG = "a/000.tar"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


class Hanging(Scripted):
    """Never comes back from its first call, then writes into its file; says nothing more."""

    batch_files = 2
    let_go: threading.Event
    returned: threading.Event

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        if not self.where.endswith("other"):
            return super().fetch(batch, room, options)
        self.let_go.wait(60)
        try:
            (Path(room) / batch.files[0].path).write_bytes(b"written much too late")
        finally:
            self.returned.set()
        return Fetched(tuple(entry.path for entry in batch.files))


def test_a_source_that_hangs_is_left_behind(
    site: Site, tmp_path: Path, scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    Hanging.let_go, Hanging.returned = threading.Event(), threading.Event()
    monkeypatch.setitem(ENGINES._things, NAME, Hanging)
    other = tmp_path / "other"
    fill(other, SIZES)
    # Longer than a busy machine keeps the good source waiting.
    patience = replace(QUICK, hung_s=3.0, grace_s=0.1)
    sources = (path_source(site.source), path_source(other))
    answer = site.stage(engine=NAME, sources=sources, patience=patience)
    assert answer.state == "ready"
    assert any("other was given up: no byte" in note for note in answer.notes)
    Hanging.let_go.set()
    Hanging.returned.wait(60)
    assert site.truth()  # what it wrote went nowhere


class HangingAgain(Scripted):
    """Breaks off midway; when it goes on with the same file it hangs with the file open."""

    batch_files = 1
    let_go: threading.Event
    wrote: threading.Event

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        if not self.where.endswith("other"):
            self.let_go.wait(0.05)  # so that the other one gets files, too
            return super().fetch(batch, room, options)
        path = batch.files[0].path
        file = Path(room) / path
        if not file.exists():
            file.write_bytes(b"half")
            return Fetched((), (Failure(path, "reset", "link"),))
        with file.open("r+b") as out:
            self.let_go.wait(60)
            out.write(b"written much too late")
        self.wrote.set()
        return Fetched((path,))

    def fetch_ranges(
        self, entry: FileEntry, ranges: Ranges, room: str, options: FetchOptions
    ) -> Fetched:
        if not self.where.endswith("other"):
            return super().fetch_ranges(entry, ranges, room, options)
        return self.fetch(Batch(0, (entry,)), room, options)


def test_a_file_that_a_hanging_source_has_open_is_never_named(
    site: Site, tmp_path: Path, scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    HangingAgain.let_go, HangingAgain.wrote = threading.Event(), threading.Event()
    monkeypatch.setitem(ENGINES._things, NAME, HangingAgain)
    other = tmp_path / "other"
    fill(other, SIZES)
    patience = replace(QUICK, link_tries=1000, hung_s=0.3, grace_s=0.1)
    sources = (path_source(other), path_source(site.source))
    answer = site.stage(engine=NAME, sources=sources, patience=patience)
    assert answer.state == "ready"
    assert any("other was given up: no byte" in note for note in answer.notes)
    HangingAgain.let_go.set()
    assert HangingAgain.wrote.wait(20)
    assert site.truth()


class Changing(Scripted):
    """Somebody writes into the source's file while it is copied, once or each time."""

    batch_files = 1
    times = 1

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        file = Path(self.where) / batch.files[0].path
        if batch.files[0].path != BIG or self.brought.count((self.where, BIG)) >= self.times:
            return super().fetch(batch, room, options)
        right = file.read_bytes()

        def change(count: int) -> None:
            options.moved(count)
            file.write_bytes(right[:-5] + b"other")

        answer = super().fetch(batch, room, replace(options, moved=change))
        if self.times == 1:
            file.write_bytes(right)
        return answer


@pytest.mark.parametrize("times", [1, 99])
def test_a_source_that_changes_while_it_is_copied(
    times: int,
    site: Site,
    tmp_path: Path,
    scripted: type[Scripted],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ENGINES._things, NAME, Changing)
    monkeypatch.setattr(Changing, "times", times)
    answer = site.stage(engine=NAME)
    assert (answer.state, [failure.path for failure in answer.failed]) == ("failed", [BIG])
    assert "changed at the source" in answer.text
    assert not site.says_ready()
    fill(tmp_path / "other", SIZES)
    again = site.stage(
        engine=NAME, sources=(path_source(site.source), path_source(tmp_path / "other"))
    )
    assert again.state == "ready"
    assert site.truth()


class Lying(Scripted):
    """Says done of everything and brings nothing, or of nothing at all, or raises."""

    how = "done"

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        if self.how == "raise":
            raise RuntimeError("a fault of the engine's")
        done = tuple(entry.path for entry in batch.files) if self.how == "done" else ()
        return Fetched((*done, "some/other"))

    def fetch_ranges(
        self, entry: FileEntry, ranges: Ranges, room: str, options: FetchOptions
    ) -> Fetched:
        return self.fetch(Batch(0, (entry,)), room, options)


@pytest.mark.parametrize("how", ["done", "silent", "raise"])
def test_an_engine_that_lies_is_not_believed(
    how: str, site: Site, scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES._things, NAME, Lying)
    monkeypatch.setattr(Lying, "how", how)
    answer = site.stage(engine=NAME)
    assert (answer.state, answer.copied_files) == ("failed", 0)
    assert not site.says_ready()
