"""RAID arrays and disks below a job's data: complete, in sync, alive.

What it checks: the block devices below the mounts of the job's dataset and of the spool, and the
arrays the admin names: software RAID (md) members failed, missing or rebuilding; device-mapper
volumes suspended or short of a device; NVMe and SCSI drives that the kernel no longer calls live.
Known serial numbers of drives, when listed, must all be there.

Why it matters: a RAID 0 that lost one drive gives I/O errors in the middle of an epoch; a RAID that
rebuilds reads at half speed; an array that did not assemble leaves an empty folder behind.

Needs: /proc/mdstat, /sys/block, /sys/class/block. No tool is run.

Answers: OK. DEGRADED: a member of a redundant array is gone, or it resyncs, rebuilds, reshapes or
is checked (reads are slower), or a drive resets just now. FAIL: a RAID 0 or linear array lost a
member, more are missing than the level bears, an array is inactive or broken, not what the admin
said, a listed serial is not there, or a drive is dead or offline. What no job path and no setting
names is at most DEGRADED. UNKNOWN: mdstat or an array's level cannot be read.

What to do: ``cat /proc/mdstat``, ``mdadm --detail /dev/mdN``; replace the drive with the serial
number named here (names like nvme3n1 change from boot to boot), then rebuild or stage again.

Known false alarms: a scrub that was started on purpose reads DEGRADED while it runs.

Settings: arrays, serials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckAnswer, CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check

if TYPE_CHECKING:
    from slurm_io.filesystems.below import Below
    from slurm_io.filesystems.block_devices import BlockDevices
    from slurm_io.filesystems.expected_arrays import ExpectedArray
    from slurm_io.filesystems.md_arrays import Array
    from slurm_io.filesystems.mounts import MountTable

_LABEL = "check.arrays"
_RESOLVE_SHARE = 0.25  # of the budget: to find out which mounts the paths are on
_MOST_OTHERS = 8


@dataclass(frozen=True)
class Settings:
    """[check.arrays]: its own keys."""

    arrays: tuple[str, ...] = _key(
        (),
        Setting(
            'arrays every node must have, each "/raid level=raid0 members=8"; a mount point or a '
            "name such as md0, the rest optional",
            "only the site knows",
        ),
    )
    serials: tuple[str, ...] = _key(
        (), Setting("serial numbers of drives that must be there", "names change at boot")
    )


class _Node(NamedTuple):
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


@CHECKS.register("arrays")
@check(kind="node", scope="node", identity="root", policy="warn")
def arrays(context: CheckContext) -> list[CheckResult]:
    """One result for each array that matters, and one for each thing in trouble below it."""
    from pathlib import Path

    from slurm_io.filesystems.block_devices import BlockDevices
    from slurm_io.filesystems.md_arrays import read_arrays
    from slurm_io.filesystems.mounts import read_mounts

    settings = read_section(Settings, context.own, "configuration", _LABEL)
    expected = _expected(settings.arrays)
    devices = BlockDevices(Path(context.sys_root))
    found = read_arrays(context.proc_root, context.sys_root, devices)
    if found is None:
        text = f"{context.proc_root}/mdstat cannot be read: arrays were not looked at"
        return [CheckResult("arrays", "UNKNOWN", "node", text)]
    table = read_mounts(Path(context.proc_root))
    node = _Node(context.sys_root, devices, found, _below_needed(context, table, devices))
    results = _expectations(node, expected, table)
    results += _wanted_arrays(node, expected, table)
    results += _volumes(node) + _disks(node) + _serials(node, settings.serials)
    results += _other_arrays(node, expected, table)
    return results or _nothing_wrong(node)


def _expected(lines: tuple[str, ...]) -> tuple[ExpectedArray, ...]:
    if not lines:
        return ()
    from slurm_io.filesystems.expected_arrays import parse_all_expected

    return parse_all_expected(lines, f"configuration: {_LABEL}.arrays")


def _below_needed(
    context: CheckContext, table: MountTable, devices: BlockDevices
) -> dict[str, Below]:
    from slurm_io.filesystems.below import below
    from slurm_io.prolog.needed_paths import needed_paths, resolve

    needed = needed_paths(context)
    real = resolve((each.path for each in needed), context.budget_s * _RESOLVE_SHARE)
    found: dict[str, Below] = {}
    for each in needed:
        mount = table.of_path(real[each.path])
        if mount is not None:
            found[each.label] = below(mount, table, context.sys_root, devices)
    return found


def _array_of(expected: ExpectedArray, node: _Node, table: MountTable) -> Array | None:
    """The array an admin's line speaks of: by its name, or the topmost below the mount point."""
    from slurm_io.filesystems.below import below

    names: tuple[str, ...] = (expected.name,)
    if expected.mount_point:
        mount = table.at(expected.mount_point)
        names = below(mount, table, node.sys_root, node.devices).all if mount else ()
    by_name = {array.name: array for array in node.arrays}
    return next((by_name[name] for name in names if name in by_name), None)


