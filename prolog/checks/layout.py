"""Does the striping of the job's dataset fit the nodes that will read it? (Lustre only)

*What it checks*: the dataset's folder, when it lies on Lustre: the layouts of its largest files and
of a sample of its small ones, read from the ``lustre.lov`` attribute (no process, no OST asked, no
released file restored).

*Why it matters*: a large file on one or two OSTs that many nodes read at once is as fast as these
OSTs; GPUs wait for it in every epoch. Many small files with several stripes each make every open
and stat ask all of their OSTs.

*Needs*: read permission on the files, as the job's user.

*Answers*: OK; DEGRADED with the `lfs migrate` and `lfs setstripe` commands that would mend it
(never run by us); UNKNOWN when no layout could be read, or when it would matter how many nodes read
and that is not known. Never FAIL: a badly striped dataset is slow, not wrong. Nothing when the
dataset is not on Lustre or its entry says ``layout = "off"``.

*What to do*: have the dataset's owner run the commands once; `slurm-io stripe` shows the whole
tree.

*Known false alarms*: a file of which each node reads its own small part only (set ``readers`` in
the dataset's entry); files that are copied to local disks first.

*Settings*: ``files``, ``large_bytes``, ``many_readers``, ``most_osts``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_io.config import Setting, _key
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.filesystems.layout.largest import Sample
    from slurm_io.filesystems.layout.model import Layout
    from slurm_io.filesystems.layout.policy import Finding, Thresholds
    from slurm_io.filesystems.mounts import Mount

_SMALL_SAMPLE = 32
_MOST_LISTED = 20
_MOST_COMMANDS = 5
_MANY = 100_000


@dataclass(frozen=True)
class Settings:
    """[check.layout]"""

    files: int = _key(
        64, Setting("largest files to look at", "they carry the bytes", "count", 1, 10_000)
    )
    large_bytes: int = _key(
        10 << 30, Setting("a file of this size is large", "site guides", "B", 1 << 20, 1 << 50)
    )
    many_readers: int = _key(
        4, Setting("nodes reading at once that make it matter", "site guides", "count", 1, 100_000)
    )
    most_osts: int = _key(
        72, Setting("never advise more OSTs", "NERSC; OLCF goes to 450", "count", 1, 450)
    )


def _names_dataset(context: CheckContext) -> bool:
    return context.spec.dataset is not None


@CHECKS.register("layout")
@check(
    kind="job",
    scope="shared",
    identity="user",
    policy="warn",
    applies=_names_dataset,
    needs=(
        "slurm_io.filesystems.mounts",
        "slurm_io.staging.datasets",
    ),
)
def layout(context: CheckContext) -> list[CheckResult]:
    """Judge the largest files of the dataset within the budget."""
    import os
    import time

    began_s = time.monotonic()
    found = _place(context)
    if found is None:
        return []
    from slurm_io.filesystems.layout.largest import Sample, sample_tree

    path, mount, readers = found
    settings = _settings(context)
    limits = _thresholds(settings)
    sample = Sample(settings.files, _SMALL_SAMPLE, limits.small_bytes)
    try:
        sample_tree(path, began_s + context.budget_s * 0.4, sample)
    except OSError as error:
        return [_unknown(path, f"cannot be opened ({os.strerror(error.errno or 0)})")]
    active = _active_osts(context, mount)
    looked = _look(path, sample, began_s + context.budget_s * 0.85)
    return [_judge(path, sample, looked, readers, active, limits)]


def _place(context: CheckContext) -> tuple[str, Mount, int | None] | None:
    """The dataset's folder on Lustre, its mount, how many nodes read it; None: not our matter."""
    import os

    from slurm_io.errors import SpecError
    from slurm_io.filesystems.mounts import read_mounts
    from slurm_io.staging.datasets import Names, place_of

    try:
        place = place_of(
            context.config, context.spec, Names(context.node, context.user, context.job)
        )
    except SpecError:
        return None  # the dataset's own check says what is wrong with the request
    if place is None or place.settings.layout == "off":
        return None
    path = os.path.realpath(place.path)
    mount = read_mounts(context.proc_root).of_path(path)
    if mount is None or mount.kind != "lustre":
        return None
    return path, mount, place.settings.readers or len(context.nodes) or None


def _settings(context: CheckContext) -> Settings:
    from slurm_io.config import read_section

    return read_section(Settings, context.own, "the configuration", "check.layout")


def _thresholds(settings: Settings) -> Thresholds:
    from slurm_io.filesystems.layout.policy import Thresholds

    return Thresholds(
        large_bytes=settings.large_bytes,
        many_readers=settings.many_readers,
        most_osts=settings.most_osts,
    )


def _active_osts(context: CheckContext, mount: Mount) -> int | None:
    from slurm_io.filesystems.layout.osts import osts_of

    found = osts_of(mount.mount_point, mount.source, context.budget_s * 0.1, context.sys_root)
    return found.count if found is not None else None


class _Looked:
    """Layouts read: of large files by (size, path), of small ones how many have several stripes."""

    def __init__(self) -> None:
        self.large: list[tuple[int, str, Layout]] = []
        self.small = 0
        self.small_wide = 0
        self.failed: list[str] = []
        self.late = 0


