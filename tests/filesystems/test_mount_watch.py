"""Mounts of a kind that come and go."""

from __future__ import annotations

from pathlib import Path

from slurm_io.filesystems.mount_watch import MountWatch

SECOND_NS = 1_000_000_000
ROOT = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"


def nfs(point: str, number: int) -> str:
    return f"{number} 1 0:{number} / {point} rw - nfs srv:{point} rw\n"


class Node:
    def __init__(self, root: Path, text: str) -> None:
        self.path = root / "self" / "mountinfo"
        self.path.parent.mkdir()
        self.path.write_text(text)
        self.watch = MountWatch(root, lambda mount: mount.fstype == "nfs", b" - nfs ")

    def points(self) -> list[str]:
        return [mount.mount_point for mount in self.watch.mounts]


def test_looks_when_asked_and_at_most_every_30_seconds_with_a_clock(tmp_path: Path) -> None:
    node = Node(tmp_path, ROOT)
    assert not node.watch.look() and node.points() == []
    node.path.write_text(ROOT + nfs("/a", 50))
    assert node.watch.look(0) and node.points() == ["/a"]
    node.path.write_text(ROOT + nfs("/a", 50) + nfs("/b", 51))
    assert not node.watch.look(29 * SECOND_NS) and node.points() == ["/a"]
    assert node.watch.look(30 * SECOND_NS) and node.points() == ["/a", "/b"]
    assert not node.watch.look(90 * SECOND_NS)
    node.watch.close()


def test_other_mounts_that_come_are_no_change(tmp_path: Path) -> None:
    node = Node(tmp_path, ROOT + nfs("/a", 50))
    assert node.watch.look()
    node.path.write_text(ROOT + nfs("/a", 50) + "60 1 0:60 / /t rw - tmpfs tmpfs rw\n")
    assert not node.watch.look() and node.points() == ["/a"]


def test_a_file_that_cannot_be_read_has_no_mounts(tmp_path: Path) -> None:
    watch = MountWatch(tmp_path / "none", lambda mount: True)
    assert not watch.look() and watch.mounts == ()
    watch.close()


def test_names_that_are_no_text_survive(tmp_path: Path) -> None:
    node = Node(tmp_path, ROOT)
    node.path.write_bytes(nfs("/a", 50).encode().replace(b"/a", b"/\xff"))
    node.watch.look()
    assert node.points()[0].encode("utf-8", "surrogateescape") == b"/\xff"
