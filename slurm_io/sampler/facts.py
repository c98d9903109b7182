"""What meta.json and self.json say (docs/development/contracts.md, section 3)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from slurm_io.filesystems.mounts import read_mounts
from slurm_io.host.read import read_optional_text
from slurm_io.model import SamplerSpec
from slurm_io.store.schema import SCHEMA_VERSION

_MOST_MOUNTS = 256
_UNINTERESTING_KINDS = ("pseudo",)


def node_facts(spec: SamplerSpec, start_ts_ns: int, offset_ns: int) -> dict[str, Any]:
    """The part of meta.json that does not change."""
    proc_root = Path(spec.proc_root)
    return {
        "schema": SCHEMA_VERSION,
        "job": spec.job.to_dict(),
        "node": spec.node,
        "mode": spec.mode,
        "start_ts_ns": start_ts_ns,
        "clock": {"realtime_minus_monotonic_ns": offset_ns},
        "ncpu": os.cpu_count(),
        "mem_total_bytes": _mem_total_bytes(proc_root),
        "kernel": os.uname().release,
        "proc_hidepid": _hidepid(proc_root),
        "stop": None,
    }


def mount_facts(proc_root: Path) -> list[dict[str, str]]:
    """``mounts`` of meta.json: what could hold data."""
    mounts = [m for m in read_mounts(proc_root) if m.kind not in _UNINTERESTING_KINDS]
    return [
        {
            "mount": _safe(mount.mount_point),
            "source": _safe(mount.source),
            "fstype": _safe(mount.fstype),
            "major_minor": mount.major_minor,
        }
        for mount in mounts[:_MOST_MOUNTS]
    ]


def peak_rss_bytes() -> int | None:
    """VmHWM of this process; ru_maxrss would also remember the program before exec."""
    return _number_of_line("/proc/self/status", "VmHWM:")


def _hidepid(proc_root: Path) -> str | None:
    """How /proc hides other users' processes (``invisible``, ``2``, …); None when it does not."""
    mount = read_mounts(proc_root).at("/proc")
    hidden = mount.option("hidepid") if mount is not None else None
    return None if hidden in (None, "0", "off") else hidden


def _mem_total_bytes(proc_root: Path) -> int | None:
    return _number_of_line(proc_root / "meminfo", "MemTotal:")


def _number_of_line(path: str | Path, label: str) -> int | None:
    """Bytes of a ``Label:  123 kB`` line."""
    for line in (read_optional_text(path) or "").splitlines():
        if line.startswith(label):
            return int(line.split()[1]) * 1024
    return None


def _safe(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
