"""Hashes many files on all cores: one process a core, largest files first, bounded memory.

Processes, not threads, because small files cost Python more than hashing; separate programs, not
forks, because a progress bar's thread may be running. A batch is one large file or up to 256 small
ones; each worker holds two, so that none waits for the next. Little work is done in this process.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.beneath import Folder
from slurm_io.staging.manifest.hashing import HowToHash, OnBytes
from slurm_io.staging.manifest.worker import (
    Job,
    Outcome,
    decode_outcome,
    encode_jobs,
    encode_settings,
    hash_batch,
)

BATCH_FILES = 256
BATCH_BYTES = 64 << 20
HERE_FILES = 200  # so little that starting processes takes longer
HERE_BYTES = 128 << 20
OnDone = Callable[[list[tuple[int, Outcome]]], None]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def hash_files(
    root: Folder,
    jobs: Sequence[tuple[int, bytes, int]],
    how: HowToHash,
    on_done: OnDone,
    on_bytes: OnBytes,
    workers: int | None = None,
) -> None:
    """Hash (index, path, size in bytes) of each job; `on_done` gets every batch's outcomes.

    Raises ManifestError when a worker dies.
    """
    count = min(workers or cores(), len(jobs))
    total = sum(size for _, _, size in jobs)
    batches = _batches(jobs)
    if count <= 1 or (workers is None and len(jobs) <= HERE_FILES and total <= HERE_BYTES):
        for batch in batches:
            on_done(hash_batch(root, batch, how, on_bytes))
        return
    _Crew(root, how, count, on_done, on_bytes).work(batches)


def _batches(jobs: Sequence[tuple[int, bytes, int]]) -> Iterator[list[Job]]:
    """Largest files first, one by one; then ever more small ones together."""
    batch: list[Job] = []
    held = 0
    for index, path, size in sorted(jobs, key=lambda job: (-job[2], job[1])):
        if batch and (held + size > BATCH_BYTES or len(batch) >= BATCH_FILES):
            yield batch
            batch, held = [], 0
        batch.append((index, path))
        held += size
    if batch:
        yield batch


class _Worker:
    """One process, and what is on its way to and from it. Neither pipe ever blocks the build."""

    def __init__(self, root: Folder, how: HowToHash) -> None:
        command = [sys.executable, "-P", "-m", "slurm_io.staging.manifest.worker"]
        self._process = subprocess.Popen(
            [*command, encode_settings(root.fd, how)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(root.fd,),
            bufsize=0,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self.input_fd = self._process.stdin.fileno()
        self.output_fd = self._process.stdout.fileno()
        os.set_blocking(self.input_fd, False)
        self._unsent = b""
        self._partial = b""

    def send(self, data: bytes = b"") -> bool:
        """Queue data, send what fits; whether some is left. Raises ManifestError: it is dead."""
        self._unsent += data
        try:
            while self._unsent:
                self._unsent = self._unsent[os.write(self.input_fd, self._unsent) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._died()
        return False

    def receive(self) -> list[dict[str, Any]]:
        """What it said since. Raises ManifestError when it is dead."""
        data = os.read(self.output_fd, 1 << 20)
        if not data:
            self._died()
        *lines, self._partial = (self._partial + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self) -> None:
        """Stop it now."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()

    def _died(self) -> None:
        code = self._process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        raise ManifestError(
            f"a hashing process {how} (out of memory?): start again, what was done is kept"
        )


class _Crew:
    """The worker processes of one build."""

    def __init__(
        self, root: Folder, how: HowToHash, count: int, on_done: OnDone, on_bytes: OnBytes
    ) -> None:
        self._on_done = on_done
        self._on_bytes = on_bytes
        self._busy = 0
        self._selector = selectors.DefaultSelector()
        self._workers: list[_Worker] = []
        try:
            for _ in range(count):
                self._workers.append(_Worker(root, how))
        except OSError as error:
            self._end()
            raise ManifestError(
                f"cannot start {count} hashing processes ({error.strerror}); give fewer --jobs"
            ) from error

    def work(self, batches: Iterator[list[Job]]) -> None:
        """Hand out every batch and take in what comes back."""
        try:
            for worker in self._workers:
                self._selector.register(worker.output_fd, selectors.EVENT_READ, worker)
            for worker in self._workers * 2:
                self._feed(worker, batches)
            while self._busy:
                for key, event in self._selector.select():
                    if event & selectors.EVENT_WRITE:
                        self._send(key.data)
                    else:
                        self._take(key.data, batches)
        finally:
            self._end()

    def _end(self) -> None:
        self._selector.close()
        for worker in self._workers:
            worker.end()

    def _feed(self, worker: _Worker, batches: Iterator[list[Job]]) -> None:
        batch = next(batches, None)
        if batch is not None:
            self._busy += 1
            self._send(worker, encode_jobs(batch))

    def _send(self, worker: _Worker, data: bytes = b"") -> None:
        waits = worker.send(data)
        known = worker.input_fd in self._selector.get_map()
        if waits and not known:
            self._selector.register(worker.input_fd, selectors.EVENT_WRITE, worker)
        elif known and not waits:
            self._selector.unregister(worker.input_fd)

    def _take(self, worker: _Worker, batches: Iterator[list[Job]]) -> None:
        for row in worker.receive():
            self._on_bytes(row["bytes"])
            if "done" in row:
                self._busy -= 1
                self._feed(worker, batches)
                self._on_done([decode_outcome(each) for each in row["done"]])
