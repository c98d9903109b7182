"""Mounts a job stands on: there, the right ones, writable, and answering.

What it checks: the mounts the admin requires, and those that hold the job's dataset and the spool:
present, of the wanted type and source, with the wanted options, not read-only where it must be
written, and answering: its root is looked at and listed by a child that may hang.

Why it matters: a mount that is in /proc/mounts may be dead (a lost server, a file system that shut
itself down), and a program that touches it sleeps where no signal reaches it. A missing mount is a
plain folder: jobs read nothing there, or fill the root disk.

Needs: /proc/self/mountinfo. No tool is run, and no other mount is touched.

Answers: OK. DEGRADED: another name of the server or device than wanted, a wanted option missing, a
file system that went read-only by itself where reading is enough, or one that lists its root but
does not tell its size. FAIL: missing, another type or export, covered by a user's mount, read-only
where it must be written, an error instead of an answer, or no answer in time. The fault is the
node's for missing, wrong and local ones; shared for a network file system that does not answer.
UNKNOWN: mountinfo cannot be read, or the node is too busy for its own children. What a user chose
is not looked at here (a path of his, what lies behind his links, his FUSE mounts): the check
dataset does that, as the user.

What to do: mount it (``systemctl restart remote-fs.target``, ``mount MOUNTPOINT``); for one that
hangs ask the storage's admins, then ``umount -l MOUNTPOINT``; for one that went read-only see the
check kernel_log, unmount and repair it.

Known false alarms: a server known under two names reads DEGRADED: write the name mountinfo shows.
A network file system slower than answer_s at the first touch after a long rest: raise answer_s.

Settings: required, answer_s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.mounts import MountTable
    from slurm_io.filesystems.required_mounts import RequiredMount
    from slurm_io.host.probe import Answer
    from slurm_io.prolog.mount_judge import WantedMount

_LABEL = "check.mounts"
_RESOLVE_SHARE = 0.25  # of the answer's time: to find out which mounts the paths are on
_MARGIN_S = 0.15  # left to gather answers, kill children and report
_CONTROL_S = 0.25
_LEAST_S = 0.05


@dataclass(frozen=True)
class Settings:
    """[check.mounts]: its own keys."""

    required: tuple[str, ...] = _key(
        (),
        Setting(
            'mounts every node must have, each "/scratch fstype=lustre '
            'source=10.0.0.1@o2ib:/scratch options=rw,flock"; all but the mount point optional',
            "only the site knows",
        ),
    )
    answer_s: float = _key(
        1.0, Setting("a mount that does not answer by then hangs", "metadata take ms", "s", 0.1, 30)
    )


@CHECKS.register("mounts")
@check(
    kind="node",
    scope="node",
    identity="root",
    policy="warn",
    needs=(
        "slurm_io.filesystems.mounts",
        "slurm_io.filesystems.own_ground",
        "slurm_io.filesystems.required_mounts",
        "slurm_io.prolog.mount_judge",
        "slurm_io.prolog.needed_paths",
    ),
    needs_for_dataset=("slurm_io.staging.datasets",),
)
def mounts(context: CheckContext) -> list[CheckResult]:
    """One result for each mount that matters."""
    import time

    from slurm_io.filesystems.mounts import read_mounts
    from slurm_io.filesystems.required_mounts import parse_all_required
    from slurm_io.prolog.mount_judge import judge, judge_covered
    from slurm_io.prolog.needed_paths import needed_paths, resolve

    began_s = time.monotonic()
    settings = read_section(Settings, context.own, "configuration", _LABEL)
    required = parse_all_required(settings.required, f"configuration: {_LABEL}.required")
    answer_s = min(settings.answer_s, max(_LEAST_S, context.budget_s * 0.7 - _MARGIN_S))
    needed = needed_paths(context)
    # Walking the paths may mount something (autofs), so the table is read afterwards.
    paths = (each.path for each in needed)
    real = resolve(paths, answer_s * _RESOLVE_SHARE, context.uid, context.proc_root)
    table = read_mounts(context.proc_root)
    if not len(table):
        return [_unreadable(context)]
    wanted = _wanted(required, [(each, real[each.path]) for each in needed], table)
    left_s = context.budget_s - _MARGIN_S - (time.monotonic() - began_s)
    points = [each.mount_point for each in wanted if not _is_users(each, table)]
    answers = _ask(points, max(_LEAST_S, min(answer_s, left_s)))
    if any(_may_be_automount(each, table) for each in wanted):
        table = read_mounts(context.proc_root)
    busy = _node_is_busy([first for first, _ in answers.values()])
    return [
        judge(each, table, answers[each.mount_point], busy)
        if each.mount_point in answers
        else judge_covered(each, table)
        for each in wanted
    ]


def _wanted(
    required: tuple[RequiredMount, ...], needed: list[tuple[Any, str]], table: MountTable
) -> list[WantedMount]:
    """Required mounts in the admin's order, then the others that the job's paths are on."""
    from slurm_io.prolog.mount_judge import WantedMount

    found: dict[str, WantedMount] = {
        each.mount_point: WantedMount(each.mount_point, ("required",), each.writable, each)
        for each in required
    }
    for path, real in needed:
        mount = table.of_path(real)
        # What autofs has not mounted yet is asked by its own path: that mounts it.
        is_mounted = mount is not None and mount.fstype != "autofs"
        point = mount.mount_point if is_mounted and mount is not None else real
        before = found.get(point, WantedMount(point, (), False))
        found[point] = WantedMount(
            point,
            (*before.labels, path.label),
            before.writable or path.writable,
            before.required,
        )
    return [each for each in found.values() if each.required or not _is_users(each, table)]


def _is_users(wanted: WantedMount, table: MountTable) -> bool:
    """Whether a user's own file system is mounted there, which root does not touch."""
    mount = table.of_path(wanted.mount_point)
    return mount is not None and mount.made_by_user


