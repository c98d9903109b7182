"""Hashes many files on all cores, in lanes: one thread a core.

A lane takes large files first, the largest of all to begin with, and hashes them itself: reading
and hashing a block needs no interpreter. When none is left it takes batches of small files, folder
by folder, and hands them to a process of its own, because small files cost Python more than
hashing. A separate program, not a fork: a progress bar's thread may be running.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Self

from slurm_io.errors import ManifestError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.batch import OPEN_FILES, Done, Job, hash_large, hash_small
from slurm_io.staging.manifest.hashing import FileHasher, HowToHash, OnBytes
from slurm_io.staging.manifest.worker import START, encode_settings, receive_done, send_jobs

LARGE_BYTES = 8 << 20
BATCH_FILES = 256
BATCH_BYTES = 64 << 20
FILES_PER_PROCESS = 10_000  # fewer take not much longer than starting a process
TOLD_BYTES = 32 << 20
READERS = 4  # of a file that the other lanes would have to wait for
_END_S = 30.0
OnDone = Callable[[Done], None]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def hash_files(
    root: Folder,
    jobs: Sequence[Job],
    how: HowToHash,
    on_done: OnDone,
    on_bytes: OnBytes,
    lanes: int | None = None,
) -> None:
    """Hash all jobs on so many lanes (None: one a core); `on_done` gets what became of them.

    Both callbacks run in this thread. Raises ManifestError when a worker process dies.
    """
    work = _Work(jobs, lanes or cores())
    if work.lanes <= 1:
        _Lane(root, how, work, on_done, on_bytes).run()
    else:
        _Crew(root, how, work).run(on_done, on_bytes)


def _open_files(lanes: int) -> int:
    """How many files one of so many lanes may keep open: all of them, half of what is allowed."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES if allowed < 0 else max(1, min(OPEN_FILES, allowed // 2 // lanes))


class _Work:
    """What is left to do. Lanes take from it without a lock: popleft is one step."""

    def __init__(self, jobs: Sequence[Job], lanes: int) -> None:
        large = [job for job in jobs if job.size_bytes >= LARGE_BYTES]
        small = [job for job in jobs if job.size_bytes < LARGE_BYTES]
        self.batches = deque(_batches(small))
        self.lanes = min(lanes, len(large) + len(self.batches))
        # So many of the lanes are worth a process of their own.
        self.processes = deque(range(min(len(small) // FILES_PER_PROCESS, self.lanes)))
        self._large = deque(sorted(large, key=lambda job: (-job.size_bytes, job.raw_path)))
        self._large_bytes = sum(job.size_bytes for job in large)

    def next_large(self) -> tuple[Job, int] | None:
        """The largest file left, and how many threads should read it."""
        try:
            job = self._large.popleft()
        except IndexError:
            return None
        outlasts = job.size_bytes * self.lanes >= self._large_bytes
        self._large_bytes -= job.size_bytes
        return job, READERS if outlasts else 1

    def next_batch(self) -> list[Job] | None:
        """Small files of one neighbourhood."""
        try:
            return self.batches.popleft()
        except IndexError:
            return None

    def needs_process(self) -> bool:
        """Whether this lane should start a process; true so often as it pays."""
        try:
            self.processes.popleft()
        except IndexError:
            return False
        return True


def _batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """In the order of paths, so that each folder is opened once or twice only."""
    batch: list[Job] = []
    held = 0
    for job in sorted(jobs, key=lambda job: job.opened):
        if batch and (held + job.size_bytes > BATCH_BYTES or len(batch) >= BATCH_FILES):
            yield batch
            batch, held = [], 0
        batch.append(job)
        held += job.size_bytes
    if batch:
        yield batch


class _Lane:
    """Takes work until none is left; `on_done` and `on_bytes` may stop it by raising."""

    def __init__(
        self, root: Folder, how: HowToHash, work: _Work, on_done: OnDone, on_bytes: OnBytes
    ) -> None:
        self._root = root
        self._how = how
        self._work = work
        self._on_done = on_done
        self._on_bytes = on_bytes
        self._hasher = FileHasher(how)
        self._untold_bytes = 0
        self._open_files = _open_files(work.lanes)

    def run(self) -> None:
        """Large files, then small ones."""
        while (found := self._work.next_large()) is not None:
            job, ahead = found
            self._tell(hash_large(self._root, job, self._hasher, self._count, ahead))
        if self._work.lanes > 1 and self._work.needs_process():
            self._feed_process()
        while (batch := self._work.next_batch()) is not None:
            self._tell_small(batch, hash_small(self._root, batch, self._hasher, self._open_files))

    def _feed_process(self) -> None:
        with _Process(self._root.fd, self._how) as process:
            while (batch := self._work.next_batch()) is not None:
                self._tell_small(batch, process.hash(batch))

    def _tell_small(self, batch: list[Job], done: Done) -> None:
        self._untold_bytes += sum(job.size_bytes for job in batch)
        self._tell(done)

    def _count(self, count: int) -> None:
        self._untold_bytes += count
        if self._untold_bytes >= TOLD_BYTES:
            self._tell_bytes()

    def _tell(self, done: Done) -> None:
        self._tell_bytes()
        self._on_done(done)

    def _tell_bytes(self) -> None:
        told, self._untold_bytes = self._untold_bytes, 0
        self._on_bytes(told)


class _Process:
    """One worker process of one lane."""

    def __init__(self, root_fd: int, how: HowToHash) -> None:
        command = [sys.executable, "-P", "-c", START, encode_settings(root_fd, how)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(root_fd,)
            )
        except OSError as error:
            raise ManifestError(
                f"cannot start a hashing process ({error.strerror}); give fewer --jobs"
            ) from error

    def hash(self, batch: Sequence[Job]) -> Done:
        """What became of a batch. Raises ManifestError when the process is dead."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            send_jobs(self._process.stdin, batch)
            done = receive_done(self._process.stdout)
        except BrokenPipeError:
            done = None
        if done is None:
            code = self._process.wait()
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise ManifestError(
                f"a hashing process {how} (out of memory?): start again, what was done is kept"
            )
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class _Stopped(Exception):
    """The build ends: whatever a lane still does is in vain."""


class _Crew:
    """All lanes of one build."""

    def __init__(self, root: Folder, how: HowToHash, work: _Work) -> None:
        self._root = root
        self._how = how
        self._work = work
        self._stopped = False
        self._events: queue.SimpleQueue[Done | int | BaseException | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._lane, daemon=True) for _ in range(work.lanes)
        ]

    def run(self, on_done: OnDone, on_bytes: OnBytes) -> None:
        """Until all is done; the first lane that fails ends it."""
        for thread in self._threads:
            thread.start()
        running = len(self._threads)
        try:
            while running:
                event = self._events.get()
                if event is None:
                    running -= 1
                elif isinstance(event, int):
                    on_bytes(event)
                elif isinstance(event, Done):
                    on_done(event)
                else:
                    raise event
        finally:
            self._stopped = True
            for thread in self._threads:
                thread.join(_END_S)  # a read of a dead mount does not come back

    def _lane(self) -> None:
        try:
            with Folder(os.dup(self._root.fd)) as root:
                _Lane(root, self._how, self._work, self._say, self._say).run()
        except _Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again where the build waits
            self._events.put(error)
        finally:
            self._events.put(None)

    def _say(self, event: Done | int) -> None:
        self._events.put(event)
        if self._stopped:
            raise _Stopped
