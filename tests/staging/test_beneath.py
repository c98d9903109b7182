"""Opening below a folder: no link on the way is followed, no length of path is too long."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from slurm_io.staging.beneath import Folder, NotAFile, open_regular


def read(folder: Folder, path: bytes) -> bytes:
    fd = folder.open_file(path)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_opens_what_lies_below_and_keeps_few_descriptors(tmp_path: Path) -> None:
    for n in range(200):
        (tmp_path / f"{n}/x").mkdir(parents=True)
        (tmp_path / f"{n}/x/f").write_bytes(b"%d" % n)
    before = open_fds()
    with Folder.at(str(tmp_path)) as folder:
        assert [read(folder, b"%d/x/f" % n) for n in range(200)] == [b"%d" % n for n in range(200)]
        assert read(folder, b"7/x/f") == b"7"
        assert open_fds() - before < 80
        assert folder.stat(b"3/x/f").st_size == 1
    assert open_fds() == before


@pytest.mark.parametrize("path", [b"link", b"sub/link", b"linked/f"])
def test_links_are_not_followed(tmp_path: Path, path: bytes) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/f").write_text("x")
    (tmp_path / "link").symlink_to("sub/f")
    (tmp_path / "sub/link").symlink_to("/etc/passwd")
    (tmp_path / "linked").symlink_to("sub")
    with Folder.at(str(tmp_path)) as folder, pytest.raises(OSError) as caught:
        folder.open_file(path)
    assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_folder_swapped_for_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "root/sub").mkdir(parents=True)
    (tmp_path / "root/sub/f").write_text("mine")
    (tmp_path / "else").mkdir()
    (tmp_path / "else/f").write_text("secret")
    with Folder.at(str(tmp_path / "root")) as folder:
        assert read(folder, b"sub/f") == b"mine"
        (tmp_path / "root/sub").rename(tmp_path / "root/was")
        (tmp_path / "root/sub").symlink_to(tmp_path / "else")
        assert read(folder, b"sub/f") == b"mine"  # the open folder, not the name
    with Folder.at(str(tmp_path / "root")) as folder, pytest.raises(OSError):
        folder.open_file(b"sub/f")


def test_pipe_in_a_file_s_place_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with Folder.at(str(tmp_path)) as folder:
        os.close(folder.open_file(b"pipe"))


def test_ten_thousand_characters_open(tmp_path: Path) -> None:
    name = b"d" * 200
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(50):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open(b"f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    path = b"/".join([name] * 50 + [b"f"])
    assert len(path) > 10_000
    with Folder.at(str(tmp_path)) as folder:
        os.close(folder.open_file(path))


def test_however_deep_few_descriptors_are_open(tmp_path: Path) -> None:
    paths = [b"/".join([b"d"] * depth) for depth in (200, 63, 64, 65, 66, 199, 1, 150)]
    (tmp_path / paths[0].decode()).mkdir(parents=True)
    before = open_fds()
    with Folder.at(str(tmp_path)) as folder:
        for path in [*paths, *reversed(paths)]:
            found = os.fstat(folder.folder_fd(path))
            assert found.st_ino == (tmp_path / path.decode()).stat().st_ino
            assert open_fds() - before <= 67
    assert open_fds() == before


def test_after_a_folder_that_is_not_there_the_next_one_opens(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/f").write_bytes(b"1")
    with Folder.at(str(tmp_path)) as folder:
        for _ in range(2):
            with pytest.raises(FileNotFoundError):
                folder.folder_fd(b"a/b/c/d")
            assert read(folder, b"a/f") == b"1"


def test_a_folder_swapped_while_we_are_in_it_is_told_where_asked_for(tmp_path: Path) -> None:
    def swapped(watch: bool) -> list[bytes]:
        root = tmp_path / f"root{watch}"
        for name in ("good", "moved/below", "gone"):
            (root / name).mkdir(parents=True)
        with Folder.at(str(root), watch) as folder:
            for name in (b"good", b"gone", b"moved/below"):
                folder.folder_fd(name)
                if name == b"gone":
                    (root / "gone").rmdir()
            (root / "moved").rename(root / "away")
            (root / "moved").mkdir()
            return folder.finish()

    assert swapped(True) == [b"gone", b"moved"]
    assert swapped(False) == []


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "socket"])
def test_what_is_no_file_is_named_and_not_opened(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    before = open_fds()
    with Folder.at(str(tmp_path)) as folder, pytest.raises(NotAFile) as caught:
        open_regular(folder.fd, b"x")
    words = {"link": "a symbolic link", "folder": "a folder", "pipe": "a FIFO"}
    assert str(caught.value) == words.get(kind, "a socket")
    assert open_fds() == before