def _ask(points: list[str], timeout_s: float) -> dict[str, tuple[Answer, Answer | None]]:
    """Each mount's answer: one that hangs hides no other."""
    from slurm_io.host.probe import Answer
    from slurm_io.host.turns import take_turns

    silent = Answer("error", reason="the child gave no answer")
    turns = [((_look, (point,)), (_look_at_space, (point,))) for point in points]
    answers = take_turns(turns, timeout_s)
    return {
        point: ((found[0] if found else None) or silent, found[1] if len(found) > 1 else None)
        for point, found in zip(points, answers, strict=True)
    }


def _look(point: str) -> dict[str, Any]:
    """What the root of a mount answers. Runs in a child; opening it triggers an automount."""
    import os
    import time

    began_s = time.monotonic()
    descriptor = os.open(point, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            is_empty = next(entries, None) is None
    except PermissionError:
        is_empty = False  # root is squashed on most network file systems: it answered
    return {"empty": is_empty, "answered_s": time.monotonic() - began_s}


def _look_at_space(point: str) -> bool:
    """Whether the file system tells its size: on Lustre every storage target must answer."""
    import os

    return os.statvfs(point).f_blocks > 0


def _node_is_busy(answers: list[Answer]) -> bool:
    """Whether silence may be the node's own: no child answered, and a trivial one does not."""
    import os

    from slurm_io.host.probe import probe

    silent = [answer for answer in answers if answer.state == "timed out"]
    if not silent or len(silent) < len(answers):
        return False
    if any(answer.abandoned_pid is not None for answer in silent):
        return False  # it sleeps in the kernel: that is no lack of processors
    return probe(os.getpid, timeout_s=_CONTROL_S).state != "ok"


def _may_be_automount(wanted: WantedMount, table: MountTable) -> bool:
    mount = table.of_path(wanted.mount_point)
    return mount is not None and mount.fstype == "autofs"


def _unreadable(context: CheckContext) -> CheckResult:
    text = f"mounts could not be looked at: {context.proc_root}/self/mountinfo cannot be read"
    return CheckResult("mounts", "UNKNOWN", "node", text)
