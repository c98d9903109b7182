"""Memory of another process is read only where that cannot wait for a mount."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.collectors.waits.fds import FdReader
from slurm_io.host.probe import probe
from tests.labs.slowfs import SlowFs, fuse_missing

CHILD = """
import ctypes, mmap, os, struct, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDONLY)
of_file = libc.mmap(None, 1 << 20, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
path = ctypes.create_string_buffer(b"/a/path")
polled = ctypes.create_string_buffer(struct.pack("<ihh", 7, 1, 0))
print(of_file, ctypes.addressof(path), ctypes.addressof(polled), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_a_page_of_a_file_on_a_hung_mount_is_not_waited_for(tmp_path: Path) -> None:
    back = tmp_path / "back"
    back.mkdir()
    (back / "data").write_bytes(b"/from/the/file\0" * 70000)
    with SlowFs(back, tmp_path / "mnt", cache="page") as slow:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path / "mnt" / "data")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            of_file, path, polled = map(int, child.stdout.readline().split())
            slow.change(hang_globs=("*",), hang_classes=("read",))
            fds = FdReader(Path("/proc"))
            assert probe(fds.path_at, child.pid, of_file, timeout_s=2).value is None
            assert probe(fds.path_at, child.pid, of_file, timeout_s=2).state == "ok"
            assert probe(fds.polled, child.pid, of_file + 8192, 1, timeout_s=2).value == []
            assert probe(fds.path_at, child.pid, path, timeout_s=2).value == "/a/path"
            assert fds.polled(child.pid, polled, 1) == [7]
        finally:
            slow.change(hang_globs=())
            child.kill()
            child.wait()
            child.stdin.close()
            child.stdout.close()
