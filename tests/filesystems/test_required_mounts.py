"""What an admin may write of a mount, and how alike a source must be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.errors import ConfigError
from slurm_io.filesystems.expected_arrays import ExpectedArray, parse_expected
from slurm_io.filesystems.mounts import Mount
from slurm_io.filesystems.required_mounts import (
    RequiredMount,
    missing_options,
    parse_all_required,
    parse_required,
    read_only_why,
    source_likeness,
)


def mount(fstype: str, source: str, options: str = "rw", super_options: str = "rw") -> Mount:
    return Mount(
        1, 0, "0:5", "/", "/data", fstype, source,
        tuple(options.split(",")), tuple(super_options.split(",")),
    )  # fmt: skip


def test_a_whole_line() -> None:
    line = r"/scratch\040one fstype=lustre source=10.0.0.1@o2ib:/scratch options=rw,flock"
    assert parse_required(line, "x") == RequiredMount(
        "/scratch one", "lustre", "10.0.0.1@o2ib:/scratch", ("rw", "flock")
    )
    assert parse_required("/home/", "x") == RequiredMount("/home")


@pytest.mark.parametrize(
    "line",
    ["", "scratch", "/a/../b", "/a type=nfs", "/a fstype", "/a fstype=", "/a fstype=x fstype=y",
     "/a options=rw,ro"],
)  # fmt: skip
def test_lines_that_are_none(line: str) -> None:
    with pytest.raises(ConfigError, match=r"^config: check\.mounts\.required: "):
        parse_required(line, "config: check.mounts.required")


def test_a_mount_point_may_be_named_once() -> None:
    with pytest.raises(ConfigError, match="'/a' is listed twice"):
        parse_all_required(("/a", "/a/ fstype=nfs"), "x")


@pytest.mark.parametrize(
    ("fstype", "source", "wanted", "likeness"),
    [
        ("lustre", "10.0.0.1@o2ib:/scratch", "10.0.0.1@o2ib:/scratch", "same"),
        ("lustre", "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch", "10.0.0.2@o2ib:/scratch", "same"),
        ("lustre", "10.0.0.9@o2ib:/scratch", "10.0.0.1@o2ib:/scratch", "other name"),
        ("lustre", "10.0.0.1@o2ib:/home", "10.0.0.1@o2ib:/scratch", "other"),
        ("nfs4", "filer1:/export/", "FILER1:/export", "same"),
        ("nfs4", "filer1.example.com:/export", "filer1:/export", "other name"),
        ("nfs4", "filer1:/other", "filer1:/export", "other"),
        ("nfs4", "[fd00::1]:/export", "fd00::1:/export", "same"),
        ("ext4", "/dev/nvme1n1p1", "/dev/nvme0n1p1", "other name"),
        ("ext4", "/dev/../dev/null", "/dev/null", "same"),
        ("wekafs", "weka1/fs1", "weka1/fs2", "other"),
    ],
)
def test_sources(fstype: str, source: str, wanted: str, likeness: str) -> None:
    assert source_likeness(wanted, mount(fstype, source)) == likeness


def test_the_address_that_nfs_resolved_is_the_server_too() -> None:
    there = mount("nfs4", "filer1:/export", super_options="rw,addr=10.0.0.5")
    assert source_likeness("10.0.0.5:/export", there) == "same"


def test_read_only_by_wish_and_by_fate() -> None:
    assert read_only_why(mount("ext4", "/dev/md0")) == ""
    assert read_only_why(mount("ext4", "/dev/md0", "ro", "ro")) == "mounted so"
    assert (
        read_only_why(mount("ext4", "/dev/md0", "rw", "ro,errors=remount-ro")) == "after an error"
    )
    assert read_only_why(mount("ext4", "/dev/md0", "rw", "rw,emergency_ro")) == "after an error"


def test_options_are_looked_for_in_both_places() -> None:
    required = RequiredMount("/data", options=("rw", "flock", "noatime", "rsize=1048576"))
    there = mount("lustre", "a:/b", "rw,noatime", "rw,flock")
    assert missing_options(required, there) == ("rsize=1048576",)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=120))
def test_any_line_is_read_or_refused_by_name(line: str) -> None:
    for parse in (parse_required, parse_expected):
        try:
            parse(line, "label")
        except ConfigError as error:
            assert str(error).startswith("label: ") and str(error).isprintable()


def test_arrays() -> None:
    assert parse_expected("/raid level=raid0 members=8", "x") == ExpectedArray(
        "/raid", "", "raid0", 8
    )
    assert parse_expected("md0", "x") == ExpectedArray("", "md0")


@pytest.mark.parametrize(
    "line", ["", "sda", "/raid level=raid7", "/raid members=0", "/raid members=x", "/raid size=1"]
)
def test_arrays_that_are_none(line: str) -> None:
    with pytest.raises(ConfigError, match="^label: "):
        parse_expected(line, "label")
