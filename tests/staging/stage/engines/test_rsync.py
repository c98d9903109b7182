"""Engine rsync against a real rsync daemon."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import FetchOptions
from slurm_io.staging.stage.engines.rsync import Rsync
from slurm_io.staging.stage.model import Fetched, SourceSpec
from tests.staging.stage.peers import ODD_NAMES, batch, content, fill, served, serving_of

BIG = os.urandom(3_000_000)


@pytest.fixture
def peer(source: Path) -> Iterator[SourceSpec]:
    with served(serving_of(source)) as spec:
        yield spec


def fetch(
    peer: SourceSpec, entries: list[FileEntry], room: Path, options: FetchOptions | None = None
) -> Fetched:
    engine = Rsync(peer)
    answer = engine.fetch(batch(entries), os.fspath(room), options or FetchOptions())
    engine.close()
    named = {*answer.done, *(failure.path for failure in answer.failures)}
    assert named == {entry.path for entry in entries}, "every file must be in the answer"
    return answer


def test_any_name_arrives(source: Path, room: Path, peer: SourceSpec) -> None:
    files = {name: b"" if name == b"empty" else name * 3 for name in ODD_NAMES}
    entries = fill(source, files)
    moved: list[int] = []
    answer = fetch(peer, entries, room, FetchOptions(moved=moved.append))
    assert answer.failures == ()
    assert {name: content(room, name) for name in files} == files
    assert sum(moved) == answer.bytes_moved == sum(map(len, files.values()))


def test_only_the_asked_files_come(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"a": b"a", b"d/b": b"b", b"d/c": b"c"})
    (room / "kept").write_text("not of the batch")
    fetch(peer, entries[:2], room)
    assert sorted(path.name for path in room.rglob("*")) == ["a", "b", "d", "kept"]


def test_a_short_file_is_gone_on_with(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"big": BIG})
    (room / "big").write_bytes(BIG[:2_000_000])
    moved: list[int] = []
    answer = fetch(peer, entries, room, FetchOptions(moved=moved.append))
    assert answer.done == ("big",)
    assert content(room, b"big") == BIG
    assert sum(moved) == answer.bytes_moved == 1_000_000


@pytest.mark.parametrize("extra", [b"", b"longer"])
def test_a_wrong_file_of_full_length_comes_anew(
    extra: bytes, source: Path, room: Path, peer: SourceSpec
) -> None:
    """rsync alone would take it for the right one (same length) or leave it (longer)."""
    entries = fill(source, {b"big": BIG})
    (room / "big").write_bytes(bytes(len(BIG)) + extra)
    os.utime(room / "big", ns=(0, (source / "big").stat().st_mtime_ns))
    assert fetch(peer, entries, room).done == ("big",)
    assert content(room, b"big") == BIG


def test_a_file_that_is_gone_at_the_peer(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"a": b"a", b"new\nline": b"b"})
    (source / "new\nline").unlink()
    answer = fetch(peer, entries, room)
    assert answer.done == ("a",)
    assert [(f.path, f.whose) for f in answer.failures] == [("new\nline", "source")]
    assert "No such file" in answer.failures[0].text


def test_a_file_of_another_length_at_the_peer(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"short": b"12345", b"long": b"12345"})
    (source / "short").write_bytes(b"123")
    (source / "long").write_bytes(b"1234567")
    answer = fetch(peer, entries, room)
    assert {f.path: f.whose for f in answer.failures} == {"short": "source", "long": "source"}
    assert "3 bytes, the manifest says 5" in answer.failures[0].text
    assert content(room, b"short") is None, "no beginning of the right file may stay"
    assert content(room, b"long") is None


def test_links_are_neither_followed_nor_made(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"a": b"a", b"link": b"secret", b"out/passwd": b"x"})
    (source / "link").unlink()
    (source / "link").symlink_to("/etc/hostname")
    (source / "out/passwd").unlink()
    (source / "out").rmdir()
    (source / "out").symlink_to("/etc")
    answer = fetch(peer, entries, room)
    assert answer.done == ("a",)
    assert {f.path: f.whose for f in answer.failures} == {"link": "source", "out/passwd": "source"}
    assert [path.name for path in room.rglob("*") if path.is_symlink()] == []


def test_a_wrong_secret_is_said_before_the_copy(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"a": b"a"})
    assert Rsync(peer).problem() is None
    stranger = SourceSpec("peer", peer.where, "peer", "wrong" * 5)
    problem = Rsync(stranger).problem()
    assert problem is not None and "refuses" in problem and "wrong" * 5 not in problem
    answer = fetch(stranger, entries, room)
    assert [failure.whose for failure in answer.failures] == ["source"]


@pytest.mark.parametrize("where", ["--rsh=sh", "/etc", "rsync://h:1/m", "rsync://u@h:1/m/../x"])
def test_where_must_be_a_daemon(where: str) -> None:
    problem = Rsync(SourceSpec("peer", where, "peer", "s")).problem()
    assert problem is not None and "not of the form" in problem


def test_nobody_there_is_a_broken_link(room: Path) -> None:
    gone = SourceSpec("peer", "rsync://stage@127.0.0.1:1/data", "peer", "s")
    assert Rsync(gone).problem() is not None
    answer = fetch(gone, [FileEntry("a", 1)], room)
    assert [failure.whose for failure in answer.failures] == ["link"]


def test_a_peer_that_is_full_is_asked_again(source: Path, room: Path) -> None:
    """Nothing of its files is wrong."""
    entries = fill(source, {b"a": b"a"})
    with served(serving_of(source, connections_max=0)) as full:
        assert Rsync(full).problem() is None
        answer = fetch(full, entries, room)
    assert [failure.whose for failure in answer.failures] == ["link"]
    assert "full" in answer.failures[0].text


def test_a_peer_keeps_its_own_limit(source: Path, room: Path) -> None:
    huge = bytes(64 << 20)
    entries = fill(source, {b"a": b"a", b"huge": huge})
    stop = threading.Event()
    with served(serving_of(source, bandwidth_bytes_s=100_000)) as slow:
        options = FetchOptions(moved=lambda _: stop.set(), stop=stop)
        answer = fetch(slow, entries, room, options)
    assert [failure.path for failure in answer.failures] == ["huge"]
    assert answer.bytes_moved < len(huge) // 2


def test_stop_ends_it_and_says_what_is_done(source: Path, room: Path, peer: SourceSpec) -> None:
    entries = fill(source, {b"a": b"a", b"big": BIG})
    stop = threading.Event()

    def moved(_: int) -> None:
        stop.set()

    options = FetchOptions(bandwidth_bytes_s=200_000, moved=moved, stop=stop)
    answer = fetch(peer, entries, room, options)
    assert [(f.path, f.text, f.whose) for f in answer.failures] == [("big", "stopped", "link")]
    kept = content(room, b"big") or b""
    assert BIG.startswith(kept), "what stays must be a beginning of the right file"


@pytest.mark.root
def test_no_space_here_is_the_targets_fault(
    source: Path, small_disk: Path, peer: SourceSpec
) -> None:
    entries = fill(source, {b"a": b"a", b"big": BIG})
    answer = fetch(peer, entries, small_disk)
    assert {failure.whose for failure in answer.failures} == {"target"}
    assert "No space left" in answer.failures[0].text


def test_a_room_that_is_gone_is_the_targets_fault(source: Path, peer: SourceSpec) -> None:
    answer = fetch(peer, fill(source, {b"a": b"a"}), source / "nowhere")
    assert [failure.whose for failure in answer.failures] == ["target"]
