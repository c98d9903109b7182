"""F17: every pass over the data reads it from storage again, for memory is smaller than the data.

What it flags
-------------
Later passes read at least half as much from storage as the first one, though they ask for the same,
and the memory that the page cache can have is smaller than what one pass reads. Training waits for
it.

Why it matters
--------------
The kernel keeps what was used last. A pass that is larger than the cache throws each page out
shortly before it is wanted again, so a cache of half the data can be as useless as none, and every
pass is as slow as the first.

Evidence
--------
Bytes from storage, pass by pass (/proc/PID/io of the readers, or the file system's client); the
memory left to the page cache (limit of the job's control group less what it holds, and the node's
available memory): two independent counters. Files that were seen waited for in the first pass and
in a later one are the third. The loss is F01's.

What to do
----------
Copy the data to node-local NVMe, so that a miss costs little. Let each node read the same part in
every pass, where that part fits into its memory. More memory for the job, where the limit is
Slurm's and the node has it.

Known false alarms
------------------
Passes that read other data each time look the same but for the names of the files. A few are seen:
where they are more than a pass has samples and none was seen in two, the rule is quiet; where too
few were seen to tell, the finding is likely at most. It is quiet too where each node reads its own
part again and memory could hold that, and where memory could hold a whole pass: direct I/O, a cache
that is dropped, or a file system that keeps none (some FUSE mounts) have another remedy. Bytes from
storage hold readahead too. Where the file system counts no bytes, nothing is said.

Thresholds
----------
``thresholds.reread_share`` (50 % of what the first pass read from storage, in each later pass), at
least 256 MiB a pass; and ``thresholds.data_share`` (3 %) of training GPU time lost to storage.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.allotted import batch_sizes, held_bytes, memory_limit_bytes
from slurm_io.analysis.amounts import size
from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.reads import Reads, ReadSlice
from slurm_io.analysis.rule_limits import PageCache
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    each_node,
    no_rows,
    shortness,
    sure,
)

_GIB = 2**30
_SLURM_PART = 0.95  # of a node's memory: slurmd and the system keep some


@dataclass(frozen=True)
class _Room:
    """Memory that the page cache can have, on the node with least. `by_limit`: the control group's
    limit is what bounds it."""

    node: str
    room_bytes: float
    by_limit: bool


@dataclass(frozen=True)
class _Names:
    """Files that were seen waited for: in the first pass, in `later` ones, in both (`same`), and in
    both on one node (`own`)."""

    first: int
    later: int
    same: int
    own: int


@RULES.register("f17_page_cache_thrash")
class PageCacheThrash:
    """Each pass reads the data from storage again."""

    code = "F17"
    title = "dataset read from storage again in every pass, memory too small for it"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """Fires only where storage is awaited and passes can be compared."""
        if not picture.loses_to_storage:
            share = picture.data_storage.value
            return Answer("quiet", f"waiting for storage took {share:.1%} of training")
        reads, limits = picture.reads, picture.thresholds.rules.cache
        if reads is None:
            return Answer("not enough evidence", "the processes' reads were not recorded")
        if reads.kind != "epoch" or len(reads.slices) < 2:
            why = "the job made one pass over its data, or nobody saw where passes begin"
            return Answer("quiet", why)
        unfit = _unfit(reads, limits)
        if unfit is not None:
            return unfit
        return _judge(picture, reads, limits)


def _unfit(reads: Reads, limits: PageCache) -> Answer | None:
    """The answer where passes cannot be compared, or do not read again."""
    first, later = reads.slices[0], reads.slices[1:]
    if first.span_s < limits.least_span_s:
        why = f"a pass takes {first.span_s:.1f} s: too short to be told from the next"
        return Answer("not enough evidence", why)
    # The last pass may have been cut off: a few batches of it say nothing.
    whole = [one for one in later if one.span_s >= limits.least_span_s and one.batches]
    if not whole or not first.batches:
        return Answer("not enough evidence", "no later pass is long enough")
    if first.storage.low is None or any(one.storage.low is None for one in whole):
        why = f"what came from storage is not known: {first.storage.why or 'no counter'}"
        return Answer("not enough evidence", why)
    if first.storage.low < limits.least_bytes:
        return Answer("quiet", f"the first pass read {size(first.storage.low)} from storage")
    least = min(_again(first, one) for one in whole)
    if least < limits.reread_share:
        return Answer("quiet", f"a later pass read {least:.0%} of the first one's from storage")
    if not reads.mapped and any(_asked(first, one) < limits.same_asked for one in whole):
        return Answer("quiet", "later passes asked for less than the first")
    return None


def _again(first: ReadSlice, later: ReadSlice) -> float:
    """Bytes from storage a batch, over the first pass's."""
    cold = (first.storage.low or 0.0) / first.batches
    return (later.storage.low or 0.0) / later.batches / cold if cold > 0 else 0.0


