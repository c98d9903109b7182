"""An audit for people (text) and for scripts (plain values for JSON)."""

from __future__ import annotations

import errno
import os
from dataclasses import asdict
from typing import Any

from slurm_io.filesystems.layout.audit import Result
from slurm_io.filesystems.layout.commands import printable
from slurm_io.filesystems.layout.policy import NEVER_RUN, Finding, human
from slurm_io.filesystems.layout.question import Question
from slurm_io.filesystems.layout.tally import SIZE_NAMES, WIDTH_NAMES, Kinds, Tally
from slurm_io.filesystems.mounts import MountTable

SCHEMA = 1
_DENIED = (os.strerror(errno.EACCES), os.strerror(errno.EPERM))
_TITLES = {
    "narrow": "large files on too few OSTs",
    "too-wide": "files on too many OSTs",
    "released": "files released to the archive",
    "stale-mirror": "files with a stale mirror",
}


def as_text(question: Question, result: Result) -> str:
    """One screen: what was seen, how it lies, what breaks the policy, what to do."""
    tally = result.tally
    blocks = [_head(question, result), _histogram(tally), _balance(tally), _defaults(tally)]
    blocks += [_broken(tally), _findings(result), _trouble(result)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def as_json(question: Question, result: Result) -> dict[str, Any]:
    """The same with all numbers; sizes in bytes."""
    tally = result.tally
    tally.settle()
    return {
        "schema": SCHEMA,
        "root": printable(question.root),
        "readers": question.readers,
        "thresholds": asdict(question.thresholds),
        "active_osts": sorted(question.osts.active) if question.osts is not None else None,
        "sample_every": question.sample_every,
        "cut": result.cut,
        "wall_s": round(result.wall_s, 3),
        "files": tally.files,
        "files_skipped": tally.skipped,
        "directories": tally.directories,
        "other_entries": tally.others,
        "size_bytes": tally.size_bytes,
        "layouts": tally.layouts,
        "without_layout": tally.without_layout,
        "not_lustre": tally.not_lustre,
        "on_mdt_only": tally.on_mdt,
        "small_with_several_stripes": tally.small_wide,
        "files_by_size_and_osts": {
            size: dict(zip(WIDTH_NAMES, row, strict=True))
            for size, row in zip(SIZE_NAMES, tally.histogram, strict=True)
        },
        "ost_objects": dict(sorted(tally.ost_objects.items())),
        "ost_bytes": dict(sorted(tally.ost_bytes.items())),
        "directory_defaults": _kinds(tally.defaults),
        "broken": {
            code: {"files": top.count, "size_bytes": top.size_bytes}
            for code, top in tally.broken.items()
        },
        "small_with_several_stripes_by_folder": {
            printable(folder): count for folder, count in tally.small_wide_folders.largest(10)
        },
        "findings": [_finding(finding) for finding in result.findings],
        "errors": _kinds(tally.errors),
        "note": NEVER_RUN,
    }


def nothing_read(question: Question, result: Result, mounts: MountTable) -> str:
    """Why not one layout was read, and what to do: one line."""
    where, tally = printable(question.root), result.tally
    trouble = max(tally.errors.counts, key=lambda word: tally.errors.counts[word], default=None)
    if tally.not_lustre:
        return f"{where} does not lie on Lustre{_where_else(question.root, mounts)}"
    if trouble is not None:
        example = printable(tally.errors.examples[trouble][0])
        may = "; run it as a user who may read it, or as root"
        hint = may if trouble.endswith(_DENIED) else ""
        return f"{where}: no layout could be read: {trouble} (as {example}){hint}"
    if tally.without_layout:
        return (
            f"{where}: none of {tally.without_layout} files has a layout: nothing was written yet"
        )
    return f"{where}: no file was looked at: {result.cut or 'it holds none'}"


def _where_else(root: str, mounts: MountTable) -> str:
    mount = mounts.of_path(root)
    on = f" but on {mount.fstype} ({printable(mount.source)})" if mount is not None else ""
    points = sorted({printable(each.mount_point) for each in mounts if each.kind == "lustre"})
    if points:
        return f"{on}; Lustre is mounted at {', '.join(points[:5])}"
    root_only = "" if os.geteuid() == 0 else " (on a metadata target, run it as root)"
    return f"{on}, and no Lustre is mounted here{root_only}"


def _head(question: Question, result: Result) -> str:
    tally = result.tally
    rate = tally.files / result.wall_s if result.wall_s > 0 else 0
    seen = f"{_files(tally.files)} in {_directories(tally.directories)}, {human(tally.size_bytes)}"
    nodes = f"{question.readers} node{'s' if question.readers != 1 else ''}"
    osts = (
        "active OSTs not known (--osts)"
        if question.osts is None
        else f"{question.osts.count} active OSTs ({question.osts.source})"
    )
    lines = [
        f"{printable(question.root)}: {seen} ({result.wall_s:.1f} s, {rate:.0f} files/s)",
        f"Judged for {nodes} reading at once (--readers); {osts}.",
    ]
    if tally.skipped:
        lines.append(
            f"Sampled: {tally.skipped} files were not looked at; large ones may be missed."
        )
    if result.cut is not None:
        lines.append(f"Not all of it: {result.cut}.")
    if tally.layouts and tally.size_bytes == 0:
        lines.append("All files are empty: on a metadata target sizes are not known; ask a client.")
    return "\n".join(lines)


def _histogram(tally: Tally) -> str:
    columns = [n for n in range(len(WIDTH_NAMES)) if any(row[n] for row in tally.histogram)]
    if not columns:
        return ""
    lines = [
        "Files by size and OSTs that hold their bytes (0: on the metadata server, or released)"
    ]
    lines.append("  size    OSTs" + "".join(f"{WIDTH_NAMES[n]:>11}" for n in columns))
    for name, row in zip(SIZE_NAMES, tally.histogram, strict=True):
        if any(row):
            lines.append(f"  {name:<12}" + "".join(f"{row[n] or '.':>11}" for n in columns))
    return "\n".join(lines)


def _balance(tally: Tally) -> str:
    tally.settle()
    if not tally.ost_objects:
        return ""
    sizes = tally.ost_bytes
    fullest = sorted(sizes, key=lambda ost: -sizes[ost])[:3]
    mean = sum(sizes.values()) / len(tally.ost_objects)
    told = ", ".join(f"OST {ost} {human(sizes[ost])}" for ost in fullest)
    most = f"; most on {told}" if told else ""
    return f"It lies on {len(tally.ost_objects)} OSTs, {human(mean)} on each in the mean{most}"


def _defaults(tally: Tally) -> str:
    if not tally.defaults.counts:
        return ""
    counted = sorted(tally.defaults.counts.items(), key=lambda item: -item[1])
    lines = [
        f"  {count:>8}  {words} (as {printable(tally.defaults.examples[words][0])})"
        for words, count in counted[:8]
    ]
    return "\n".join(["What new files get, by number of directories:", *lines])


def _broken(tally: Tally) -> str:
    lines = [
        f"  {top.count:>8}  {_TITLES.get(code, code)}, {human(top.size_bytes)}"
        for code, top in sorted(tally.broken.items())
    ]
    if tally.small_wide:
        lines.append(f"  {tally.small_wide:>8}  small files with more than one stripe")
        lines += [
            f"            {count} in {printable(folder)}"
            for folder, count in tally.small_wide_folders.largest(3)
        ]
    return "\n".join(["Against the policy:", *lines]) if lines else "Against the policy: nothing."


def _findings(result: Result) -> str:
    lines = []
    for finding in result.findings:
        lines.append(f"- {finding.text}")
        lines += [f"    {command}" for command in finding.commands]
    for code, top in sorted(result.tally.broken.items()):
        left = top.count - len(top.heap)
        if left:
            lines.append(f"- … and {left} more {_TITLES.get(code, code)}, smaller (--top)")
    return "\n".join([*lines, f"({NEVER_RUN}.)"]) if lines else ""


def _trouble(result: Result) -> str:
    tally = result.tally
    lines = []
    if tally.without_layout:
        lines.append(f"  {tally.without_layout:>8}  without a layout (never written)")
    if tally.not_lustre:
        lines.append(f"  {tally.not_lustre:>8}  on no Lustre file system")
    for word, count in sorted(tally.errors.counts.items(), key=lambda item: -item[1]):
        example = printable(tally.errors.examples[word][0])
        lines.append(f"  {count:>8}  {word} (as {example})")
    return "\n".join(["Not judged:", *lines]) if lines else ""


def _files(count: int) -> str:
    return f"{count} file{'s' if count != 1 else ''}"


def _directories(count: int) -> str:
    return f"{count} director{'ies' if count != 1 else 'y'}"


def _kinds(kinds: Kinds) -> dict[str, Any]:
    return {
        word: {"count": count, "examples": [printable(path) for path in kinds.examples[word]]}
        for word, count in kinds.counts.items()
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "text": finding.text,
        "path": printable(finding.path) if finding.path is not None else None,
        "facts": finding.facts,
        "commands": list(finding.commands),
    }
