"""The FUSE collector on made-up trees, and beside a real file system that hangs."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Availability, Context
from slurm_io.collectors.fuse import Fuse
from tests.collectors.fake_host import SECOND_NS, context, rows_at, write_tree
from tests.collectors.mounts import ROOT, mount_line
from tests.labs.slowfs import SlowFs, fuse_missing

SSHFS = mount_line(53, "/data", "fuse.sshfs", "host:/data")
S3 = mount_line(54, "/bucket", "fuse", "mountpoint-s3")


class Node:
    def __init__(self, root: Path, mounts: str, **waiting: int | str) -> None:
        self.root = root
        self.mounts(mounts)
        self.waiting(**waiting)
        self.fuse = Fuse()
        self.availability = self.fuse.open(context(root))

    def mounts(self, text: str) -> None:
        write_tree(self.root, {"proc/self/mountinfo": ROOT + text})

    def waiting(self, **numbers: int | str) -> None:
        folder = "sys/fs/fuse/connections"
        write_tree(
            self.root, {f"{folder}/{name[1:]}/waiting": f"{n}\n" for name, n in numbers.items()}
        )

    def rows(self, second: float) -> dict[str, dict[str, Any]]:
        return {row["mount"]: row for row in rows_at(self.fuse, second)}


def test_without_a_mount_there_is_nothing_to_miss(tmp_path: Path) -> None:
    node = Node(tmp_path, "")
    assert node.availability == Availability("absent", "no FUSE mount here")


def test_lxcfs_and_local_mounts_are_not_of_interest(tmp_path: Path) -> None:
    lxcfs = mount_line(60, "/proc/stat", "fuse.lxcfs", "lxcfs")
    assert Node(tmp_path, lxcfs, c60=1).availability.state == "absent"


def test_a_row_says_how_many_wait_and_nothing_else(tmp_path: Path) -> None:
    node = Node(tmp_path, SSHFS + S3, c53=0, c54=4)
    assert node.availability == Availability("on")
    assert node.rows(0) == {}
    rows = node.rows(1)
    assert rows.keys() == {"/bucket"}
    row = rows["/bucket"]
    assert (row["fstype"], row["source"], row["op_class"]) == ("fuse", "fuse waiting", "any")
    assert (row["inflight"], row["interval_ns"]) == (4, SECOND_NS)
    others = ("ops", "bytes", "rtt_ms", "exe_ms", "queue_ms", "retrans", "errors")
    assert {name: row[name] for name in others} == dict.fromkeys(others)
    node.waiting(c53=2, c54=0)
    assert {mount: row["inflight"] for mount, row in node.rows(2).items()} == {"/data": 2}


def test_mounts_of_one_superblock_have_one_row(tmp_path: Path) -> None:
    again = mount_line(70, "/bound", "fuse.sshfs", "host:/data", device="0:53")
    node = Node(tmp_path, SSHFS + again, c53=3)
    node.rows(0)
    assert node.rows(1).keys() == {"/data"}
    node.fuse.close()
    (mount,) = node.fuse.facts()["mounts"]  # type: ignore[misc]
    assert (mount["mount"], mount["also_at"]) == ("/data", ["/bound"])
    assert (mount["source"], mount["most_waiting"]) == ("host:/data", 3)


def test_a_block_device_behind_fuse_has_the_kernels_long_number(tmp_path: Path) -> None:
    ntfs = mount_line(71, "/win", "fuseblk", "/dev/sdb1", device="8:17")
    node = Node(tmp_path, ntfs, **{f"c{8 << 20 | 17}": 1})
    node.rows(0)
    assert node.rows(1)["/win"]["inflight"] == 1


def test_without_fusectl_it_is_off_with_the_remedy(tmp_path: Path) -> None:
    availability = Node(tmp_path, SSHFS).availability
    assert availability.state == "off" and "mount -t fusectl" in availability.reason


def test_a_mount_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path, SSHFS + S3, c54=1)
    assert node.availability.state == "partial" and "/data" in node.availability.reason
    assert node.fuse.facts()["refused"].keys() == {"/data"}  # type: ignore[attr-defined]
    node.rows(0)
    assert node.rows(1).keys() == {"/bucket"}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_others_may_not_read_a_users_connection(tmp_path: Path) -> None:
    node = Node(tmp_path, SSHFS, c53=1)
    node.fuse.close()
    path = tmp_path / "sys/fs/fuse/connections/53/waiting"
    path.chmod(0o400)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        availability = Fuse().open(context(tmp_path))
    finally:
        os.seteuid(0)
    assert availability.state == "off" and "only root and who mounted" in availability.reason


def test_a_connection_that_ends_and_a_mount_made_anew(tmp_path: Path) -> None:
    node = Node(tmp_path, SSHFS, c53=1)
    node.rows(0)
    path = tmp_path / "sys/fs/fuse/connections/53/waiting"
    path.write_text("")  # as the kernel answers while it ends
    assert node.rows(1) == {}
    path.unlink()
    assert node.rows(2) == {}
    # Under the same device number, found within 30 s.
    node.mounts(SSHFS.replace("53 1", "99 1"))
    path.write_text("6\n")
    assert node.rows(31) == {}
    assert node.rows(32)["/data"]["inflight"] == 6


def test_no_more_mounts_are_watched_than_is_cheap(tmp_path: Path) -> None:
    numbers = range(100, 176)
    mounts = "".join(mount_line(n, f"/m{n}", "fuse.squashfuse", "x") for n in numbers)
    node = Node(tmp_path, mounts, **{f"c{n}": 1 for n in numbers})
    node.rows(0)
    assert len(node.rows(1)) == 64
    assert node.fuse.facts()["left_out"] == 12


# A real file system that hangs --------------------------------------------------------------------


@pytest.fixture
def real_context(tmp_path: Path) -> Iterator[Context]:
    """This node's own /proc, and a /sys that holds fusectl and nothing else."""
    if reason := fuse_missing():
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("needs root to mount fusectl")
    connections = tmp_path / "root" / "sys" / "fs" / "fuse" / "connections"
    connections.mkdir(parents=True)
    subprocess.run(["mount", "-t", "fusectl", "fusectl", connections], check=True)
    try:
        (tmp_path / "root" / "proc").symlink_to("/proc")
        yield context(tmp_path / "root")
    finally:
        subprocess.run(["umount", "-l", connections], check=True)