def _expectations(
    node: _Node, expected: tuple[ExpectedArray, ...], table: MountTable
) -> list[CheckResult]:
    """FAIL for each array that is not there or not what the admin said."""
    results = []
    for each in expected:
        array = _array_of(each, node, table)
        wrong = _not_as_expected(each, array)
        if wrong:
            text = f"{_show(each.subject)} {wrong}"
            results.append(CheckResult("arrays", "FAIL", "node", text, _show(each.subject)))
    return results


def _not_as_expected(expected: ExpectedArray, array: Array | None) -> str:
    if array is None:
        return "has no md array; see mdadm --assemble --scan"
    if expected.level and array.level not in (expected.level, None):
        return f"is {array.level} ({array.name}), not {expected.level}"
    count = array.wanted or len(array.data_members())
    if expected.members is not None and count != expected.members:
        return f"has {count} members ({array.name}), not {expected.members}"
    return ""


def _wanted_arrays(
    node: _Node, expected: tuple[ExpectedArray, ...], table: MountTable
) -> list[CheckResult]:
    """One result for each array the job stands on or the admin named."""
    labels = {name: list(found) for name, found in node.layers().items()}
    for each in expected:
        array = _array_of(each, node, table)
        if array is not None:
            labels.setdefault(array.name, []).append(each.subject)
    return [
        _array_result(array, labels[array.name])
        for array in node.arrays
        if array.name in labels and not array.container
    ]


def _array_result(array: Array, labels: list[str]) -> CheckResult:
    from slurm_io.filesystems.array_health import problems_of

    problems = problems_of(array)
    holds = f" (holds: {', '.join(dict.fromkeys(map(_show, labels)))})"
    if problems:
        words = "; ".join(problem.text for problem in problems)
        text = f"RAID {array.name} ({array.level or 'level unknown'}) {words}{holds}"
        answer = problems[0].answer
    else:
        count = array.wanted or len(array.data_members())
        text, answer = f"RAID {array.name} ({array.level}): {count} members in place", "OK"
    commands = (f"mdadm --detail /dev/{array.name}",) if problems else ()
    return CheckResult(
        "arrays", answer, "node", text, array.name, _array_facts(array), commands=commands
    )


def _array_facts(array: Array) -> dict[str, Any]:
    return {
        "level": array.level,
        "members": [member.name for member in array.members],
        "serials": [member.serial for member in array.members if member.serial],
        "failed": [member.name for member in array.failed_members()],
        "gone": [member.name for member in array.gone_members()],
        "wanted": array.wanted,
        "working": array.working,
        "action": array.action or None,
        "done_share": array.done_share,
    }


def _other_arrays(
    node: _Node, expected: tuple[ExpectedArray, ...], table: MountTable
) -> list[CheckResult]:
    """Arrays that neither job nor admin names: trouble there is at most DEGRADED."""
    from slurm_io.filesystems.array_health import problems_of

    named = set(node.layers())
    for each in expected:
        array = _array_of(each, node, table)
        named |= {array.name} if array is not None else set()
    results = []
    for array in node.arrays:
        problems = [each for each in problems_of(array) if each.answer == "FAIL"]
        if array.name not in named and problems:
            text = f"RAID {array.name} {problems[0].text} (holds nothing of this job)"
            results.append(
                CheckResult("arrays", "DEGRADED", "node", text, array.name, _array_facts(array))
            )
    return results[:_MOST_OTHERS]


