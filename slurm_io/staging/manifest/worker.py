"""A process that hashes files for a build: batches in on stdin, digests out on stdout.

Started as ``python -P -m slurm_io.staging.manifest.worker SETTINGS`` with an open descriptor of
the dataset's folder; -P keeps the working directory off the module path. One JSON line each way:
in ``[[index, path], …]``; out ``{"bytes": n}`` while a large file is read, and ``{"done": [[index,
[device, inode, size, mtime_ns, ctime_ns], digest, ends, [chunks]] | [index, reason], …]}``.
It ends when stdin does, or when nobody reads any more.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.beneath import Folder
from slurm_io.staging.manifest.hashing import FileDigest, HowToHash, Identity, digest_file
from slurm_io.staging.manifest.paths import decode_path, encode_path

REPORT_BYTES = 256 << 20
Job = tuple[int, bytes]
Outcome = FileDigest | str  # a digest, or why there is none


def hash_batch(
    root: Folder, jobs: Iterable[Job], how: HowToHash, on_bytes: Callable[[int], None]
) -> list[tuple[int, Outcome]]:
    """Hash some files below a folder; an unreadable one gives its reason."""
    return [(index, _hash_one(root, path, how, on_bytes)) for index, path in jobs]


def _hash_one(
    root: Folder, path: bytes, how: HowToHash, on_bytes: Callable[[int], None]
) -> Outcome:
    try:
        fd = root.open_file(path)
        try:
            return digest_file(fd, how, on_bytes)
        finally:
            os.close(fd)
    except ManifestError as error:
        return str(error)
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def encode_settings(root_fd: int, how: HowToHash) -> str:
    """What :func:`main` takes as its argument."""
    return json.dumps({"root_fd": root_fd, **asdict(how)})


def encode_jobs(jobs: Sequence[Job]) -> bytes:
    """One line of stdin."""
    return json.dumps([[index, decode_path(path)] for index, path in jobs]).encode() + b"\n"


def decode_outcome(row: list[Any]) -> tuple[int, Outcome]:
    """One file of a ``done`` line."""
    if len(row) == 2:
        return row[0], str(row[1])
    index, identity, digest, ends, chunks = row
    return index, FileDigest(Identity(*identity), digest, ends, tuple(chunks))


def _encode_outcome(index: int, outcome: Outcome) -> list[Any]:
    if isinstance(outcome, str):
        return [index, outcome]
    who = outcome.identity
    identity = [who.device, who.inode, who.size_bytes, who.mtime_ns, who.ctime_ns]
    return [index, identity, outcome.digest, outcome.ends, list(outcome.chunks)]


class _Talk:
    """Writes to stdout; reports bytes now and then, so that orphans notice that they are."""

    def __init__(self) -> None:
        self._bytes = 0

    def on_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes >= REPORT_BYTES:
            self.say({"bytes": self._bytes})
            self._bytes = 0

    def done(self, outcomes: list[tuple[int, Outcome]]) -> None:
        rows = [_encode_outcome(index, outcome) for index, outcome in outcomes]
        self.say({"done": rows, "bytes": self._bytes})
        self._bytes = 0

    def say(self, row: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(row, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Work until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; it closes our stdin
    settings = json.loads(sys.argv[1])
    talk = _Talk()
    try:
        with Folder(settings.pop("root_fd")) as root:
            how = HowToHash(**settings)
            for line in sys.stdin:
                jobs = [(index, encode_path(path)) for index, path in json.loads(line)]
                talk.done(hash_batch(root, jobs, how, talk.on_bytes))
    except BrokenPipeError:
        os._exit(1)  # the build is gone; no farewell to a closed pipe


if __name__ == "__main__":
    main()
