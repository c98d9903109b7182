"""Which files of a folder are on the fast tier, from the best source the file system has.

An attribute or tool that knows, then the layout's bit, then Lustre's one block, then the share of
blocks, which may only accuse. Everything else is unknown, never resident.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from slurm_io.filesystems.kinds import Kind
from slurm_io.filesystems.mounts import read_mounts
from slurm_io.filesystems.residency.answer import LISTED_MAX, FileState, ResidencyAnswer
from slurm_io.filesystems.residency.base import (
    STATES,
    SYSTEMS,
    Seen,
    Surroundings,
    System,
    Told,
    Verdict,
)
from slurm_io.filesystems.residency.generic import accuse
from slurm_io.filesystems.residency.pinned import NotPinned, Root, open_root, pin

_CLOCK_EVERY = 32
_REASONS_MAX = 3
_WORST_FIRST = {"released": 0, "partial": 1, "suspect": 2}


def residency_of(
    root: str,
    paths: Sequence[str],
    kind: Kind,
    deadline_s: float,
    listed_max: int = LISTED_MAX,
) -> ResidencyAnswer:
    """Ask for the files `paths` (relative to the folder `root`) on a file system of `kind`.

    `deadline_s` is a value of ``time.monotonic()``: by then it has answered, and what was not
    reached is counted in `not_asked`. (A call into a hung mount does not come back by itself:
    call this in a child that can be killed.) No file is read. A link is followed as long as it
    stays below `root`. At most `listed_max` files are named, the worst first. Raises nothing: what
    cannot be told is "unknown" with a reason.
    """
    try:
        opened = open_root(root)
    except OSError as error:
        reason = f"the folder cannot be opened: {error.strerror}"
        return _answer(root, {}, [(path, Verdict("unknown", reason=reason)) for path in paths], 0)
    try:
        surroundings = surroundings_of(opened.real, kind)
        return residency_in(opened, paths, surroundings, deadline_s, listed_max)
    finally:
        os.close(opened.descriptor)


def surroundings_of(real_path: str, kind: Kind) -> Surroundings:
    """Type and options of the mount an absolute real path lies on, as this process sees it."""
    mount = read_mounts().of_path(real_path)
    if mount is None or mount.kind != kind:
        return Surroundings(kind)
    return Surroundings(kind, mount.fstype, (*mount.options, *mount.super_options))


def residency_in(
    root: Root,
    paths: Sequence[str],
    surroundings: Surroundings,
    until_s: float,
    listed_max: int = LISTED_MAX,
) -> ResidencyAnswer:
    """As :func:`residency_of`, for a folder that is open and a file system that is known."""
    system = system_for(surroundings.kind)
    wanted = list(dict.fromkeys(paths))
    seen, verdicts = _look_at_all(root, wanted, system, surroundings, until_s)
    not_asked = len(wanted) - len(verdicts)
    _ask_the_tool(root, system, _open_questions(seen, verdicts), verdicts, until_s)
    if system.may_accuse:
        unknown = _open_questions(seen, verdicts)
        for path, verdict in accuse(unknown, seen.values(), surroundings.kind, time.time()).items():
            verdicts[path] = _weightier(verdicts[path], verdict)
    return _answer(root.real, seen, verdicts.items(), not_asked, system, listed_max)


def system_for(kind: Kind) -> System:
    """The system that answers for a kind of file system."""
    for system in SYSTEMS:
        if kind in system.kinds:
            return system
    return SYSTEMS.get("generic")


def _look_at_all(
    root: Root,
    paths: Sequence[str],
    system: System,
    surroundings: Surroundings,
    until_s: float,
) -> tuple[dict[str, Seen], dict[str, Verdict]]:
    """What was pinned, and a verdict for each path that was reached, by path."""
    seen: dict[str, Seen] = {}
    verdicts: dict[str, Verdict] = {}
    for number, path in enumerate(paths):
        if number % _CLOCK_EVERY == 0 and time.monotonic() >= until_s:
            break
        try:
            descriptor, found, facts = pin(root, path)
        except NotPinned as error:
            verdicts[path] = Verdict("unknown", reason=str(error))
            continue
        try:
            verdicts[path] = _look(root, descriptor, found, system, surroundings)
        finally:
            os.close(descriptor)
        seen[path] = facts
    return seen, verdicts


def _look(
    root: Root,
    descriptor: int,
    found: os.stat_result,
    system: System,
    surroundings: Surroundings,
) -> Verdict:
    if found.st_size == 0:
        return Verdict("resident", 0, "empty file")
    if system.look is None:
        return Verdict("unknown")
    if found.st_dev != root.device and surroundings.fstype != "btrfs":  # its subvolumes differ
        return Verdict("unknown", reason="lies on another file system than the folder")
    return system.look(descriptor, found, surroundings)


def _ask_the_tool(
    root: Root,
    system: System,
    files: Sequence[Seen],
    verdicts: dict[str, Verdict],
    until_s: float,
) -> None:
    """Fill in what a tool tells. It opens paths by name, so root asks only where nobody else
    could put something else in their place."""
    if system.ask is None or not files:
        return
    safe = [each for each in files if _may_name(root, each)]
    for each in files if len(safe) < len(files) else ():
        reason = "tools are not run as root on files of others: ask as their owner"
        verdicts[each.path] = Verdict("unknown", reason=reason)
    told = system.ask(safe, until_s) if safe else Told({})
    for each in safe:
        reason = told.reason or verdicts[each.path].reason
        verdicts[each.path] = told.verdicts.get(each.full) or Verdict("unknown", reason=reason)


def _may_name(root: Root, each: Seen) -> bool:
    return os.geteuid() != 0 or (root.owner_uid == 0 and each.owner_uid == 0)


def _open_questions(seen: dict[str, Seen], verdicts: dict[str, Verdict]) -> list[Seen]:
    return [each for path, each in seen.items() if verdicts[path].state == "unknown"]


def _weightier(old: Verdict, new: Verdict) -> Verdict:
    """An accusation stands; of two reasons not to know, the system's own says more."""
    return new if new.state != "unknown" or not old.reason else old


