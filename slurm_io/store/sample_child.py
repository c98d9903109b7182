"""The sample streams of all tables, made in a child: what a resident process need not carry.

nanoarrow takes 3 MiB, is needed once, and a module cannot be unloaded. The child takes what it
loaded with it.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable
from contextlib import suppress

from slurm_io.store.schema import Table


def samples_from_child(tables: Iterable[Table]) -> dict[str, bytes]:
    """Sample stream by table name; empty when that failed: whoever needs one makes it himself.

    To be called before there are threads.
    """
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError:
        os.close(read_fd)
        os.close(write_fd)
        return {}
    if pid == 0:
        _make(tables, write_fd)
    os.close(write_fd)
    with open(read_fd, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    with suppress(ValueError, EOFError, TypeError):
        return dict(marshal.loads(said))
    return {}


def _make(tables: Iterable[Table], write_fd: int) -> None:
    """The child's whole life; it runs nothing of what its parent left to be done at exit."""
    try:
        from slurm_io.store.sample_stream import sample_stream

        said = marshal.dumps({table.name: sample_stream(table) for table in tables})
        with open(write_fd, "wb") as pipe:
            pipe.write(said)
    finally:
        os._exit(0)
