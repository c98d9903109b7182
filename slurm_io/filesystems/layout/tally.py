"""What an audit keeps of a tree: histograms and the worst few, whatever the number of files."""

from __future__ import annotations

import heapq
import os
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import busiest_share
from slurm_io.filesystems.layout.policy import (
    GIB,
    MIB,
    Code,
    Finding,
    Use,
    judge_width,
    released,
    stale_mirror,
    width_finding,
)
from slurm_io.filesystems.layout.quick import Shape, osts_behind

SIZE_EDGES_BYTES = (1, 4 * MIB, 64 * MIB, GIB, 10 * GIB, 100 * GIB, 1 << 40)
SIZE_NAMES = (
    "empty", "< 4 MiB", "< 64 MiB", "< 1 GiB", "< 10 GiB", "< 100 GiB", "< 1 TiB", "larger",
)  # fmt: skip
WIDTH_EDGES = (1, 2, 4, 8, 16, 64, 256)
WIDTH_NAMES = ("0", "1", "2-3", "4-7", "8-15", "16-63", "64-255", "256+")
MOST_KINDS = 64
EXAMPLES = 3
_MOST_SEEN = 50_000
_COUNTS = (
    "files", "skipped", "directories", "others", "size_bytes", "layouts", "without_layout",
    "not_lustre", "small_wide", "on_mdt",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Worst:
    """One of the largest that break the policy."""

    size_bytes: int
    path: str
    finding: Finding = field(compare=False)


@dataclass
class Top:
    """The largest few of many, and how many there were."""

    keep: int
    count: int = 0
    size_bytes: int = 0
    heap: list[Worst] = field(default_factory=list)

    def add(self, size_bytes: int, path: str, finding: Callable[[], Finding]) -> None:
        """Count one; keep it when it is among the largest. `finding` is made only then."""
        self.count += 1
        self.size_bytes += size_bytes
        if len(self.heap) < self.keep or (self.keep and self._is_worse(size_bytes, path)):
            self._push(Worst(size_bytes, path, finding()))

    def merge(self, other: Top) -> None:
        """Add another part of the tree."""
        self.count += other.count
        self.size_bytes += other.size_bytes
        for worst in other.heap:
            self._push(worst)

    def findings(self) -> list[Finding]:
        """Largest first."""
        return [worst.finding for worst in sorted(self.heap, reverse=True)]

    def _is_worse(self, size_bytes: int, path: str) -> bool:
        least = self.heap[0]
        return (size_bytes, path) > (least.size_bytes, least.path)

    def _push(self, worst: Worst) -> None:
        if len(self.heap) < self.keep:
            heapq.heappush(self.heap, worst)
        else:
            heapq.heappushpop(self.heap, worst)


@dataclass
class Kinds:
    """How often each of a few words was said, with examples; beyond `MOST_KINDS`, "others"."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def add(self, word: str, example: str, count: int = 1) -> None:
        """Count one word."""
        if word not in self.counts and len(self.counts) >= MOST_KINDS:
            word = "others"
        self.counts[word] = self.counts.get(word, 0) + count
        known = self.examples.setdefault(word, [])
        if len(known) < EXAMPLES:
            known.append(example)

    def merge(self, other: Kinds) -> None:
        """Add another part of the tree."""
        for word, count in other.counts.items():
            first, *rest = other.examples[word]
            self.add(word, first, count)
            self.examples.setdefault(word, []).extend(rest)
            del self.examples[word][EXAMPLES:]

    def total(self) -> int:
        """All counts together."""
        return sum(self.counts.values())


@dataclass
class Counts:
    """The folders with most of something: exact for those that always were among `MOST_KINDS`."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int) -> None:
        """Count; forget the smallest when there are too many."""
        self.counts[name] = self.counts.get(name, 0) + count
        if len(self.counts) > 2 * MOST_KINDS:
            self.counts = dict(self.largest(MOST_KINDS))

    def merge(self, other: Counts) -> None:
        """Add another part of the tree."""
        for name, count in other.counts.items():
            self.add(name, count)

    def largest(self, most: int) -> list[tuple[str, int]]:
        """(name, count), largest first."""
        return heapq.nlargest(most, self.counts.items(), key=lambda item: item[1])


def _table() -> list[list[int]]:
    return [[0] * len(WIDTH_NAMES) for _ in SIZE_NAMES]


@dataclass
class Tally:
    """One tree or a part of it. `histogram[size class][width class]` counts files; width is the
    number of OSTs behind the file's bytes. OST bytes are shares of sizes: holes are not seen.
    `small_wide_below`: the folder that all small files with more than one stripe lie below."""

    use: Use
    keep: int = 20
    files: int = 0
    skipped: int = 0
    directories: int = 0
    others: int = 0
    size_bytes: int = 0
    layouts: int = 0
    without_layout: int = 0
    not_lustre: int = 0
    small_wide: int = 0
    on_mdt: int = 0
    histogram: list[list[int]] = field(default_factory=_table)
    ost_objects: dict[int, int] = field(default_factory=dict)
    ost_bytes: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    broken: dict[Code, Top] = field(default_factory=dict)
    small_wide_folders: Counts = field(default_factory=lambda: Counts())
    small_wide_below: str | None = None
    defaults: Kinds = field(default_factory=Kinds)
    errors: Kinds = field(default_factory=Kinds)
    _seen_osts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        limits = self.use.thresholds
        self._judged_from_bytes = min(limits.large_bytes, limits.single_bytes)
        self._widest = limits.widest_osts
        self._small_bytes = limits.small_bytes

    def add(
        self,
        folder: str,
        name: bytes,
        size_bytes: int,
        shape: Shape,
        osts: tuple[int, ...],
        data: bytes,
    ) -> bool:
        """Count the file `folder` + `name` with its layout; True when it is small and has more than
        one stripe. `data` are the layout's bytes: the few misfits are judged by the strict reader.
        """
        behind = (
            osts if size_bytes > shape.last_start_bytes else osts_behind(shape, osts, size_bytes)
        )
        objects = width = len(behind)
        if objects > 1:
            width = len(set(behind))
        self.layouts += 1
        self.size_bytes += size_bytes
        row = self.histogram[bisect_right(SIZE_EDGES_BYTES, size_bytes)]
        row[bisect_right(WIDTH_EDGES, width)] += 1
        if osts:
            self._seen_osts.extend(osts)
            if size_bytes:
                self._spread(shape, osts, size_bytes)
            if len(self._seen_osts) > _MOST_SEEN:
                self.settle()
        elif not shape.is_released:
            self.on_mdt += 1
        if size_bytes >= self._judged_from_bytes or width > self._widest or shape.is_bad:
            self._judge(folder + os.fsdecode(name), size_bytes, width, shape, data)
        is_small_wide = objects > 1 and 0 < size_bytes < self._small_bytes
        self.small_wide += is_small_wide
        return is_small_wide

    def add_small_wide(self, folder: str, count: int) -> None:
        """Name the folder of small files that `add` said True to."""
        self.small_wide_folders.add(folder, count)
        self._widen(folder)

    def merge(self, other: Tally) -> None:
        """Add another part of the tree."""
        self.settle()
        other.settle()
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for row, more in zip(self.histogram, other.histogram, strict=True):
            row[:] = [mine + theirs for mine, theirs in zip(row, more, strict=True)]
        for ost, count in other.ost_objects.items():
            self.ost_objects[ost] = self.ost_objects.get(ost, 0) + count
        for ost, count in other.ost_bytes.items():
            self.ost_bytes[ost] += count
        for code, top in other.broken.items():
            self.broken.setdefault(code, Top(self.keep)).merge(top)
        self.small_wide_folders.merge(other.small_wide_folders)
        self._widen(other.small_wide_below)
        self.defaults.merge(other.defaults)
        self.errors.merge(other.errors)

    def settle(self) -> None:
        """Count the OSTs seen since the last time; before `ost_objects` is read."""
        for ost, count in Counter(self._seen_osts).items():
            self.ost_objects[ost] = self.ost_objects.get(ost, 0) + count
        self._seen_osts.clear()

    def _widen(self, folder: str | None) -> None:
        if folder is not None and self.small_wide_below is not None:
            folder = os.path.commonpath((folder, self.small_wide_below))
        self.small_wide_below = folder or self.small_wide_below

    def _spread(self, shape: Shape, osts: tuple[int, ...], size_bytes: int) -> None:
        per_ost = self.ost_bytes
        for start, end, first, objects, stripe_size in shape.parts:
            covered = min(size_bytes, end) - start
            if covered <= 0 or not objects:
                continue
            if objects == 1 or covered <= stripe_size:
                per_ost[osts[first]] += covered
                continue
            # A file shorter than its stripes lies on its first ones.
            used = min(objects, -(-covered // stripe_size))
            for ost in osts[first : first + used]:
                per_ost[ost] += covered // used

    def _judge(self, path: str, size_bytes: int, width: int, shape: Shape, data: bytes) -> None:
        if shape.is_released:
            self._break("released", path, size_bytes, lambda: released(path, size_bytes))
        if shape.has_stale_mirror:
            self._break("stale-mirror", path, size_bytes, lambda: stale_mirror(path))
        use = self.use
        code = judge_width(
            width, size_bytes, use, lambda: busiest_share(parse_lov(data), size_bytes)
        )
        if code is not None:
            self._break(
                code,
                path,
                size_bytes,
                lambda: width_finding(code, path, size_bytes, parse_lov(data), use),
            )

    def _break(
        self, code: Code, path: str, size_bytes: int, finding: Callable[[], Finding]
    ) -> None:
        self.broken.setdefault(code, Top(self.keep)).add(size_bytes, path, finding)
