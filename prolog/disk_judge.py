"""What is said of volumes and disks below a job's data: the check of arrays, without the arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_io.filesystems.disk_state import disk_life, dm_is_suspended, whole_disks
from slurm_io.filesystems.md_arrays import disk_serial
from slurm_io.host.read import read_optional_line
from slurm_io.model import CheckAnswer, CheckResult
from slurm_io.prolog.checks.base import shown
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.below import Below
    from slurm_io.filesystems.block_devices import BlockDevices
    from slurm_io.filesystems.md_arrays import Array


@dataclass(frozen=True)
class NodeStorage:
    """What was read of the node: devices, arrays, and which of them the job stands on."""

    sys_root: str
    devices: BlockDevices
    arrays: tuple[Array, ...]
    below: dict[str, Below]  # by label of what lies above

    def layers(self) -> dict[str, list[str]]:
        """Device -> labels of what lies on it."""
        found: dict[str, list[str]] = {}
        for label, each in self.below.items():
            for name in each.all:
                found.setdefault(name, []).append(label)
        return found


def volumes(node: NodeStorage) -> list[CheckResult]:
    """Device-mapper volumes below the job that are suspended or lost a device."""
    results = []
    for name, labels in node.layers().items():
        device = node.devices.get(name)
        if device is None or device.role != "dm":
            continue
        trouble = _volume_trouble(node, name, device.slaves)
        if trouble is not None:
            answer, words = trouble
            named = shown(device.dm_name or name)
            text = f"volume {named} {words} (holds: {', '.join(map(shown, labels))})"
            facts = {"device": name, "members": list(device.slaves)}
            results.append(CheckResult("arrays", answer, "node", text, name, facts))
    return results


def _volume_trouble(
    node: NodeStorage, name: str, members: tuple[str, ...]
) -> tuple[CheckAnswer, str] | None:
    if dm_is_suspended(node.sys_root, name):
        return "FAIL", "is suspended: reads and writes wait; see dmsetup info"
    gone = [each for each in members if disk_life(node.sys_root, each)[1] == "not there"]
    if not gone:
        return None
    uuid = read_optional_line(f"{node.sys_root}/class/block/{name}/dm/uuid") or ""
    paths_left = uuid.startswith("mpath-") and len(gone) < len(members)
    words = f"lacks {', '.join(gone)}; see lvs -o +devices or multipath -ll"
    return ("DEGRADED" if paths_left else "FAIL"), words


def disks(node: NodeStorage) -> list[CheckResult]:
    """Disks below the job that the kernel does not call live. What a RAID with redundancy can do
    without, or reports itself, is at most DEGRADED."""
    spared = _disks_of_redundant_arrays(node)
    labels = {disk: label for label, each in node.below.items() for disk in each.disks}
    results = []
    for disk, label in labels.items():
        life, word = disk_life(node.sys_root, disk)
        if life in ("alive", "unknown"):
            continue
        answer: CheckAnswer = "FAIL" if life == "dead" and disk not in spared else "DEGRADED"
        serial = disk_serial(node.sys_root, disk)
        named = f"{disk} (serial {shown(serial)})" if serial else disk
        text = f"disk {named} is {word}; reseat or replace it (holds: {shown(label)})"
        facts = {"device": disk, "state": word, "serial": serial}
        results.append(CheckResult("arrays", answer, "node", text, disk, facts))
    return results


def _disks_of_redundant_arrays(node: NodeStorage) -> set[str]:
    found: set[str] = set()
    for array in node.arrays:
        if array.has_redundancy():
            for member in array.members:
                found |= {member.name, *node.devices.leaf_disks(member.name)}
    return found


def serials(node: NodeStorage, wanted: tuple[str, ...]) -> list[CheckResult]:
    """FAIL when a listed drive is not in the machine."""
    if not wanted:
        return []
    there = {disk: disk_serial(node.sys_root, disk) for disk in whole_disks(node.sys_root)}
    missing = sorted(set(wanted) - set(there.values()))
    if missing:
        text = f"drives with these serials are not there: {', '.join(map(shown, missing[:8]))}"
        answer: CheckAnswer = "FAIL"
    else:
        text, answer = f"all {len(set(wanted))} listed drives are there", "OK"
    facts = {"missing": missing, "there": {disk: it for disk, it in there.items() if it}}
    return [CheckResult("arrays", answer, "node", text, "serials", facts)]


def nothing_wrong(node: NodeStorage) -> list[CheckResult]:
    """OK for disks without RAID; nothing at all where no path lies on a disk of this node."""
    names = sorted({disk for each in node.below.values() for disk in each.disks})
    if not names:
        return []
    text = f"disks below {', '.join(map(shown, node.below))}: {', '.join(names[:8])} in place"
    return [CheckResult("arrays", "OK", "node", text, None, {"disks": names})]
