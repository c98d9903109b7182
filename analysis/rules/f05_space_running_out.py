"""F05: no room for the next checkpoint.

What it flags
-------------
A save failed because the file system was full or a quota was used up, or the next saves will: what
is left holds fewer than two more checkpoints, or is gone before two more are due.

Why it matters
--------------
A job that cannot save loses everything since its last checkpoint, on all its GPUs, and often finds
out hours later.

Evidence
--------
The error number of the exception a save ended in (hook; torch's own writer tells none, then the
finding is not proven), and the space that an ordinary user may
still write on that mount at that moment (statvfs every 30 s). The forecast is a straight line
through that space over the whole job, set against the size of one save over all ranks and the time
between saves.

What to do
----------
Delete what is invalid and what is oldest first, and keep at least three checkpoints that can be
read. Then a higher quota, another file system, or fewer saves.

Known false alarms
------------------
A file system 85 % full with a dataset that does not grow is as it should be: how full it is counts
for nothing here. Saves that replace one another need room for one more only. Checkpoints that come
and go are no trend. A tiered file system may report the size of its object store: then it is full
long before this rule sees it. One full OST of a Lustre file system and a quota show in no statvfs;
only the failed save tells. A shared file system may be filled by others, which is no less true.

Thresholds
----------
``thresholds.space_saves`` (2): saves that must still fit, and intervals between saves that must
pass before it is full; 10 % margin on their size, which no key changes.
"""

from __future__ import annotations

import shlex

from slurm_io.analysis import space
from slurm_io.analysis.amounts import length, size
from slurm_io.analysis.asked import asked_of
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, Place, iso, sure
from slurm_io.analysis.space import NO_SPACE, Failure, Space, find_space

_MARGIN = 1.1
_LEAST_ROOM_BYTES = 64 * 2**20  # less than this on the mount of a failed save: that is why
_LEAST_INODES = 100


@RULES.register("f05_space_running_out")
class SpaceRunningOut:
    """A save failed for lack of space, or the next will."""

    code = "F05"
    title = "no room for the next checkpoint"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """Failures first, then forecasts."""
        seen = find_space(picture.tables, picture.timeline)
        failed = [one for one in seen.failures if _for_space(one, seen)]
        told = {one.mount for one in failed}  # what failed there already needs no forecast
        ahead = [place for place in seen.places if place.mount not in told]
        findings = [*([_failed(picture, failed)] if failed else []), *_forecasts(picture, ahead)]
        if findings:
            return Answer("fired", findings=tuple(findings))
        unknown = [one.mount for one in seen.places if one.avail_bytes is None]
        if unknown and len(unknown) == len(seen.places):
            where = ", ".join(sorted(set(unknown)))
            return Answer("not enough evidence", f"table capacity has no rows of {where}")
        if not seen.places and not seen.failures and not picture.timeline.processes:
            return _of_named(picture)
        return Answer("quiet", _why_quiet(seen))


def _of_named(picture: Picture) -> Answer:
    """Nobody saw a save: only whether the folder that the job named for them has any room."""
    folder = asked_of(picture.store).ckpt
    places = [] if folder is None else space.left_at(picture.tables, folder)
    known = [one for one in places if one.avail_bytes is not None]
    if not known:
        return Answer("not enough evidence", "no training batches were recorded (hook)")
    least = min(known, key=lambda one: one.avail_bytes or 0)
    full = (least.avail_bytes or 0) < _LEAST_ROOM_BYTES
    if not full and not _inodes(least):
        return Answer("quiet", f"{size(least.avail_bytes or 0)} are left where checkpoints go")
    when, left = iso(least.last_ts_ns), least.avail_bytes
    text = f"{size(left or 0)} are left on {least.mount}, which the job named for checkpoints"
    finding = Finding(
        rule="F05",
        severity="warn",
        confidence="likely",  # nobody saw a save fail
        title=f"{least.mount}, named for checkpoints, has no room",
        lost_gpu_s=None,
        where=Place(nodes=(least.node,) if least.node else (), mounts=(least.mount,)),
        evidence=(
            Evidence(text, "avail_bytes", left, _LEAST_ROOM_BYTES, when, when),
            *_inodes(least),
        ),
        remedy="make room before the next save: delete invalid and the oldest checkpoints first "
        "and keep three that can be read",
        commands=_commands((least.mount,), {least.mount: least.fstype}),
    )
    return Answer("fired", findings=(finding,))


def _why_quiet(seen: Space) -> str:
    if seen.failures:
        return f"{len(seen.failures)} calls failed, for another reason than space"
    if not seen.places:
        return "no checkpoint was saved"
    least = min((one.avail_bytes for one in seen.places if one.avail_bytes is not None), default=0)
    return f"at least {size(least)} are left where checkpoints go"


def _for_space(failure: Failure, seen: Space) -> bool:
    if failure.errno in NO_SPACE:
        return True
    if failure.errno is not None or failure.kind == "error":
        return False
    if failure.write_failed or failure.avail_bytes is None:
        return failure.write_failed  # a quota shows in no room that is left
    sizes = [one.save_bytes or 0 for one in seen.places if one.mount == failure.mount]
    return failure.avail_bytes < max(_LEAST_ROOM_BYTES, *sizes, 0)


