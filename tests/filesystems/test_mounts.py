"""mountinfo: optional fields, escapes, covered mounts, lookup, kinds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.kinds import kind_of
from slurm_io.filesystems.mounts import (
    Mount,
    MountTable,
    parse_line,
    parse_mountinfo,
    read_mounts,
    unescape,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "host" / "mountinfo"


def table(name: str) -> MountTable:
    return MountTable(parse_mountinfo((FIXTURES / name).read_text()))


def test_container_sample() -> None:
    mounts = table("mountinfo_container_node.txt")
    lines = (FIXTURES / "mountinfo_container_node.txt").read_text().splitlines()
    assert len(mounts) == len(lines)
    root = mounts.at("/")
    assert root is not None
    assert (root.mount_id, root.major_minor, root.fstype) == (838, "253:0", "ext4")
    assert root.root == "/var/lib/lxc/ct0/rootfs"
    assert root.propagation == ("shared:518", "master:1")
    assert root.super_options == ("rw",)


def test_lxcfs_covers_diskstats() -> None:
    cover = table("mountinfo_container_node.txt").at("/proc/diskstats")
    assert cover is not None and (cover.fstype, cover.kind) == ("fuse.lxcfs", "pseudo")


def test_small_sample_paths() -> None:
    mounts = table("mountinfo_small.txt")
    nfs = mounts.of_path("/mnt/nfs/test/data/shard-0001.tar")
    assert nfs is not None and (nfs.kind, nfs.source) == ("nfs", "192.0.2.1:/srv/test")
    assert nfs.option("rsize") == "1048576" and nfs.option("nconnect") is None
    beside = mounts.of_path("/mnt/nfs/testing")
    assert beside is not None and beside.mount_point == "/"
    assert mounts.of_path("relative/path") is None


def line(mount_id: int, parent: int, point: str, device: str = "0:5", fstype: str = "ext4") -> str:
    return f"{mount_id} {parent} {device} / {point} rw - {fstype} src rw"


def test_a_later_mount_on_the_same_point_covers_the_first() -> None:
    mounts = MountTable(
        parse_mountinfo("\n".join([line(1, 0, "/"), line(2, 1, "/data"), line(3, 2, "/data")]))
    )
    found = mounts.of_path("/data/x")
    assert found is not None and found.mount_id == 3


def test_a_mount_hidden_below_a_later_one_is_not_found() -> None:
    mounts = MountTable(
        parse_mountinfo("\n".join([line(1, 0, "/"), line(2, 1, "/a/b"), line(3, 1, "/a")]))
    )
    found = mounts.of_path("/a/b/file")
    assert found is not None and found.mount_id == 3


def test_without_a_root_the_longest_mount_point_wins() -> None:
    mounts = MountTable(parse_mountinfo("\n".join([line(7, 6, "/a"), line(8, 6, "/a/b")])))
    found = mounts.of_path("/a/b/c")
    assert found is not None and found.mount_id == 8
    assert mounts.of_path("/elsewhere") is None


def test_mounts_that_are_each_others_parent_end_the_search() -> None:
    mounts = MountTable(parse_mountinfo("\n".join([line(1, 2, "/"), line(2, 1, "/")])))
    assert mounts.of_path("/x") is not None


def test_by_id_and_by_device() -> None:
    mounts = table("mountinfo_small.txt")
    found = mounts.by_id(1128)
    assert found is not None and found.mount_point == "/var/lib/containers/storage/overlay"
    assert [mount.mount_id for mount in mounts.by_device("0:42")] == [194, 177]


@pytest.mark.parametrize(
    ("text", "point", "source"),
    [
        (r"1 0 0:5 / /mnt/my\040data rw - nfs4 srv:/a\011b rw", "/mnt/my data", "srv:/a\tb"),
        (r"1 0 0:5 / /mnt/a\134b rw shared:1 - ext4 - rw", "/mnt/a\\b", "-"),
        ("1 0 0:5 / /mnt/x rw shared:1 master:2 propagate_from:3 unbindable - xfs d rw", "/mnt/x",
         "d"),
        ("1 0 0:5 / /mnt/e rw - fuse.x  rw", "/mnt/e", ""),
    ],
)  # fmt: skip
def test_odd_lines(text: str, point: str, source: str) -> None:
    mount = parse_line(text)
    assert mount is not None
    assert (mount.mount_point, mount.source) == (point, source)


@pytest.mark.parametrize(
    "text", ["", "garbage", "1 2 3 4 5 6", "1 0 0:5 / /a rw -", "x 0 0:5 / /a rw - e s r"]
)
def test_lines_that_are_none(text: str) -> None:
    assert parse_line(text) is None


def escape(text: str) -> str:
    return "".join(f"\\{ord(c):03o}" if c in " \t\n\\" else c for c in text)


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(NAMES)
def test_escapes_come_back(name: str) -> None:
    assert unescape(escape(name)) == name


@given(
    NAMES.filter(lambda name: not set(name) & set("\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")),
    st.lists(st.sampled_from(["shared:1", "master:22", "unbindable"]), max_size=4),
)
def test_any_mount_point_and_any_number_of_optional_fields(name: str, extra: list[str]) -> None:
    fields = ["36", "35", "8:1", "/", "/" + escape(name), "rw", *extra, "-", "ext4", "/dev/x", "rw"]
    (mount,) = parse_mountinfo(" ".join(fields) + "\n")
    assert mount.mount_point == "/" + name
    assert mount.propagation == tuple(extra)


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    assert all(isinstance(mount, Mount) for mount in parse_mountinfo(text))


@pytest.mark.parametrize(
    ("fstype", "kind"),
    [
        ("ext4", "local"), ("xfs", "local"), ("nfs4", "nfs"), ("lustre", "lustre"),
        ("fuse.juicefs", "fuse"), ("fuse", "fuse"), ("fuseblk", "local"), ("gpfs", "gpfs"),
        ("beegfs", "beegfs"), ("wekafs", "weka"), ("ceph", "ceph"), ("overlay", "overlay"),
        ("tmpfs", "tmpfs"), ("cgroup2", "pseudo"), ("something-new", "other"),
    ],
)  # fmt: skip
def test_kinds(fstype: str, kind: str) -> None:
    assert kind_of(fstype) == kind


def test_this_very_machine() -> None:
    mounts = read_mounts()
    root = mounts.of_path("/")
    assert root is not None and root.mount_point == "/"
    proc = mounts.of_path("/proc/self/status")
    assert proc is not None and proc.fstype == "proc"


def test_unreadable_is_empty(tmp_path: Path) -> None:
    assert len(read_mounts(tmp_path)) == 0


@pytest.mark.parametrize("sign", ["\u2028", "\x0c", "\x1e", "\x85"])
def test_no_sign_in_a_users_name_of_a_mount_breaks_its_line(sign: str) -> None:
    line = f"9 1 0:50 / /home/u/a{sign}b rw - fuse.x c{sign}d rw,user_id=5"
    (mount,) = parse_mountinfo(line)
    assert (mount.mount_point, mount.source) == (f"/home/u/a{sign}b", f"c{sign}d")
    assert mount.made_by_user
