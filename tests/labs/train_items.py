"""The training lab's dataset: how one item is got, and what getting it cost.

Beside :mod:`train_job`, which imports it as a program's neighbour does. Every item carries when its
read began and ended and how much of it the thread was blocked: neither on a CPU nor ready for one
(schedstat), so that a busy machine's queue for CPUs is not taken for storage.
"""

import http.client
import mmap
import os
import random
import time
import urllib.parse
from pathlib import Path

import torch
from torch.utils.data import Dataset

FEATURES = 64
SLICE_BYTES = 64 * 1024
READERS = ("read", "mmap", "pieces", "shards", "object", "sleep", "cpu")
FROM_STORAGE = ("read", "mmap", "pieces", "shards", "object")


class Items(Dataset):
    """Item k is the file's first bytes, then (start, end, blocked) ns of getting it.

    One tensor, because each costs a descriptor between processes; float64 is exact for 104 days
    of CLOCK_MONOTONIC.
    """

    def __init__(self, folder, reader, items, options):
        self.files = sorted(path for path in Path(folder).iterdir() if path.is_file())
        self.reader = reader
        self.items = items
        self.options = options
        self.mapped = self.opened = self.server = None
        self.queue = CpuQueue()

    def __len__(self):
        return self.items

    def __getitems__(self, indices):
        """A whole batch, as torch's fetcher asks for it; what waited for a CPU is looked up once,
        for looking is a read call like any other."""
        queued_ns = self.queue.waited_ns()
        got = [self.get(index) for index in indices]
        queued_ns = self.queue.waited_ns() - queued_ns
        burn(self.options.decode_ms * len(indices))
        off_cpu_ns = sum(off_ns for *_, off_ns in got)
        part = max(0.0, 1 - queued_ns / off_cpu_ns) if off_cpu_ns else 0.0
        return [
            torch.tensor([*values, start_ns, end_ns, int(off_ns * part)], dtype=torch.float64)
            for values, start_ns, end_ns, off_ns in got
        ]

    def get(self, index):
        """Features, when the read began and ended, and for how long of it no CPU time was used."""
        start_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        data = getattr(self, "_" + self.reader)(index)
        end_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns() - cpu_ns
        off_ns = max(end_ns - start_ns - cpu_ns, 0) if self.reader in FROM_STORAGE else 0
        return [byte / 255.0 for byte in data[:FEATURES]], start_ns, end_ns, off_ns

    def _read(self, index):
        with open(self.files[index % len(self.files)], "rb") as file:
            return file.read()

    def _mmap(self, index):
        """Random slices of one big file; none comes twice before all had a turn."""
        if self.mapped is None:
            with open(self.files[0], "rb") as file:
                self.mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.order = shuffled(len(self.mapped) // SLICE_BYTES, self.options.seed)
        start = self.order[index % len(self.order)] * SLICE_BYTES
        return self.mapped[start : start + SLICE_BYTES]

    def _pieces(self, index):
        """Some reads of a page each, at random places of one big file, one after the other."""
        if self.opened is None:
            self.opened = os.open(self.files[0], os.O_RDONLY)
            os.posix_fadvise(self.opened, 0, 0, os.POSIX_FADV_RANDOM)
            self.order = shuffled(os.fstat(self.opened).st_size // 4096, self.options.seed)
        first = index * self.options.pieces
        for piece in range(first, first + self.options.pieces):
            data = os.pread(self.opened, 4096, self.order[piece % len(self.order)] * 4096)
        return data

    def _shards(self, index):
        """Slices in order: the whole of the first file, then the whole of the second."""
        each = max(1, self.files[0].stat().st_size // SLICE_BYTES)
        name = self.files[index // each % len(self.files)]
        with open(name, "rb", buffering=0) as file:
            return os.pread(file.fileno(), SLICE_BYTES, index % each * SLICE_BYTES)

    def _object(self, index):
        """GET by name, one connection a process."""
        if self.server is None:
            address = urllib.parse.urlsplit(self.options.endpoint)
            self.server = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        self.server.request("GET", "/bucket/" + self.files[index % len(self.files)].name)
        return self.server.getresponse().read()

    def _sleep(self, index):
        time.sleep(self.options.item_ms / 1e3)
        return bytes(FEATURES)

    def _cpu(self, index):
        value = burn(self.options.item_ms, index)
        return bytes(value >> shift & 255 for shift in (0, 8, 16, 24)) * (FEATURES // 4)

    def __getstate__(self):
        return {
            **self.__dict__,
            "mapped": None,
            "opened": None,
            "server": None,
            "queue": CpuQueue(),
        }


def burn(milliseconds, value=1):
    """Pure Python arithmetic until this thread has used so much CPU time."""
    until_ns = time.thread_time_ns() + int(milliseconds * 1e6)
    while time.thread_time_ns() < until_ns:
        for _ in range(2000):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF
    return value


class CpuQueue:
    """How long the calling thread has been ready and waited for a CPU: schedstat's second number.

    One thread of a process at a time; 0 where the kernel does not tell.
    """

    def __init__(self):
        self.pid = self.file = None

    def waited_ns(self):
        if self.pid != os.getpid():  # a worker made by fork has a thread of its own
            self.pid = os.getpid()
            self.file = opened("/proc/thread-self/schedstat")
        return 0 if self.file is None else int(os.pread(self.file, 64, 0).split()[1])


def opened(path):
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def shuffled(count, seed):
    return random.Random(seed).sample(range(count), count)