def _failed(picture: Picture, failed: list[Failure]) -> Finding:
    first = failed[0]
    named = {NO_SPACE[one.errno] for one in failed if one.errno in NO_SPACE}
    short = [one for one in failed if one.avail_bytes is not None]
    is_tight = any((one.avail_bytes or 0) < _LEAST_ROOM_BYTES for one in short)
    what = "save" if first.kind != "error" else "read of the loader"
    what += "s" * (len(failed) != 1)
    kinds = f" with {' and '.join(sorted(named))}" if named else ""
    evidence = [
        Evidence(
            f"{len(failed)} {what} failed{kinds}, the first of {first.path or 'an unnamed file'}",
            "failed_saves", len(failed), 1, iso(first.ts_ns), iso(failed[-1].ts_ns),
        )
    ]  # fmt: skip
    if not named and any(one.write_failed for one in failed):
        text = "torch could not write the file and told no error number, as on a full file system"
        evidence.append(Evidence(text, "write_failed"))
    if short:
        least = min(one.avail_bytes or 0 for one in short)
        evidence.append(
            Evidence(f"{size(least)} were left on {short[0].mount} then", "avail_bytes", least)
        )
    mounts = tuple(sorted({one.mount for one in failed if one.mount}))
    return Finding(
        rule="F05",
        severity="bad",
        confidence=sure(bool(named) + is_tight),
        title=f"a save failed{_why(named, is_tight)} on {', '.join(mounts) or 'its file system'}",
        lost_gpu_s=None,
        where=Place(
            nodes=tuple(sorted({one.node for one in failed})),
            mounts=mounts,
            files=tuple(dict.fromkeys(one.path for one in failed if one.path))[:5],
        ),
        evidence=tuple(evidence),
        remedy="make room: delete invalid and the oldest checkpoints first and keep three that can "
        "be read" + ("; the quota is used up, not the file system" if named == {"EDQUOT"} else ""),
        commands=_commands(mounts, _types(picture)),
    )


def _why(named: set[str], is_tight: bool) -> str:
    if named or is_tight:
        return " for lack of space"
    return " to be written, perhaps for lack of space or quota"


def _forecasts(picture: Picture, places: list[space.Place]) -> list[Finding]:
    found = [_forecast(picture, place) for place in places]
    return [one for one in found if one is not None]


def _forecast(picture: Picture, place: space.Place) -> Finding | None:
    saves = picture.thresholds.rules.space.saves
    evidence = [
        *_next_fits(place, saves),
        *_full_before(place, saves),
        *_inodes(place),
    ]
    if not evidence:
        return None
    where = f" on {place.node}" if place.node else ""
    return Finding(
        rule="F05",
        severity="warn",
        confidence="likely",  # a forecast is never proven
        title=f"{place.mount}{where} is too small for the next checkpoints",
        lost_gpu_s=None,
        where=Place(nodes=(place.node,) if place.node else (), mounts=(place.mount,)),
        evidence=tuple(evidence),
        remedy="make room before the next save: delete invalid and the oldest checkpoints first "
        "and keep three that can be read; or save elsewhere, or less often",
        commands=_commands((place.mount,), {place.mount: place.fstype}),
    )


def _next_fits(place: space.Place, saves: float) -> list[Evidence]:
    if place.avail_bytes is None or not place.save_bytes:
        return []
    needed = place.save_bytes * _MARGIN * (1 if place.reuses_paths else saves)
    if place.avail_bytes >= needed:
        return []
    text = (
        f"{size(place.avail_bytes)} are left at the end, one save takes "
        f"{size(place.save_bytes)} (median of {place.saves}, all ranks together)"
    )
    when = iso(place.last_ts_ns)
    return [Evidence(text, "avail_bytes", place.avail_bytes, needed, when, when)]


def _full_before(place: space.Place, saves: float) -> list[Evidence]:
    if place.fill_s is None or place.interval_s is None:
        return []
    limit_s = saves * place.interval_s
    if place.fill_s >= limit_s:
        return []
    text = (
        f"at the rate of this job it is full {length(place.fill_s)} after the last look; a save "
        f"comes every {length(place.interval_s)}"
    )
    return [Evidence(text, "time_to_full_s", place.fill_s, limit_s)]


def _inodes(place: space.Place) -> list[Evidence]:
    if place.inodes_avail is None or place.inodes_avail >= _LEAST_INODES:
        return []
    text = f"only {place.inodes_avail} more files can be made there"
    return [Evidence(text, "inodes_avail", place.inodes_avail, _LEAST_INODES)]


def _types(picture: Picture) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for view in picture.store.nodes.values():
        found.update(space.mounts_told(view.meta.get("mounts")))
    return found


def _commands(mounts: tuple[str, ...], types: dict[str, str | None]) -> tuple[str, ...]:
    found: list[str] = []
    for mount in mounts[:2]:
        quoted = shlex.quote(mount)
        if types.get(mount) == "lustre":
            found += [f"lfs df -h {quoted}", f'lfs quota -h -u "$USER" {quoted}']
        else:
            found += [f"df -h {quoted}", f"df -i {quoted}", "quota -s"]
        found.append(f"du -xh --max-depth=2 {quoted} | sort -h | tail")
    return tuple(dict.fromkeys(found))