def _look(root: str, sample: Sample, deadline_s: float) -> _Looked:
    """Read the layouts of the sampled files, largest first, until the deadline."""
    import os
    import time

    from slurm_io.filesystems.layout.model import data_components
    from slurm_io.filesystems.layout.reader import layout_of

    looked = _Looked()
    for size_bytes, name in (*sorted(sample.large, reverse=True), *sample.small):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            looked.late += 1
            continue
        path = os.path.join(root, name) if name else root
        reading = layout_of(path, timeout_s=left_s)
        if reading.layout is None:
            looked.failed.append(reading.reason)
        elif size_bytes >= sample.small_below_bytes:
            looked.large.append((size_bytes, path, reading.layout))
        else:
            looked.small += 1
            parts = data_components(reading.layout, size_bytes)
            looked.small_wide += sum(len(part.objects) for part in parts) > 1
    return looked


def _judge(
    path: str,
    sample: Sample,
    looked: _Looked,
    readers: int | None,
    active_osts: int | None,
    limits: Thresholds,
) -> CheckResult:
    from slurm_io.filesystems.layout.commands import printable

    if not looked.large and not looked.small:
        if sample.files == 0:
            return _unknown(path, "holds no file that could be seen")
        reason = max(set(looked.failed), key=looked.failed.count, default="out of time")
        return _unknown(path, f"no layout could be read ({reason})")
    findings = _large(looked, readers or _MANY, active_osts, limits)
    if findings and readers is None:
        return _unknown(
            path,
            f"{len(findings)} large files lie on few OSTs; how many nodes read them is not known",
        )
    findings += _small(path, sample, looked, limits)
    facts = {
        "files_seen": sample.files,
        "layouts_read": len(looked.large) + looked.small,
        "readers": readers,
        "active_osts": active_osts,
        "findings": [finding.code for finding in findings],
        "largest": _largest(looked),
        "spread": _spread(looked),
    }
    left_out = _left_out(sample, looked)
    if not findings:
        text = f"{printable(path)}: {len(looked.large)} largest files are striped as they should be"
        return CheckResult("layout", "OK", "job", text, path, facts, left_out)
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    commands = [command for finding in findings for command in finding.commands]
    return CheckResult(
        "layout",
        "DEGRADED",
        "job",
        findings[0].text + more,
        path,
        facts,
        left_out,
        tuple(commands[:_MOST_COMMANDS]),
    )


def _largest(looked: _Looked) -> list[dict[str, str | int]]:
    """The largest files with the number of OSTs their bytes lie on, 0 for the MDT."""
    from slurm_io.filesystems.layout.commands import printable
    from slurm_io.filesystems.layout.model import effective_width

    return [
        {
            "path": printable(path),
            "size_bytes": size_bytes,
            "osts": effective_width(found, size_bytes),
        }
        for size_bytes, path, found in looked.large[:_MOST_LISTED]
        if found.incomplete is None
    ]


def _spread(looked: _Looked) -> dict[str, float | int | None]:
    """How evenly the bytes of the files looked at lie on the OSTs that hold any."""
    from slurm_io.filesystems.layout.model import ost_bytes

    held: dict[int, int] = {}
    for size_bytes, _, found in looked.large:
        for ost, number in ost_bytes(found, size_bytes).items():
            held[ost] = held.get(ost, 0) + number
    fullest = max(held, key=lambda ost: held[ost], default=None)
    total = sum(held.values())
    over_mean = None if fullest is None or not total else held[fullest] * len(held) / total
    return {
        "files": len(looked.large),
        "osts": len(held),
        "fullest": fullest,
        "over_mean": None if over_mean is None else round(over_mean, 3),
    }


def _large(
    looked: _Looked, readers: int, active_osts: int | None, limits: Thresholds
) -> list[Finding]:
    """Released files are the residency check's matter."""
    from slurm_io.filesystems.layout.policy import judge_file

    return [
        finding
        for size_bytes, path, found in looked.large
        for finding in judge_file(path, size_bytes, found, readers, active_osts, limits)
        if finding.code != "released"
    ]


def _small(path: str, sample: Sample, looked: _Looked, limits: Thresholds) -> list[Finding]:
    """What the sample of small files says about all of them."""
    from slurm_io.filesystems.layout.policy import judge_small_files

    if looked.small < min(_SMALL_SAMPLE, sample.small_files) or not looked.small:
        return []
    estimate = sample.small_files * looked.small_wide // looked.small
    finding = judge_small_files(path, estimate, limits)
    return [finding] if finding is not None else []


def _left_out(sample: Sample, looked: _Looked) -> tuple[str, ...]:
    found = []
    unlooked = sample.files - len(looked.large) - looked.small
    if unlooked > 0:
        found.append(f"layouts of {unlooked} of {sample.files} files (only the largest are read)")
    if sample.cut is not None:
        found.append(sample.cut)
    if sample.unreadable:
        found.append(f"{sample.unreadable} folders that could not be read")
    if looked.failed:
        found.append(f"{len(looked.failed)} files whose layout could not be read")
    if looked.late:
        found.append(f"{looked.late} files for want of time")
    return tuple(found)


def _unknown(path: str, reason: str) -> CheckResult:
    from slurm_io.filesystems.layout.commands import printable

    return CheckResult("layout", "UNKNOWN", "job", f"{printable(path)}: {reason}", path)
