"""Xids in the kernel's log: the one witness left when a GPU does not answer any more."""

from __future__ import annotations

import re

from slurm_io.host.kernel_log import read_kernel_log

_START = "NVRM: Xid ("
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{4,20})\): (\d{1,5}), .*", re.ASCII)
_MOST = 64


def xids_since(boot_s: float) -> list[dict[str, object]]:
    """``bus``, ``xid`` and ``at_s`` (seconds since boot) of each since then, the last 64.

    Raises HostError when the log cannot be read.
    """
    found: list[dict[str, object]] = []
    for line in read_kernel_log(starts=(_START,)).lines:
        xid = _XID.fullmatch(line.message)
        if xid is not None and line.at_s is not None and line.at_s >= boot_s:
            found.append({"bus": xid[1], "xid": int(xid[2]), "at_s": round(line.at_s, 3)})
    return found[-_MOST:]
