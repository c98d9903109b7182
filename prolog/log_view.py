"""What of the kernel's log concerns a job, and what of it is over: the check kernel_log asks this.

It is loaded only when the log has something to judge.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from slurm_io.filesystems.below import below
from slurm_io.filesystems.block_devices import BlockDevices
from slurm_io.filesystems.mounts import MountTable, read_mounts
from slurm_io.filesystems.required_mounts import parse_all_required
from slurm_io.host.kernel_faults.model import Event, View
from slurm_io.host.read import read_optional_line
from slurm_io.prolog.checks.base import CheckContext
from slurm_io.prolog.healthy_now import healthy_now
from slurm_io.prolog.needed_paths import needed_paths, resolve

if TYPE_CHECKING:
    from slurm_io.host.kernel_log import KernelLog

_RESOLVE_SHARE = 0.2  # of the check's time
_ASK_SHARE = 0.2


def view_of(context: CheckContext, window_s: float, log: KernelLog, events: list[Event]) -> View:
    """Look it all up: mounts, devices below them, servers, and what answers or is whole by now."""
    table = read_mounts(context.proc_root)
    points = _points_of_job(context, table)
    devices, addresses = _devices(context, table, points)
    return View(
        now_s=_now_s(context.proc_root, log),
        window_s=window_s,
        devices=devices if len(table) else None,
        addresses=addresses if len(table) else None,
        servers=_users_of(table, points, "nfs") if len(table) else None,
        lustre=_users_of(table, points, "lustre") if len(table) else None,
        user_devices=_user_devices(context, events),
        healthy=healthy_now(
            events, context, _servers_of(table, points), context.budget_s * _ASK_SHARE
        ),
    )


def _points_of_job(context: CheckContext, table: MountTable) -> set[str]:
    """Mount points of the spool, the dataset and the mounts every node must have."""
    paths = (each.path for each in needed_paths(context))
    limit_s = context.budget_s * _RESOLVE_SHARE
    real = resolve(paths, limit_s, context.uid, context.proc_root)
    found = {mount.mount_point for path in real.values() if (mount := table.of_path(path))}
    mounts = context.config.check.get("mounts")
    lines = tuple(mounts.own.get("required", ())) if mounts is not None else ()
    required = parse_all_required(lines, "configuration: check.mounts.required")
    return found | {each.mount_point for each in required}


def _devices(
    context: CheckContext, table: MountTable, points: set[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Block devices of all layers below the mounts, and the PCI addresses of their drives."""
    known = BlockDevices(context.sys_root)
    names: set[str] = set()
    addresses: set[str] = set()
    for point in points:
        mount = table.at(point)
        if mount is None:
            continue
        found = below(mount, table, context.sys_root, known)
        names.update(found.all)
        for disk in found.disks:
            folder = os.path.realpath(f"{context.sys_root}/class/block/{disk}/device")
            addresses.update(part for part in folder.split("/") if part.count(":") == 2)
    return frozenset(names), frozenset(addresses)


def _user_devices(context: CheckContext, events: list[Event]) -> frozenset[str]:
    """Volumes with nothing but loop devices below: encrypted images of containers."""
    volumes = {event.subject for event in events if event.subject.startswith("dm-")}
    if not volumes:
        return frozenset()
    known = BlockDevices(context.sys_root)
    disks_of = {name: known.leaf_disks(name) for name in volumes}
    return frozenset(
        name
        for name, disks in disks_of.items()
        if disks and all(disk.startswith("loop") for disk in disks)
    )


def _servers_of(table: MountTable, points: set[str]) -> dict[str, set[tuple[str, str]]]:
    """NFS server -> mounts of it that the job stands on: where, and device number."""
    found: dict[str, set[tuple[str, str]]] = {}
    for mount in table:
        if mount.kind == "nfs" and mount.mount_point in points:
            for name in _names(mount.source, mount.option("addr"), "nfs"):
                found.setdefault(name, set()).add((mount.mount_point, mount.major_minor))
    return found


def _users_of(table: MountTable, points: set[str], kind: str) -> dict[str, str]:
    """Server or file system name -> "job" when a mount of the job is from there, else "other"."""
    users: dict[str, str] = {}
    for mount in table:
        if mount.kind != kind:
            continue
        use = "job" if mount.mount_point in points else "other"
        for name in _names(mount.source, mount.option("addr"), kind):
            if users.get(name) != "job":
                users[name] = use
    return users


def _names(source: str, address: str | None, kind: str) -> list[str]:
    host, separator, path = source.rpartition(":/") if kind == "lustre" else source.partition(":/")
    if not separator:
        return []
    if kind == "lustre":
        return [path.split("/")[0]]
    return [name for name in (host, host.strip("[]"), address) if name]


def _now_s(proc_root: str, log: KernelLog) -> float | None:
    """Now on the log's clock. lxcfs shows a container's own uptime: then the newest record is
    later than now, and stands for it."""
    words = (read_optional_line(f"{proc_root}/uptime") or "").split()
    try:
        up_s = float(words[0])
    except (ValueError, IndexError):
        return log.last_s
    return max(up_s, log.last_s or 0.0)
