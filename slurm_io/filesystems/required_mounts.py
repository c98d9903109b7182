"""What an admin says a mount must be, and whether the mount there is that.

One mount is a line as in fstab, with names instead of columns::

    /scratch fstype=lustre source=10.0.0.1@o2ib:/scratch options=rw,flock

Blanks in the mount point or source are written ``\\040``.
"""

from __future__ import annotations

import os
import re
from typing import Literal, NamedTuple

from slurm_io.errors import ConfigError
from slurm_io.filesystems.mounts import Mount, unescape

Likeness = Literal["same", "other name", "other"]

_KEYS = ("fstype", "source", "options")
_TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL")
_NID_SEPARATORS = re.compile(r"[:,]")


class RequiredMount(NamedTuple):
    """One line of the setting. Empty = any."""

    mount_point: str
    fstype: str = ""
    source: str = ""
    options: tuple[str, ...] = ()

    @property
    def writable(self) -> bool:
        """Whether the line asks for read-write."""
        return "rw" in self.options


def parse_required(line: str, label: str) -> RequiredMount:
    """One line. Raises ConfigError headed by `label`, which names file and key."""
    words = line.split()
    if not words or not words[0].startswith("/") or ".." in words[0].split("/"):
        raise ConfigError(f"{label}: {line!a} must begin with a mount point such as /scratch")
    point = unescape(words[0])
    values: dict[str, str] = {}
    for word in words[1:]:
        key, separator, value = word.partition("=")
        if not separator or not value or key not in _KEYS:
            raise ConfigError(
                f"{label}: {word!a} of {words[0]!a} is none of fstype=… source=… options=…"
            )
        if key in values:
            raise ConfigError(f"{label}: {key} of {words[0]!a} is given twice")
        values[key] = unescape(value)
    options = tuple(option for option in values.get("options", "").split(",") if option)
    if "rw" in options and "ro" in options:
        raise ConfigError(f"{label}: {words[0]!a} cannot be both rw and ro")
    point = point.rstrip("/") or "/"
    return RequiredMount(point, values.get("fstype", ""), values.get("source", ""), options)


def parse_all_required(lines: tuple[str, ...], label: str) -> tuple[RequiredMount, ...]:
    """All lines of the setting; a mount point may stand in one of them only. Raises ConfigError."""
    required = tuple(parse_required(line, label) for line in lines)
    points = [each.mount_point for each in required]
    for point in points:
        if points.count(point) > 1:
            raise ConfigError(f"{label}: {point!a} is listed twice")
    return required


def source_likeness(wanted: str, mount: Mount) -> Likeness:
    """Whether a mount's source is the wanted one.

    "other name": the same export or file system by a host or device name that differs, which may
    be an alias (or the wrong server): only a person can tell. "other": another export.
    """
    if wanted == mount.source:
        return "same"
    if mount.kind == "lustre":
        return _lustre_likeness(wanted, mount.source)
    if ":/" in wanted or ":/" in mount.source:
        return _remote_likeness(wanted, mount)
    if wanted.startswith(("/dev/", *(tag + "=" for tag in _TAGS))):
        return "same" if _device(wanted) == _device(mount.source) else "other name"
    return "other"


def missing_options(required: RequiredMount, mount: Mount) -> tuple[str, ...]:
    """Wanted options that neither mount nor file system has; rw and ro are judged elsewhere."""
    there = {*mount.options, *mount.super_options}
    return tuple(
        option for option in required.options if option not in ("rw", "ro") and option not in there
    )


def read_only_why(mount: Mount) -> Literal["", "mounted so", "after an error"]:
    """Why nobody can write to a mount, "" when one can.

    A mount made read-only says so in its own options. A file system that found an error turns only
    its super block read-only (ext4 errors=remount-ro, btrfs), or says emergency_ro or shutdown.
    """
    if "ro" in mount.options:
        return "mounted so"
    if {"ro", "emergency_ro", "shutdown"} & set(mount.super_options):
        return "after an error"
    return ""


def _lustre_likeness(wanted: str, source: str) -> Likeness:
    wanted_nids, _, wanted_name = wanted.rpartition(":/")
    nids, _, name = source.rpartition(":/")
    if wanted_name.rstrip("/") != name.rstrip("/"):
        return "other"
    shared = set(_NID_SEPARATORS.split(wanted_nids)) & set(_NID_SEPARATORS.split(nids))
    return "same" if shared or not wanted_nids else "other name"


def _remote_likeness(wanted: str, mount: Mount) -> Likeness:
    wanted_host, _, wanted_path = wanted.partition(":/")
    host, _, path = mount.source.partition(":/")
    if wanted_path.rstrip("/") != path.rstrip("/"):
        return "other"
    names = {host.lower().strip("[]"), (mount.option("addr") or "").lower()}
    return "same" if wanted_host.lower().strip("[]") in names else "other name"


def _device(source: str) -> str:
    """A local device's own name: links of /dev (by-uuid, mapper) are followed."""
    tag, separator, value = source.partition("=")
    if separator and tag in _TAGS:
        source = f"/dev/disk/by-{tag.lower()}/{value.strip(chr(34))}"
    return os.path.realpath(source) if source.startswith("/dev/") else source