def _volumes(node: _Node) -> list[CheckResult]:
    """Device-mapper volumes below the job that are suspended or lost a device."""
    results = []
    for name, labels in node.layers().items():
        device = node.devices.get(name)
        if device is None or device.role != "dm":
            continue
        trouble = _volume_trouble(node, name, device.slaves)
        if trouble is not None:
            answer, words = trouble
            shown = _show(device.dm_name or name)
            text = f"volume {shown} {words} (holds: {', '.join(map(_show, labels))})"
            facts = {"device": name, "members": list(device.slaves)}
            results.append(CheckResult("arrays", answer, "node", text, name, facts))
    return results


def _volume_trouble(
    node: _Node, name: str, members: tuple[str, ...]
) -> tuple[CheckAnswer, str] | None:
    from slurm_io.filesystems.disk_state import disk_life, dm_is_suspended
    from slurm_io.host.read import read_optional_line

    if dm_is_suspended(node.sys_root, name):
        return "FAIL", "is suspended: reads and writes wait; see dmsetup info"
    gone = [each for each in members if disk_life(node.sys_root, each)[1] == "not there"]
    if not gone:
        return None
    uuid = read_optional_line(f"{node.sys_root}/class/block/{name}/dm/uuid") or ""
    paths_left = uuid.startswith("mpath-") and len(gone) < len(members)
    words = f"lacks {', '.join(gone)}; see lvs -o +devices or multipath -ll"
    return ("DEGRADED" if paths_left else "FAIL"), words


def _disks(node: _Node) -> list[CheckResult]:
    """Disks below the job that the kernel does not call live. What a RAID with redundancy can do
    without, or reports itself, is at most DEGRADED."""
    from slurm_io.filesystems.disk_state import disk_life
    from slurm_io.filesystems.md_arrays import disk_serial

    spared = _disks_of_redundant_arrays(node)
    disks = {disk: label for label, each in node.below.items() for disk in each.disks}
    results = []
    for disk, label in disks.items():
        life, word = disk_life(node.sys_root, disk)
        if life in ("alive", "unknown"):
            continue
        answer: CheckAnswer = "FAIL" if life == "dead" and disk not in spared else "DEGRADED"
        serial = disk_serial(node.sys_root, disk)
        named = f"{disk} (serial {_show(serial)})" if serial else disk
        text = f"disk {named} is {word}; reseat or replace it (holds: {_show(label)})"
        facts = {"device": disk, "state": word, "serial": serial}
        results.append(CheckResult("arrays", answer, "node", text, disk, facts))
    return results


def _disks_of_redundant_arrays(node: _Node) -> set[str]:
    found: set[str] = set()
    for array in node.arrays:
        if array.has_redundancy():
            for member in array.members:
                found |= {member.name, *node.devices.leaf_disks(member.name)}
    return found


def _serials(node: _Node, wanted: tuple[str, ...]) -> list[CheckResult]:
    """FAIL when a listed drive is not in the machine."""
    from slurm_io.filesystems.disk_state import whole_disks
    from slurm_io.filesystems.md_arrays import disk_serial

    if not wanted:
        return []
    there = {disk: disk_serial(node.sys_root, disk) for disk in whole_disks(node.sys_root)}
    missing = sorted(set(wanted) - set(there.values()))
    if missing:
        text = f"drives with these serials are not there: {', '.join(map(_show, missing[:8]))}"
        answer: CheckAnswer = "FAIL"
    else:
        text, answer = f"all {len(set(wanted))} listed drives are there", "OK"
    facts = {"missing": missing, "there": {disk: it for disk, it in there.items() if it}}
    return [CheckResult("arrays", answer, "node", text, "serials", facts)]


def _nothing_wrong(node: _Node) -> list[CheckResult]:
    """OK for disks without RAID; nothing at all where no path lies on a disk of this node."""
    disks = sorted({disk for each in node.below.values() for disk in each.disks})
    if not disks:
        return []
    text = f"disks below {', '.join(map(_show, node.below))}: {', '.join(disks[:8])} in place"
    return [CheckResult("arrays", "OK", "node", text, None, {"disks": disks})]


def _show(text: str) -> str:
    """Text from the system as one line that is safe to print."""
    return text if text.isprintable() and text.isascii() else ascii(text)
