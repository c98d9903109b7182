"""F08: files of the dataset lie in the archive, not on the fast tier.

What it flags
-------------
When the job began, files of its dataset had been moved to a slower tier (archive, object store):
released as a whole, or in part.

Why it matters
--------------
Name, size and times of such a file stay as they were, so it looks healthy to every check but the
right one. The first read of it blocks inside the kernel until it is fetched: seconds to minutes, in
which all ranks of a synchronous job wait, again at each file.

Evidence
--------
The prolog's residency check, which asks the file system about each file of the dataset without
reading any (Lustre HSM, Weka, GPFS). The second, independent signal: samples found processes
waiting for one of these very files, and training lost time to it. A wait on such a file system
without the names is said as well, and proves nothing.

What to do
----------
Bring them back before the job starts, and keep them: the commands of the check, a retention longer
than the run, ``lfs hsm_set --norelease``. Or copy the dataset to node-local NVMe, which evicts
nothing.

Known false alarms
------------------
Size and modification time that do not change say nothing either way. Sparse and compressed files
have few blocks as well: files that only look it (suspect) never make this rule fire. It is the
state at the job's start: files fetched since are counted, files evicted during the run are not
(rare slow reads then show in F02). A file that the job never reads costs nothing; then no wait
agrees, and the finding is likely, not proven.

Thresholds
----------
``thresholds.released_files`` (1): files that are away, wholly or in part; for the second signal
``thresholds.data_share`` (3 %) of training GPU time lost to storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from slurm_io.analysis.amounts import size
from slurm_io.analysis.checks import merged_checks
from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, Place, sure
from slurm_io.analysis.similar import mount_types

_TIERED = frozenset(("lustre", "wekafs", "gpfs"))
_MOST_FILES, _MOST_COMMANDS = 5, 4
_NOT_ASKED = (
    "nobody looked whether the dataset is on the fast tier: name it (slurm-io: dataset=NAME), and "
    "the prolog's residency check does"
)


@RULES.register("f08_tier_eviction")
class TierEviction:
    """Files of the dataset are not on the fast tier."""

    code = "F08"
    title = "dataset files moved away from the fast tier"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """By the prolog's residency check."""
        told = [one for one in merged_checks(picture.store) if one["check"] == "residency"]
        if not told:
            return _unasked(picture)
        limit = picture.thresholds.rules.eviction.files
        away = [one for one in told if _away(one) >= limit]
        if away:
            return Answer("fired", findings=tuple(_finding(picture, one) for one in away[:4]))
        unknown = [one for one in told if one["answer"] == "UNKNOWN"]
        if unknown:
            return Answer("not enough evidence", str(unknown[0]["text"])[:300])
        suspect = sum(_count(one, "suspect") for one in told)
        if suspect:
            why = f"{suspect} files have few blocks for their size, which sparse ones have too"
            return Answer("quiet", why)
        return Answer("quiet", str(told[0]["text"])[:300])


def _unasked(picture: Picture) -> Answer:
    if not picture.store.nodes:
        return Answer("not enough evidence", _NOT_ASKED)
    awaited, there = picture.where.fstypes, frozenset(mount_types(picture.store).values())
    if there and not (there & _TIERED):
        return Answer("quiet", "no file system of the node moves files to a slower tier by itself")
    if awaited and picture.loses_to_storage and not (awaited & _TIERED):
        return Answer("quiet", "the awaited mounts move no files to a slower tier by themselves")
    return Answer("not enough evidence", _NOT_ASKED)


def _count(entry: Mapping[str, Any], state: str) -> int:
    number = whole(mapping(mapping(entry["facts"]).get("counts")).get(state))
    return max(0, number or 0)


def _away(entry: Mapping[str, Any]) -> int:
    return _count(entry, "released") + _count(entry, "partial")


def _finding(picture: Picture, entry: Mapping[str, Any]) -> Finding:
    facts = mapping(entry["facts"])
    files = _paths(facts)
    hit = _awaited(picture, files)
    waits = picture.loses_to_storage and bool(hit or picture.where.fstypes & _TIERED)
    evidence = [_told(picture, entry, facts)]
    if waits:
        share = picture.data_storage.value
        text = f"waiting for storage took {share:.1%} of training GPU time"
        limit = picture.thresholds.shares.data_storage
        evidence.append(Evidence(text, "data_storage_share", share, limit))
    if hit:
        text = f"training waited for {len(hit)} of these very files, such as {hit[0]}"
        evidence.append(Evidence(text, "released_files_awaited", len(hit), 1))
    dataset = entry["subject"] or "the dataset"
    return Finding(
        rule="F08",
        severity="bad" if waits else "warn",
        confidence=sure(1 + (waits and bool(hit))),
        title=f"files of {dataset} were not on the fast tier when the job began",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(
            nodes=tuple(entry["nodes"]) if entry["node_count"] < len(picture.store.nodes) else (),
            mounts=tuple(mount.mount for mount in picture.where.mounts if mount.share >= 0.10)
            if waits
            else (),
            files=(*hit, *(path for path in files if path not in hit))[:_MOST_FILES],
        ),
        evidence=tuple(evidence),
        remedy="bring the files back before the next start and keep them there (a retention longer "
        "than the run, lfs hsm_set --norelease), or copy the dataset to node-local NVMe",
        commands=_commands(entry),
    )


def _told(picture: Picture, entry: Mapping[str, Any], facts: Mapping[str, Any]) -> Evidence:
    missing = whole(facts.get("missing_bytes"))
    total = whole(facts.get("files"))
    volume = f", {size(missing)} to fetch" if missing and missing > 0 else ""
    of = f" of {total}" if total and total > 0 else ""
    text = (
        f"{_count(entry, 'released')} files{of} were released and {_count(entry, 'partial')} partly"
        f" away{volume} (the prolog's residency check, {facts.get('source') or 'source not told'})"
    )
    limit = picture.thresholds.rules.eviction.files
    return Evidence(text, "released_files", _away(entry), limit)


def _paths(facts: Mapping[str, Any]) -> tuple[str, ...]:
    listed = facts.get("not_resident")
    rows = map(mapping, listed if isinstance(listed, list) else ())
    return tuple(row["path"] for row in rows if isinstance(row.get("path"), str))


def _awaited(picture: Picture, files: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `files` that a process was seen waiting for; relative ones by their end."""
    seen = picture.causes.samples.filter(pl.col("n_storage") > 0)["path"].drop_nulls().unique()
    paths = sorted(seen.to_list())
    return tuple(
        path
        for path in files
        if any(other == path or other.endswith("/" + path.lstrip("/")) for other in paths)
    )


def _commands(entry: Mapping[str, Any]) -> tuple[str, ...]:
    listed = entry["commands"]
    words = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    return tuple(word for word in words if "\n" not in word)[:_MOST_COMMANDS]