def _answer(
    root: str,
    seen: dict[str, Seen],
    verdicts: Iterable[tuple[str, Verdict]],
    not_asked: int,
    system: System | None = None,
    listed_max: int = LISTED_MAX,
) -> ResidencyAnswer:
    counts = dict.fromkeys(STATES, 0)
    sources: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    away: list[FileState] = []
    for path, verdict in verdicts:
        counts[verdict.state] += 1
        if verdict.state == "unknown":
            reasons[verdict.reason] += 1
            continue
        sources[verdict.source] += 1
        if verdict.state != "resident":
            away.append(_file_state(seen[path], verdict))
    away.sort(key=lambda each: _WORST_FIRST[each.state])
    gone = [each for each in away if each.state != "suspect"]
    to_fetch = [seen[each.path].full for each in gone]
    return ResidencyAnswer(
        counts=counts,
        missing_bytes=sum(each.missing_bytes for each in gone),
        suspect_bytes=sum(each.size_bytes for each in away if each.state == "suspect"),
        listed=tuple(away[:listed_max]),
        source=sources.most_common(1)[0][0] if sources else "",
        sources=dict(sources),
        reason="; ".join(reason for reason, _ in reasons.most_common(_REASONS_MAX) if reason),
        not_asked=not_asked,
        commands=system.prefetch(root, to_fetch) if system and system.prefetch else (),
    )


def _file_state(each: Seen, verdict: Verdict) -> FileState:
    return FileState(
        each.path,
        verdict.state,
        each.size_bytes,
        verdict.missing_bytes,
        verdict.source,
        verdict.reason,
    )