def until(condition: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.mark.fuse
@pytest.mark.root
def test_a_read_that_hangs_shows_and_one_that_is_answered_does_not(
    tmp_path: Path, real_context: Context
) -> None:
    backing, mount = tmp_path / "backing", tmp_path / "mount"
    backing.mkdir()
    (backing / "sample").write_bytes(b"x" * 4096)
    with SlowFs(backing, mount) as slow:
        collector = Fuse()
        assert collector.open(real_context).state in ("on", "partial")
        seconds = iter(range(10**6))

        def inflight() -> list[int]:
            rows = rows_at(collector, next(seconds))
            return [row["inflight"] for row in rows if row["mount"] == str(mount)]

        assert inflight() == []
        (mount / "sample").read_bytes()
        until(lambda: inflight() == [])  # a release is answered a little later
        slow.change(hang_globs=("sample",), hang_classes=("read",))
        readers = [threading.Thread(target=(mount / "sample").read_bytes) for _ in range(2)]
        try:
            # Opens are answered at once; a number that stays is that of the reads.
            readers[0].start()
            until(lambda: [inflight() for _ in range(20)] == [[1]] * 20)
            readers[1].start()
            until(lambda: [inflight() for _ in range(20)] == [[2]] * 20)
        finally:
            slow.change(hang_globs=())
            for reader in readers:
                if reader.ident is not None:
                    reader.join(10)
        until(lambda: inflight() == [])
        facts = {each["mount"]: each for each in collector.facts()["mounts"]}  # type: ignore[attr-defined]
        assert facts[str(mount)]["most_waiting"] == 2
        assert facts[str(mount)]["source"] == "slowfs"
        collector.close()


@pytest.mark.fuse
@pytest.mark.root
def test_a_mount_that_comes_and_goes_while_we_look(tmp_path: Path, real_context: Context) -> None:
    with SlowFs(tmp_path / "b1", tmp_path / "m1"):
        collector = Fuse()
        collector.open(real_context)
        rows_at(collector, 0)
        with SlowFs(tmp_path / "b2", tmp_path / "m2") as slow:
            (tmp_path / "b2" / "f").write_bytes(b"x")
            rows_at(collector, 31)
            slow.change(hang_globs=("f",), hang_classes=("stat", "open", "read"))
            reader = threading.Thread(target=(tmp_path / "m2" / "f").read_bytes)
            reader.start()
            try:
                seconds = iter(range(32, 10**6))
                until(
                    lambda: any(
                        row["mount"] == str(tmp_path / "m2") and row["inflight"] >= 1
                        for row in rows_at(collector, next(seconds))
                    )
                )
            finally:
                slow.change(hang_globs=())
                reader.join(10)
        # It is gone: no row, no error. (Others may have mounts on this node.)
        for after in (next(seconds), next(seconds) + 40):
            rows = rows_at(collector, after)
            assert str(tmp_path / "m2") not in [row["mount"] for row in rows]
        collector.close()
