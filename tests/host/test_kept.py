"""KeptFile: whole content in few calls, gone is None, re-created is found."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from slurm_io.host.kept import KeptFile


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        calls.append(offset)
        return pread(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", counted)
    return calls


def test_a_small_file_is_one_call_on_one_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stat"
    path.write_text("1 2 3\n")
    kept = KeptFile(path)
    assert kept.read() == b"1 2 3\n"
    calls = count_calls(monkeypatch)
    monkeypatch.setattr(os, "open", None)
    path.write_text("4 5 6\n")
    assert kept.read() == b"4 5 6\n"
    assert calls == [0]
    kept.close()


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 4095, 4096, 4097, 100_000])
def test_any_size_is_read_whole_and_again(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * (size // 256) + bytes(size % 256))
    kept = KeptFile(path)
    assert kept.read() == path.read_bytes()
    assert kept.read() == path.read_bytes()
    kept.close()


def test_a_page_wise_kernel_file_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """seq_file stops before the record that does not fit into a page, far from the end."""
    text = b"".join(b"%4d some device line of the kernel\n" % number for number in range(400))
    path = tmp_path / "diskstats"
    path.write_bytes(text)
    pread = os.pread

    def page_wise(descriptor: int, size: int, offset: int) -> bytes:
        chunk = pread(descriptor, min(size, 4096), offset)
        return chunk[: chunk.rfind(b"\n") + 1]

    monkeypatch.setattr(os, "pread", page_wise)
    kept = KeptFile(path)
    assert kept.read() == text
    kept.close()


def test_real_kernel_files_are_whole() -> None:
    for name in ("vmstat", "meminfo", "diskstats", "cpuinfo"):
        kept = KeptFile(f"/proc/{name}")
        content = kept.read()
        assert content is not None
        assert content.count(b"\n") == Path(f"/proc/{name}").read_bytes().count(b"\n")
        kept.close()


def test_missing_is_none_and_says_why(tmp_path: Path) -> None:
    kept = KeptFile(tmp_path / "late")
    assert kept.read() is None
    assert kept.error_number == errno.ENOENT
    (tmp_path / "late").write_text("here")
    assert kept.read() == b"here"
    assert kept.error_number is None
    kept.close()


def test_a_process_that_ended_is_gone() -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    kept = KeptFile(f"/proc/{pid}/stat")
    assert kept.read() is not None
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    assert kept.read() is None
    assert kept.error_number in (errno.ESRCH, errno.ENOENT)


def test_a_device_that_came_back_is_opened_anew_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "stat"
    path.write_text("old")
    kept = KeptFile(path)
    kept.read()
    pread, failed = os.pread, []

    def stale_once(descriptor: int, size: int, offset: int) -> bytes:
        if not failed:
            failed.append(descriptor)
            raise OSError(errno.ENODEV, "gone")
        return pread(descriptor, size, offset)

    path.unlink()
    path.write_text("new")
    monkeypatch.setattr(os, "pread", stale_once)
    assert kept.read() == b"new"
    kept.close()


def test_one_that_is_dropped_unclosed_gives_its_descriptor_back(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("1")
    kept = KeptFile(tmp_path / "stat")
    kept.read()
    [descriptor] = [
        int(one.name) for one in Path("/proc/self/fd").iterdir() if leads_to(one, kept.path)
    ]
    del kept
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def leads_to(link: Path, path: str) -> bool:
    try:
        return os.readlink(link) == path  # noqa: PTH115
    except OSError:  # the descriptor that lists them
        return False
