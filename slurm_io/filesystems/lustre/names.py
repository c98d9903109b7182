"""Names of a client's parts.

``lustrefs-ffff88105db50000`` is a mount; ``lustrefs-OST000a-osc-ffff88105db50000`` is that mount's
connection to OST 10. The 16 hex digits tell the mount; targets are numbered in hex.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from slurm_io.filesystems.mounts import Mount

_INSTANCE = re.compile(r"^(.+)-([0-9a-f]{16})$")
_TARGET = re.compile(r"^(.+)-(OST|MDT)([0-9a-f]{4})-(osc|mdc)-([0-9a-f]{16})$")
_LMV = re.compile(r"^(.+)-clilmv-([0-9a-f]{16})$")


class Instance(NamedTuple):
    """One client mount of one file system."""

    fsname: str
    digits: str

    @property
    def name(self) -> str:
        """As llite's folder is called."""
        return f"{self.fsname}-{self.digits}"


class Target(NamedTuple):
    """One connection: `kind` osc or mdc, `name` its folder's."""

    kind: Literal["osc", "mdc"]
    name: str
    number: int
    instance: Instance

    @property
    def short(self) -> str:
        """As messages of Lustre call the target: ``lustrefs-OST0003``."""
        return self.name.rpartition(f"-{self.kind}-")[0]


def parse_instance(name: str) -> Instance | None:
    """From a folder of llite; None for any other name."""
    found = _INSTANCE.match(name)
    return Instance(found[1], found[2]) if found else None


def parse_target(name: str) -> Target | None:
    """From a folder of osc or mdc; None for the devices of a server (``…-osc-MDT0000``)."""
    found = _TARGET.match(name)
    if found is None or (found[2] == "OST") != (found[4] == "osc"):
        return None
    kind: Literal["osc", "mdc"] = "osc" if found[4] == "osc" else "mdc"
    return Target(kind, name, int(found[3], 16), Instance(found[1], found[5]))


def parse_lmv(name: str) -> Instance | None:
    """From what a mount answers when asked for its metadata device (``lustrefs-clilmv-…``)."""
    found = _LMV.match(name)
    return Instance(found[1], found[2]) if found else None


def fsname_of(mount: Mount) -> str | None:
    """``NAME`` of ``mgs@tcp:/NAME/folder``; None when the source is of another form."""
    _, slash, rest = mount.source.rpartition(":/")
    return rest.split("/")[0] or None if slash else None
