"""Sources for tests of engines: a folder, its manifest entries, a peer that serves it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import xxhash

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.manifest.paths import decode_path
from slurm_io.staging.stage.model import Batch, SourceSpec
from slurm_io.staging.stage.peer_daemon import PeerDaemon
from slurm_io.staging.stage.peer_model import Serving, networks_of, new_secret

WAIT_S = 60
LOCAL = networks_of(["127.0.0.1"])
ODD_NAMES = (
    b"plain",
    b"d/new\nline",
    b"d/carriage\r",
    b"d/\xff\xfe not utf-8",
    b"#hash",
    b";semicolon",
    b"*star [x] {a,b} ?",
    b" leading and trailing ",
    b"back\\slash \\#012",
    b"-dash",
    b"~tilde $HOME `x` 'q' \"qq\"",
    b":merge",
    b"empty",
)


def fill(folder: Path, files: Mapping[bytes, bytes]) -> list[FileEntry]:
    """Write files below a folder; their manifest entries."""
    for name, data in files.items():
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return [entry_of(name, data) for name, data in files.items()]


def entry_of(name: bytes, data: bytes) -> FileEntry:
    digest = f"xxh3-128:{xxhash.xxh3_128(data).hexdigest()}"
    return FileEntry(decode_path(name), len(data), digest)


def batch(entries: list[FileEntry]) -> Batch:
    return Batch(0, tuple(entries))


def content(room: Path, name: bytes) -> bytes | None:
    """Of a file in a room; None when it is not there."""
    try:
        return (room / os.fsdecode(name)).read_bytes()
    except FileNotFoundError:
        return None


def serving_of(folder: Path, **given: object) -> Serving:
    """A serving to this machine."""
    settings: dict[str, object] = {
        "path": os.fspath(folder),
        "content_id": "c1-" + "0" * 32,
        "secret": new_secret(),
        "allow": LOCAL,
        "host": "127.0.0.1",
        "bind": "127.0.0.1",
    }
    return Serving(**(settings | given))  # type: ignore[arg-type]


@contextlib.contextmanager
def running(serving: Serving) -> Iterator[PeerDaemon]:
    """A peer that serves, in a thread of this process, which must end when told to."""
    stop = threading.Event()
    with PeerDaemon(serving, lambda _: None) as daemon:
        thread = threading.Thread(target=daemon.serve, args=(stop,))
        thread.start()
        try:
            yield daemon
        finally:
            stop.set()
            thread.join(WAIT_S)
        assert not thread.is_alive()


@contextlib.contextmanager
def served(serving: Serving) -> Iterator[SourceSpec]:
    """A source that :func:`running` serves."""
    with running(serving) as daemon:
        yield source_of(daemon, serving)


def source_of(daemon: PeerDaemon, serving: Serving) -> SourceSpec:
    where = daemon.announcement(with_secret=False).where
    return SourceSpec("peer", where, "peer", serving.secret)