def _asked(first: ReadSlice, later: ReadSlice) -> float:
    if not first.asked_bytes or later.asked_bytes is None:
        return 1.0
    return (later.asked_bytes / later.batches) / (first.asked_bytes / first.batches)


def _judge(picture: Picture, reads: Reads, limits: PageCache) -> Answer:
    room = _room(picture)
    if room is None:
        return no_rows("node")
    read = reads.slices[0].storage.low or 0.0  # of all nodes: a shuffled pass comes to every one
    if room.room_bytes >= read:
        why = (
            f"{size(room.room_bytes)} of memory could hold the {size(read)} of a pass: direct I/O, "
            "a cache that is dropped, or a file system that keeps none"
        )
        return Answer("quiet", why)
    names = _names(picture)
    if _are_others(names, _most_files(picture, reads)):
        return Answer("quiet", "later passes waited for other files than the first")
    if room.room_bytes >= read / max(1, len(picture.store.nodes)):
        if names.same < limits.least_same:
            why = "memory could hold a node's part of a pass; which files it read is not known"
            return Answer("not enough evidence", why)
        if names.own >= limits.own_files * names.same:
            return Answer("quiet", "each node reads its own part, which memory could hold")
    return Answer("fired", findings=(_finding(picture, reads, room, names, limits),))


def _room(picture: Picture) -> _Room | None:
    """Medians over training, of the node with least."""
    spans = picture.watch.spans
    columns = ("path", "mem_limit_bytes", "mem_anon_bytes", "mem_shmem_bytes")
    groups = rows_between(picture.tables, spans, "cgroup", columns).rows
    left = (pl.col("mem_limit_bytes") - held_bytes()).clip(0)
    by_group = (
        groups.filter(pl.col("mem_limit_bytes") > 0)
        .group_by("node", "path")
        .agg(left.median().alias("room"))
        .drop_nulls()
    )
    free = rows_between(picture.tables, spans, "node", ("mem_available_bytes",)).rows
    by_node = free.group_by("node").agg(pl.col("mem_available_bytes").median().alias("room"))
    found = [
        *(_Room(node, room, True) for node, room in by_group.select("node", "room").rows()),
        *(_Room(node, room, False) for node, room in by_node.drop_nulls().rows()),
    ]
    return min(found, key=lambda one: (one.room_bytes, one.node), default=None)


def _names(picture: Picture) -> _Names:
    """Names that the samples told."""
    starts = picture.causes.rows.select("proc", "start", "epoch").sort("start")
    named = picture.causes.samples.filter((pl.col("n_storage") > 0) & pl.col("path").is_not_null())
    columns = ("proc", "path", pl.col("node").cast(pl.String))
    placed = named.select(*columns, pl.col("mono_ns").alias("start")).sort("start")
    placed = placed.join_asof(
        starts, on="start", by="proc", strategy="backward", check_sortedness=False
    ).drop_nulls("epoch")
    began = placed["epoch"].min()
    first = set(placed.filter(pl.col("epoch") == began).select("node", "path").unique().rows())
    later = set(placed.filter(pl.col("epoch") != began).select("node", "path").unique().rows())
    first_paths, later_paths = {path for _, path in first}, {path for _, path in later}
    same = first_paths & later_paths
    own = {path for _, path in first & later}
    return _Names(len(first_paths), len(later_paths), len(same), len(own))


