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

from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check, shown
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.below import Below
    from slurm_io.filesystems.block_devices import BlockDevices
    from slurm_io.filesystems.expected_arrays import ExpectedArray
    from slurm_io.filesystems.md_arrays import Array
    from slurm_io.filesystems.mounts import MountTable
    from slurm_io.prolog.disk_judge import NodeStorage

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


@CHECKS.register("arrays")
@check(
    kind="node",
    scope="node",
    identity="root",
    policy="warn",
    needs=(
        "slurm_io.filesystems.below",
        "slurm_io.filesystems.disk_state",
        "slurm_io.filesystems.md_arrays",
        "slurm_io.filesystems.mounts",
        "slurm_io.filesystems.own_ground",
        "slurm_io.prolog.disk_judge",
        "slurm_io.prolog.needed_paths",
    ),
    needs_for_dataset=("slurm_io.staging.datasets",),
)
def arrays(context: CheckContext) -> list[CheckResult]:
    """One result for each array that matters, and one for each thing in trouble below it."""
    from slurm_io.filesystems.block_devices import BlockDevices
    from slurm_io.filesystems.md_arrays import read_arrays
    from slurm_io.filesystems.mounts import read_mounts
    from slurm_io.prolog.disk_judge import NodeStorage, disks, nothing_wrong, serials, volumes

    settings = read_section(Settings, context.own, "configuration", _LABEL)
    expected = _expected(settings.arrays)
    devices = BlockDevices(context.sys_root)
    found = read_arrays(context.proc_root, context.sys_root, devices)
    if found is None:
        text = f"{context.proc_root}/mdstat cannot be read: arrays were not looked at"
        return [CheckResult("arrays", "UNKNOWN", "node", text)]
    table = read_mounts(context.proc_root)
    node = NodeStorage(context.sys_root, devices, found, _below_needed(context, table, devices))
    results = _expectations(node, expected, table)
    results += _wanted_arrays(node, expected, table)
    results += volumes(node) + disks(node) + serials(node, settings.serials)
    results += _other_arrays(node, expected, table)
    return results or nothing_wrong(node)


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
    paths = (each.path for each in needed)
    limit_s = context.budget_s * _RESOLVE_SHARE
    real = resolve(paths, limit_s, context.uid, context.proc_root)
    found: dict[str, Below] = {}
    for each in needed:
        mount = table.of_path(real[each.path])
        if mount is not None:
            found[each.label] = below(mount, table, context.sys_root, devices)
    return found


def _array_of(expected: ExpectedArray, node: NodeStorage, table: MountTable) -> Array | None:
    """The array an admin's line speaks of: by its name, or the topmost below the mount point."""
    from slurm_io.filesystems.below import below

    names: tuple[str, ...] = (expected.name,)
    if expected.mount_point:
        mount = table.at(expected.mount_point)
        names = below(mount, table, node.sys_root, node.devices).all if mount else ()
    by_name = {array.name: array for array in node.arrays}
    return next((by_name[name] for name in names if name in by_name), None)


def _expectations(
    node: NodeStorage, expected: tuple[ExpectedArray, ...], table: MountTable
) -> list[CheckResult]:
    """FAIL for each array that is not there or not what the admin said."""
    results = []
    for each in expected:
        array = _array_of(each, node, table)
        wrong = _not_as_expected(each, array)
        if wrong:
            text = f"{shown(each.subject)} {wrong}"
            results.append(CheckResult("arrays", "FAIL", "node", text, shown(each.subject)))
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
    node: NodeStorage, expected: tuple[ExpectedArray, ...], table: MountTable
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
    holds = f" (holds: {', '.join(dict.fromkeys(map(shown, labels)))})"
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
    node: NodeStorage, expected: tuple[ExpectedArray, ...], table: MountTable
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
