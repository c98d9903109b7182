"""An audit for people (text) and for scripts (plain values for JSON)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from slurm_io.filesystems.layout.audit import Question, Result
from slurm_io.filesystems.layout.commands import printable
from slurm_io.filesystems.layout.policy import NEVER_RUN, Finding, human
from slurm_io.filesystems.layout.tally import SIZE_NAMES, WIDTH_NAMES, Kinds, Tally

SCHEMA = 1
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
    blocks += [_broken(tally), _findings(result.findings), _trouble(result)]
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


def _head(question: Question, result: Result) -> str:
    tally = result.tally
    rate = tally.files / result.wall_s if result.wall_s > 0 else 0
    osts = "" if question.osts is None else f", {question.osts.count} active OSTs"
    seen = f"{tally.files} files in {tally.directories} directories, {human(tally.size_bytes)}"
    cost = f"{result.wall_s:.1f} s, {rate:.0f} files/s"
    nodes = f"{question.readers} node{'s' if question.readers != 1 else ''}"
    lines = [
        f"{printable(question.root)}: {seen}{osts} ({cost})",
        f"Judged for {nodes} reading at once (--readers).",
    ]
    if tally.skipped:
        lines.append(
            f"Sampled: {tally.skipped} files were not looked at; large ones may be missed."
        )
    if result.cut is not None:
        lines.append(f"Cut short: {result.cut}.")
    return "\n".join(lines)


def _histogram(tally: Tally) -> str:
    columns = [n for n in range(len(WIDTH_NAMES)) if any(row[n] for row in tally.histogram)]
    if not columns:
        return ""
    lines = [
        "Files by size and by OSTs behind their bytes (0: on the metadata server, or released)"
    ]
    lines.append("  size       " + "".join(f"{WIDTH_NAMES[n]:>11}" for n in columns))
    for name, row in zip(SIZE_NAMES, tally.histogram, strict=True):
        if any(row):
            lines.append(f"  {name:<11}" + "".join(f"{row[n] or '.':>11}" for n in columns))
    return "\n".join(lines)


def _balance(tally: Tally) -> str:
    tally.settle()
    if not tally.ost_objects:
        return ""
    objects, sizes = tally.ost_objects, tally.ost_bytes
    fullest = sorted(sizes, key=lambda ost: -sizes[ost])[:3]
    mean = sum(sizes.values()) / len(objects)
    told = ", ".join(f"OST {ost} {human(sizes[ost])}" for ost in fullest)
    return f"OSTs used: {len(objects)}; mean {human(mean)}" + (f"; fullest: {told}" if told else "")


def _defaults(tally: Tally) -> str:
    if not tally.defaults.counts:
        return ""
    counted = sorted(tally.defaults.counts.items(), key=lambda item: -item[1])
    lines = [f"  {count:>8}  {words}" for words, count in counted[:8]]
    return "\n".join(["What new files get, by directory:", *lines])


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


def _findings(findings: tuple[Finding, ...]) -> str:
    lines = []
    for finding in findings:
        lines.append(f"- {finding.text}")
        lines += [f"    {command}" for command in finding.commands]
    return "\n".join([*lines, f"({NEVER_RUN}.)"]) if lines else ""


def _trouble(result: Result) -> str:
    tally = result.tally
    lines = []
    if tally.without_layout:
        lines.append(f"  {tally.without_layout:>8}  files have no layout (never written)")
    if tally.not_lustre:
        lines.append(f"  {tally.not_lustre:>8}  files lie on no Lustre file system")
    for word, count in sorted(tally.errors.counts.items(), key=lambda item: -item[1]):
        example = printable(tally.errors.examples[word][0])
        lines.append(f"  {count:>8}  {word} (as {example})")
    return "\n".join(["Not judged:", *lines]) if lines else ""


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
