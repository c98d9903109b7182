"""F10: a large file that many nodes read lies on one OST.

What it flags
-------------
A file of the dataset of a gibibyte or more lies on a single OST of a Lustre file system, eight
nodes and more read it at once, and training waits for storage. Or: the largest files of the dataset
lie so unevenly that one OST holds three times its part.

Why it matters
--------------
One OST gives one or two gigabytes a second whatever the file system could, and all nodes share it.

Evidence
--------
The prolog's layout check (which reads ``lustre.lov`` of the largest files and asks no server) for
where the bytes lie; the number of nodes that read. The second, independent signal: samples found
processes of several nodes waiting for one of these very files. The loss is F01's.

What to do
----------
Restripe the few large files once, while nobody writes them, and set the folder's default for the
next ones. Shards of about a gigabyte, one stripe each, spread by themselves.

Known false alarms
------------------
A stripe count of one says nothing alone. Small files, one file for each rank, data on the MDT and
progressive layouts are judged by where the bytes of the file lie, and are fine. A file that the
samples show on one node only is not shared: then the rule is quiet. So it is where nothing waits
for storage, or where the files waited for are others. Files that are copied to local disks first
are read once; say ``layout = "off"`` in the dataset's entry.

Thresholds
----------
``thresholds.shared_file_bytes`` (1 GiB), ``thresholds.shared_file_nodes`` (8) and one OST, all
three; an imbalance of 3 over at least 20 files and 4 OSTs, which no key changes; and
``thresholds.data_share`` (3 %) of training GPU time lost to storage.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.amounts import size
from slurm_io.analysis.checks import merged_checks
from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.rule_limits import Stripes
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    shortness,
    sure,
)

_NAMED_ENOUGH = (
    20  # rows of samples with a file's name: then what is not among them was not awaited
)
_SEEN_OFTEN = 8  # of one file: by chance all on one of several nodes in 1 of 128
_MOST_FILES, _MOST_COMMANDS = 5, 3
_STEPS = ((10 * 2**30, 4), (100 * 2**30, 8), (2**40, 24))  # size -> stripes, as sites advise
_MOST_STRIPES = 72
_UNASKED = (
    "nobody looked at the striping: name the dataset (slurm-io: dataset=NAME), and the prolog's "
    "layout check does"
)


@dataclass(frozen=True)
class _File:
    """A large file of the dataset, and on how many OSTs it lies."""

    path: str
    size_bytes: int
    osts: int


@dataclass(frozen=True)
class _Layout:
    """What the check told. `over_mean`: bytes of `files` files on the fullest of `used` OSTs, over
    the mean of these; None = not told."""

    large: tuple[_File, ...]
    readers: int | None
    active_osts: int | None
    files: int
    used: int
    fullest: int | None
    over_mean: float | None


@RULES.register("f10_narrow_stripes")
class NarrowStripes:
    """Large shared files lie on too few OSTs."""

    code = "F10"
    title = "large shared files on one OST"
    needs: Needs = "training"

    def judge(self, picture: Picture) -> Answer:
        """Fires only where storage is awaited."""
        if not picture.loses_to_storage:
            share = picture.data_storage.value
            return Answer("quiet", f"waiting for storage took {share:.1%} of training")
        if picture.where.fstypes and "lustre" not in picture.where.fstypes:
            return Answer("quiet", "the awaited mounts are not on Lustre")
        told = [one for one in merged_checks(picture.store) if one["check"] == "layout"]
        seen = _layout(picture, told)
        if seen is None:
            return Answer("not enough evidence", str(told[0]["text"])[:300] if told else _UNASKED)
        return _judge(picture, seen, picture.thresholds.rules.stripes)


def _judge(picture: Picture, seen: _Layout, limits: Stripes) -> Answer:
    narrow = [one for one in seen.large if one.size_bytes >= limits.file_bytes and one.osts == 1]
    uneven = _is_uneven(seen, limits)
    if not narrow and not uneven:
        return Answer("quiet", "the dataset's largest files are spread over the OSTs")
    if seen.readers is None:
        return Answer("not enough evidence", "how many nodes read the dataset is not known")
    if seen.readers < limits.nodes:
        return Answer("quiet", f"{seen.readers} nodes read the dataset, too few for one OST")
    hits = _hits(picture)
    if hits.height >= _NAMED_ENOUGH:
        mine = hits.filter(pl.col("path").is_in([one.path for one in seen.large]))
        if mine.is_empty():
            return Answer("quiet", "what was waited for are other files than the dataset's largest")
        if len(picture.store.nodes) > 1 and _are_private(mine):
            return Answer("quiet", "each of the large files was waited for on one node only")
    return Answer("fired", findings=(_finding(picture, seen, narrow, hits, limits),))


def _layout(picture: Picture, told: list[dict[str, Any]]) -> _Layout | None:
    """None where no check listed the largest files."""
    for entry in told:
        facts = mapping(entry["facts"])
        listed = facts.get("largest")
        if isinstance(listed, list):
            spread = mapping(facts.get("spread"))
            job = picture.store.job
            return _Layout(
                large=tuple(one for one in map(_file, listed) if one is not None),
                readers=whole(facts.get("readers")) or (len(job.nodes) if job else 0) or None,
                active_osts=whole(facts.get("active_osts")),
                files=whole(spread.get("files")) or 0,
                used=whole(spread.get("osts")) or 0,
                fullest=whole(spread.get("fullest")),
                over_mean=_number(spread.get("over_mean")),
            )
    return None


def _number(value: object) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if isinstance(value, (int, float)) and is_number else None


def _file(told: object) -> _File | None:
    one = mapping(told)
    path, bytes_, osts = one.get("path"), whole(one.get("size_bytes")), whole(one.get("osts"))
    if not isinstance(path, str) or bytes_ is None or osts is None:
        return None
    return _File(path, bytes_, osts)


def _is_uneven(seen: _Layout, limits: Stripes) -> bool:
    enough = seen.files >= limits.least_files and seen.used >= limits.least_osts
    return enough and seen.over_mean is not None and seen.over_mean >= limits.imbalance


def _hits(picture: Picture) -> pl.DataFrame:
    """Samples in storage whose file has a name."""
    samples = picture.causes.samples
    return samples.filter((pl.col("n_storage") > 0) & pl.col("path").is_not_null())


def _are_private(hits: pl.DataFrame) -> bool:
    """Whether files that were seen often were seen on one node each."""
    seen = hits.group_by("path").agg(pl.len().alias("hits"), pl.col("node").n_unique())
    often = seen.filter(pl.col("hits") >= _SEEN_OFTEN)
    return not often.is_empty() and bool((often["node"] == 1).all())


def _nodes_a_file(hits: pl.DataFrame) -> int:
    """Nodes that waited for the file that most nodes waited for."""
    counts = hits.group_by("path").agg(pl.col("node").n_unique().alias("nodes"))["nodes"].to_list()
    return max(counts, default=0)


def _finding(
    picture: Picture, seen: _Layout, narrow: list[_File], hits: pl.DataFrame, limits: Stripes
) -> Finding:
    suspects = narrow or list(seen.large)
    mine = hits.filter(pl.col("path").is_in([one.path for one in suspects]))
    awaited = set(mine["path"].unique().to_list())
    first = sorted(suspects, key=lambda one: (one.path not in awaited, -one.size_bytes, one.path))
    share = picture.data_storage.value
    evidence = [
        *_narrow(narrow, first, limits),
        *([_uneven(seen, limits)] if _is_uneven(seen, limits) else []),
        Evidence(f"{seen.readers} nodes read the dataset", "readers", seen.readers, limits.nodes),
        *_awaited(mine, awaited),
        Evidence(
            f"waiting for storage took {share:.1%} of training GPU time",
            "data_storage_share", share, picture.thresholds.shares.data_storage,
        ),
        *shortness(picture),
    ]  # fmt: skip
    mounts = tuple(one.mount for one in picture.where.mounts if one.fstype == "lustre")
    return Finding(
        rule="F10",
        severity="warn",
        confidence=_confidence(picture, 1 + (_nodes_a_file(mine) > 1)),
        title="many nodes read large files that lie on one OST"
        if narrow
        else "the dataset's largest files lie unevenly on the OSTs",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(mounts=mounts, files=tuple(one.path for one in first[:_MOST_FILES])),
        evidence=tuple(evidence),
        remedy="restripe these few files once, while nobody writes them, and set the default of "
        "their folder; or copy the dataset to node-local NVMe",
        commands=_commands(first, seen),
    )


def _narrow(narrow: list[_File], first: list[_File], limits: Stripes) -> list[Evidence]:
    if not narrow:
        return []
    one = first[0]
    text = (
        f"{len(narrow)} of the dataset's largest files lie on one OST, such as {one.path} "
        f"({size(one.size_bytes)})"
    )
    return [Evidence(text, "file_bytes", one.size_bytes, limits.file_bytes)]


def _uneven(seen: _Layout, limits: Stripes) -> Evidence:
    text = (
        f"OST {seen.fullest} holds {seen.over_mean:.1f} times its part of the {seen.files} largest "
        f"files ({seen.used} OSTs in use)"
    )
    return Evidence(text, "ost_over_mean", seen.over_mean, limits.imbalance)


def _awaited(mine: pl.DataFrame, awaited: set[str]) -> list[Evidence]:
    if not awaited:
        return []
    nodes = mine["node"].n_unique()
    text = f"processes on {nodes} nodes were seen waiting for {len(awaited)} of these files"
    return [Evidence(text, "nodes_waiting", nodes)]


def _confidence(picture: Picture, signals: int) -> Confidence:
    """Never surer than that storage is the cause at all."""
    order: tuple[Confidence, ...] = ("not-proven", "likely", "proven")
    return min(sure(signals), picture.storage_confidence, key=order.index)


def _commands(first: list[_File], seen: _Layout) -> tuple[str, ...]:
    found = [
        f"lfs migrate -c {_stripes(one.size_bytes, seen.active_osts)} {shlex.quote(one.path)}"
        for one in first
        if one.path.isprintable()
    ]
    return tuple(found[:_MOST_COMMANDS])


def _stripes(size_bytes: int, active_osts: int | None) -> int:
    wanted = next((count for below, count in _STEPS if size_bytes < below), _MOST_STRIPES)
    return max(1, min(wanted, active_osts or wanted))
