"""Software RAID arrays (md) from /proc/mdstat and /sys/block/md*/md.

mdstat alone does not say how many disks a RAID 0 should have, nor that one of them has left the
machine: the names in it stay. /sys says both. Disk names change from boot to boot, so every member
carries its disk's serial number where the drive tells one.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

from slurm_io.filesystems.block_devices import BlockDevices
from slurm_io.host.read import read_optional_line, read_optional_text

# Not compiled here: most nodes have no array, and every prolog pays for what it loads.
_HEAD = r"(md\S*) : (active|inactive|broken)(?: \((auto-read-only|read-only)\))?(.*)"
_MEMBER = r"(\S+?)\[(\d{1,9})\]((?:\([A-Z]\))*)"
_COUNTS = r"\[(\d{1,9})/(\d{1,9})\] \[([U_]+)\]"
_PROGRESS = r"(resync|recovery|reshape|check|repair) *= *(\d{1,3}\.\d)% .*?finish=(\d{1,12}\.\d)min"
_WAITING = r"(resync|recovery|reshape|check|repair) ?= ?(DELAYED|PENDING|REMOTE)"
_EXTERNAL_CONTAINER = r"super external:(?!/)\S+"
_STRIPED = ("raid0", "linear")


class Member(NamedTuple):
    """One device of an array. `slot` is mdstat's number. `present` is False when the kernel has
    no such device any more; None when /sys did not say."""

    name: str
    slot: int
    failed: bool = False
    spare: bool = False
    present: bool | None = None
    serial: str | None = None


class Array(NamedTuple):
    """One array.

    `state`: active, inactive or broken. `level` None: the text has none. `wanted` devices of which
    `working` are up, None for levels without redundancy in mdstat. `action`: resync, recovery,
    reshape, check, repair or "" with `done_share` 0..1 and `finish_min`; `waiting` = that action
    has not begun. `container`: holds the metadata of other arrays, never data.
    """

    name: str
    state: str
    level: str | None
    members: tuple[Member, ...]
    read_only: str = ""
    wanted: int | None = None
    working: int | None = None
    up: str = ""
    action: str = ""
    done_share: float | None = None
    finish_min: float | None = None
    waiting: bool = False
    container: bool = False
    degraded: int | None = None
    array_state: str | None = None

    def has_redundancy(self) -> bool:
        """Whether a member may be missing without loss of data."""
        return self.level not in (*_STRIPED, None)

    def failed_members(self) -> tuple[Member, ...]:
        """Members the array threw out."""
        return tuple(member for member in self.members if member.failed)

    def gone_members(self) -> tuple[Member, ...]:
        """Members whose device is no longer in the machine."""
        return tuple(member for member in self.members if member.present is False)

    def data_members(self) -> tuple[Member, ...]:
        """Members that hold data: neither spare nor thrown out."""
        return tuple(member for member in self.members if not (member.spare or member.failed))

    def missing(self) -> int:
        """How many devices short the array is of what it wants, 0 when that is unknown."""
        short = (self.wanted - self.working) if self.wanted and self.working is not None else 0
        if self.wanted and self.working is None and self.state != "inactive":
            usable = [member for member in self.data_members() if member.present is not False]
            short = self.wanted - len(usable)
        return max(0, short, self.degraded or 0)


def parse_mdstat(text: str) -> tuple[Array, ...]:
    """All arrays of /proc/mdstat; unknown lines are left out."""
    arrays: list[Array] = []
    for line in text.splitlines():
        found = re.fullmatch(_HEAD, line)
        if found:
            arrays.append(_head(found))
        elif arrays and line.startswith((" ", "\t")):
            arrays[-1] = _with_detail(arrays[-1], line)
        elif line.strip():
            continue
    return tuple(arrays)


def read_arrays(proc_root: str, sys_root: str, devices: BlockDevices) -> tuple[Array, ...] | None:
    """The node's arrays, with what /sys adds; None when mdstat cannot be read though md is there.

    A kernel without md has no such file and no arrays: ().
    """
    text = read_optional_text(f"{proc_root}/mdstat")
    if text is None:
        try:
            has_md = any(name.startswith("md") for name in os.listdir(f"{sys_root}/block"))
        except OSError:
            has_md = False
        return None if has_md else ()
    return tuple(_with_sysfs(array, sys_root, devices) for array in parse_mdstat(text))


def disk_serial(sys_root: str, disk: str) -> str | None:
    """Serial number of a whole disk: NVMe and virtio tell it, SCSI disks in their VPD page 80."""
    folder = f"{sys_root}/class/block/{disk.replace('/', '!')}"
    for name in ("device/serial", "serial"):
        if serial := read_optional_line(f"{folder}/{name}"):
            return serial
    with contextlib.suppress(OSError), open(f"{folder}/device/vpd_pg80", "rb") as page:
        return page.read()[4:].decode("ascii", "replace").strip() or None
    return read_optional_line(f"{folder}/wwid")


def _head(found: re.Match[str]) -> Array:
    words = found[4].split()
    level = words[0] if words and "[" not in words[0] else None
    members = tuple(
        sorted(
            (_member(each) for word in words if (each := re.fullmatch(_MEMBER, word))), key=_by_slot
        )
    )
    return Array(found[1], found[2], level, members, read_only=found[3] or "")


def _member(found: re.Match[str]) -> Member:
    flags = found[3]
    return Member(found[1], int(found[2]), failed="(F)" in flags, spare="(S)" in flags)


def _by_slot(member: Member) -> int:
    return member.slot


def _with_detail(array: Array, line: str) -> Array:
    if found := re.search(_COUNTS, line):
        array = array._replace(wanted=int(found[1]), working=int(found[2]), up=found[3])
    if re.search(_EXTERNAL_CONTAINER, line):
        array = array._replace(container=True)
    if found := re.search(_PROGRESS, line):
        share = min(1.0, float(found[2]) / 100)
        return array._replace(action=found[1], done_share=share, finish_min=float(found[3]))
    if found := re.search(_WAITING, line):
        return array._replace(action=found[1], waiting=True)
    return array


def _with_sysfs(array: Array, sys_root: str, devices: BlockDevices) -> Array:
    folder = f"{sys_root}/block/{array.name.replace('/', '!')}/md"
    if not os.path.isdir(folder):
        return array
    wanted = _first_number(read_optional_line(f"{folder}/raid_disks"))
    members = tuple(_with_device(member, folder, sys_root, devices) for member in array.members)
    return array._replace(
        wanted=array.wanted or wanted or None,
        level=array.level or read_optional_line(f"{folder}/level"),
        degraded=_first_number(read_optional_line(f"{folder}/degraded")),
        array_state=read_optional_line(f"{folder}/array_state"),
        members=members,
    )


def _with_device(member: Member, folder: str, sys_root: str, devices: BlockDevices) -> Member:
    states = (read_optional_line(f"{folder}/dev-{member.name}/state") or "").split(",")
    present = os.path.exists(f"{sys_root}/class/block/{member.name.replace('/', '!')}")
    disks = devices.leaf_disks(member.name) if present else ()
    return member._replace(
        failed=member.failed or "faulty" in states,
        present=present,
        serial=disk_serial(sys_root, disks[0]) if disks else None,
    )


def _first_number(line: str | None) -> int | None:
    """``8`` of ``8 (6)``, as raid_disks reads while an array is reshaped."""
    word = (line or "").split(" ")[0]
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else None
