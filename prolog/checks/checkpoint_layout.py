"""Does the checkpoint folder's default striping fit the ranks that will write there? (Lustre only)

*What it checks*: the default layout of the folder named by ``ckpt=`` (of its nearest existing
parent, from which it will be inherited), against the number of ranks and nodes.

*Why it matters*: with one file per rank, a template of many stripes makes ranks x stripes objects:
every save then waits for the slowest of all OSTs. One file shared by all nodes on one OST is as
slow as that OST. The GPUs stand still for either.

*Needs*: search permission on the path, as the job's user.

*Answers*: OK; DEGRADED with the `lfs setstripe` command that would mend it (never run by us);
UNKNOWN when the template cannot be read or "all OSTs" are asked for and their number is not known.
Never FAIL. Nothing when no ``ckpt=`` was given or it is not on Lustre.

*What to do*: run the command on the folder before the job; files that exist keep their layout.

*Known false alarms*: while ``habit`` is ``unknown``, a template is only wrong when it is wrong both
for a file per rank and for one shared file; a site where all jobs do the same should say so.

*Settings*: ``habit``, ``shard_bytes``, ``most_osts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.layout.checkpoints import Writers
    from slurm_io.filesystems.layout.model import DirectoryDefault
    from slurm_io.filesystems.mounts import Mount


@dataclass(frozen=True)
class Settings:
    """[check.checkpoint_layout]"""

    habit: str = _key(
        "unknown",
        Setting(
            "how jobs save",
            "both are common",
            choices=("unknown", "file-per-rank", "shared-file"),
        ),
    )
    shard_bytes: int = _key(
        0, Setting("what one rank writes; 0 = not known", "differs by job", "B", 0, 1 << 50)
    )
    most_osts: int = _key(
        72, Setting("never advise more OSTs", "NERSC; OLCF goes to 450", "count", 1, 450)
    )


def _names_ckpt(context: CheckContext) -> bool:
    return context.spec.ckpt is not None


@CHECKS.register("checkpoint_layout")
@check(
    kind="job",
    scope="shared",
    identity="user",
    policy="warn",
    applies=_names_ckpt,
    needs=("slurm_io.filesystems.mounts",),
)
def checkpoint_layout(context: CheckContext) -> list[CheckResult]:
    """Judge the default layout of the folder the job saves to."""
    from slurm_io.filesystems.mounts import read_mounts

    if context.spec.ckpt is None:
        return []
    folder = _existing(context.spec.ckpt)
    mount = read_mounts(context.proc_root).of_path(folder)
    if mount is None or mount.kind != "lustre":
        return []
    default, reason = _default(folder, mount, context.budget_s * 0.5)
    if default is None:
        return [_result("UNKNOWN", folder, f"its default layout cannot be read ({reason})")]
    return [_judge(context, folder, mount, default)]


def _existing(path: str) -> str:
    """The folder itself, or the nearest parent that exists: what it holds is inherited."""
    import os

    path = os.path.realpath(path)
    while path != "/" and not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _default(folder: str, mount: Mount, timeout_s: float) -> tuple[DirectoryDefault | None, str]:
    """The folder's template, else the file system's root's, else the built-in one."""
    from slurm_io.filesystems.layout.model import DirectoryDefault
    from slurm_io.filesystems.layout.reader import layout_of

    for place in (folder, mount.mount_point):
        reading = layout_of(place, is_directory=True, timeout_s=timeout_s)
        if reading.layout is not None:
            default = DirectoryDefault(reading.layout)
            if not default.is_file_system_default:
                return default, ""
        elif reading.state != "none" and place == folder:
            return None, reading.reason
    return DirectoryDefault(None), ""


def _judge(
    context: CheckContext, folder: str, mount: Mount, default: DirectoryDefault
) -> CheckResult:
    from slurm_io.config import read_section
    from slurm_io.filesystems.layout.checkpoints import default_width, judge_checkpoints
    from slurm_io.filesystems.layout.describe import FILE_SYSTEM_DEFAULT, describe
    from slurm_io.filesystems.layout.osts import osts_of
    from slurm_io.filesystems.layout.policy import Thresholds

    settings = read_section(Settings, context.own, "the configuration", "check.checkpoint_layout")
    osts = osts_of(mount.mount_point, mount.source, context.budget_s * 0.2, context.sys_root)
    active = osts.count if osts is not None else None
    writers = _writers(context, settings)
    limits = Thresholds(most_osts=settings.most_osts)
    facts: dict[str, Any] = {
        "default": FILE_SYSTEM_DEFAULT if default.layout is None else describe(default.layout),
        "ranks": writers.ranks,
        "nodes": writers.nodes,
        "active_osts": active,
    }
    if default_width(default, active) is None:
        text = "new files take all OSTs, and how many there are is not known"
        return _result("UNKNOWN", folder, text, facts)
    finding = judge_checkpoints(folder, default, writers, active, limits)
    if finding is None:
        return _result("OK", folder, f"new files get {facts['default']}: fits", facts)
    return CheckResult(
        "checkpoint_layout",
        "DEGRADED",
        "job",
        finding.text,
        folder,
        {**facts, **finding.facts},
        commands=finding.commands,
    )


def _writers(context: CheckContext, settings: Settings) -> Writers:
    from slurm_io.filesystems.layout.checkpoints import Habit, Writers

    nodes = len(context.nodes)
    ranks = context.gpus_on_node * nodes if context.gpus_on_node and nodes else None
    habits: dict[str, Habit] = {
        "file-per-rank": "file-per-rank",
        "shared-file": "shared-file",
    }
    return Writers(
        nodes=max(nodes, 1),
        ranks=ranks,
        shard_bytes=settings.shard_bytes or None,
        habit=habits.get(settings.habit, "unknown"),
    )


def _result(
    answer: str, folder: str, reason: str, facts: dict[str, Any] | None = None
) -> CheckResult:
    from slurm_io.filesystems.layout.commands import printable

    text = f"{printable(folder)}: {reason}"
    known = "OK" if answer == "OK" else "UNKNOWN"
    return CheckResult("checkpoint_layout", known, "job", text, folder, facts or {})  # type: ignore[arg-type]
