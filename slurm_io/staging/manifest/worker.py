"""A process that hashes small files for a build: batches in on stdin, digests out on stdout.

Started as ``python -P -c START SETTINGS`` with an open descriptor of the dataset's folder; -P keeps
the working directory off the module path. Each message is its length (32 bits, little endian) and
a ``marshal`` of it: both ends are the same interpreter, and marshal takes a tenth of JSON's time.
In: jobs; out: an answer for each, and the journal's line of them.
It ends when stdin does, or when nobody reads any more.
"""

from __future__ import annotations

import json
import marshal
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO, Any

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.batch import OPEN_FILES, Done, Job, Outcome, hash_small
from slurm_io.staging.manifest.hashing import FileDigest, FileHasher, HowToHash, Identity

START = "from slurm_io.staging.manifest.worker import main; main()"
_LENGTH_BYTES = 4


def encode_settings(root_fd: int, how: HowToHash) -> str:
    """What :func:`main` takes as its argument."""
    return json.dumps({"root_fd": root_fd, **asdict(how)})


def send_jobs(pipe: IO[bytes], jobs: Sequence[Job]) -> None:
    """Ask for a batch. Raises BrokenPipeError: the worker is dead."""
    _send(pipe, [tuple(job) for job in jobs])


def receive_done(pipe: IO[bytes]) -> Done | None:
    """The answer to a batch; None when the worker is dead."""
    found = _receive(pipe)
    if found is None:
        return None
    rows, line = found
    return Done([_decode(row) for row in rows], line)


def main() -> None:
    """Work until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides; it closes our stdin
    settings = json.loads(sys.argv[1])
    jobs_in, done_out = sys.stdin.buffer, sys.stdout.buffer
    try:
        with Folder(settings.pop("root_fd")) as root:
            hasher = FileHasher(HowToHash(**settings))
            while (found := _receive(jobs_in)) is not None:
                done = hash_small(root, [Job(*row) for row in found], hasher, OPEN_FILES)
                _send(done_out, ([_encode(*each) for each in done.outcomes], done.line))
    except BrokenPipeError:
        os._exit(1)  # the build is gone; no farewell to a closed pipe


def _encode(index: int, outcome: Outcome) -> tuple[Any, ...]:
    if isinstance(outcome, str):
        return index, outcome
    return index, tuple(outcome.identity), outcome.digest, outcome.ends, outcome.chunks


def _decode(row: tuple[Any, ...]) -> tuple[int, Outcome]:
    if len(row) == 2:
        return row[0], row[1]
    index, identity, digest, ends, chunks = row
    return index, FileDigest(Identity._make(identity), digest, ends, chunks)


def _send(pipe: IO[bytes], value: Any) -> None:
    data = marshal.dumps(value)
    pipe.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    """One message; None at the end, also when it comes in the middle of one."""
    head = pipe.read(_LENGTH_BYTES)
    length = int.from_bytes(head, "little")
    data = pipe.read(length) if len(head) == _LENGTH_BYTES else b""
    return marshal.loads(data) if data and len(data) == length else None


if __name__ == "__main__":
    main()