def _most_files(picture: Picture, reads: Reads) -> int | None:
    """How many files a pass can have read: one a sample; None where no loader told its batches."""
    sizes = [size for view in picture.store.nodes.values() for size in batch_sizes(view)]
    return max(sizes) * reads.slices[0].batches if sizes else None


def _are_others(names: _Names, most_files: int | None) -> bool:
    """Whether more files were seen than one set can have, and none in two passes. Fewer without one
    seen twice tell nothing: samples come in time with the files, not by chance."""
    return not names.same and bool(most_files) and names.first + names.later > (most_files or 0)


def _finding(
    picture: Picture, reads: Reads, room: _Room, names: _Names, limits: PageCache
) -> Finding:
    first = reads.slices[0]
    whole = [one for one in reads.slices[1:] if one.span_s >= limits.least_span_s and one.batches]
    again = min(_again(first, one) for one in whole)
    read, share = first.storage.low or 0.0, picture.data_storage.value
    what = "the job's memory limit leaves" if room.by_limit else "the node has"
    evidence = [
        Evidence(
            f"the first pass read {size(read)} from storage, each of the {len(whole)} later ones "
            f"at least {again:.0%} of it (bytes a batch)",
            "reread_share", again, limits.reread_share,
        ),
        Evidence(
            f"{what} {size(room.room_bytes)} for the page cache on {room.node} (median)",
            "cache_room_bytes", room.room_bytes, read,
        ),
        *_same(names, limits),
        Evidence(
            f"waiting for storage took {share:.1%} of training GPU time",
            "data_storage_share", share, picture.thresholds.shares.data_storage,
        ),
        *shortness(picture),
    ]  # fmt: skip
    mounts = tuple(mount for mount, _ in reads.mounts)
    return Finding(
        rule="F17",
        severity="warn",
        confidence=_confidence(picture, 1 + (names.same >= limits.same_files)),
        title=f"every pass reads the data from {', '.join(mounts) or 'storage'} again",
        lost_gpu_s=None,  # part of what F01 counts
        where=Place(mounts=mounts),
        evidence=tuple(evidence),
        remedy=_remedy(picture, room, read),
        commands=_commands(picture, room, read, mounts),
    )


def _same(names: _Names, limits: PageCache) -> list[Evidence]:
    if names.same < limits.same_files:
        return []
    text = (
        f"{names.same} of the {names.later} files that later passes were seen waiting for were "
        "waited for in the first as well"
    )
    return [Evidence(text, "same_files", names.same, limits.same_files)]


def _confidence(picture: Picture, signals: int) -> Confidence:
    """Never surer than that storage is the cause at all."""
    order: tuple[Confidence, ...] = ("not-proven", "likely", "proven")
    return min(sure(signals), picture.storage_confidence, key=order.index)


def _remedy(picture: Picture, room: _Room, read: float) -> str:
    found = "copy the data to node-local NVMe and read it there"
    nodes = len(picture.store.nodes)
    if nodes > 1 and room.room_bytes >= read / nodes:
        part = size(read / nodes)
        found += f"; or let each node read the same part in every pass: {part} fit into its memory"
    if _wanted_gib(picture, room, read) is not None:
        found += "; or ask for more memory, the node has it"
    return found


def _wanted_gib(picture: Picture, room: _Room, read: float) -> int | None:
    """Memory to ask for so that a pass fits; None where the node has not so much, or the limit is
    not what is short."""
    limit, node = memory_limit_bytes(picture)
    if not room.by_limit or limit is None or node is None:
        return None
    wanted = limit - room.room_bytes + 1.1 * read
    return int(-(-wanted // _GIB)) if wanted <= _SLURM_PART * node else None


def _commands(
    picture: Picture, room: _Room, read: float, mounts: tuple[str, ...]
) -> tuple[str, ...]:
    found = []
    target = next(iter(mounts), None)
    if target is not None:
        start = each_node(picture)
        source = f"{shlex.quote(target)}/DATASET/"
        found += [
            f'{start}mkdir -p "$TMPDIR/dataset"',
            f'{start}rsync -a {source} "$TMPDIR/dataset/"',
        ]
    wanted = _wanted_gib(picture, room, read)
    if wanted is not None:
        found.append(f"#SBATCH --mem={wanted}G")
    return tuple(found)
