"""Judges layouts: file size x readers x kind of file, never the stripe count alone.

What the sites advise differs (docs/stripe.md has the table), so the rules are the ones they share:

* a large file read by many nodes at once must not hang on one or a few OSTs;
* a small file gains nothing from more than one stripe, each of which every open and stat asks;
* progressive, self-extending and data-on-MDT layouts are good as they are: what counts is how the
  bytes of *this* file lie, not the first component;
* one file per rank with one stripe each is spread by the servers: nothing to mend;
* "all OSTs" (-1) is never advised: at most `most_osts`, and never more than are active.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from slurm_io.filesystems.layout import commands
from slurm_io.filesystems.layout.model import (
    Layout,
    busiest_share,
    data_components,
    effective_width,
)

WidthCode = Literal["narrow", "too-wide"]
Code = Literal[
    "narrow", "small-wide", "too-wide", "imbalance", "released", "stale-mirror", "default-narrow",
    "default-wide",
]  # fmt: skip

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
NEVER_RUN = "slurm-io runs none of these commands"


@dataclass(frozen=True)
class Thresholds:
    """Where a layout becomes a finding. Sources: docs/stripe.md.

    A file is narrow when it has at least `large_bytes`, is read by at least `many_readers` nodes
    and lies on fewer than `enough_osts` OSTs (or more than half of it on one); from `single_bytes`
    on, read by `single_readers` nodes, when it lies on one.
    """

    large_bytes: int = 10 * GIB
    many_readers: int = 4
    enough_osts: int = 4
    single_bytes: int = GIB
    single_readers: int = 8
    small_bytes: int = 4 * MIB
    many_small_files: int = 1000
    most_osts: int = 72
    widest_osts: int = 450
    imbalance_ratio: float = 3.0
    imbalance_objects_per_ost: int = 20
    busiest_share: float = 0.5


@dataclass(frozen=True)
class Finding:
    """One thing that does not fit. `text` is one line; `commands` are for a person, never run."""

    code: Code
    text: str
    path: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    commands: tuple[str, ...] = ()


def advised_osts(
    size_bytes: int, active_osts: int | None, thresholds: Thresholds | None = None
) -> int:
    """Stripe count for one large file that many nodes read at once.

    4 below 10 GiB, 8 below 100 GiB, 24 below 1 TiB, 72 up to 16 TiB, 128 beyond: the steps of
    NERSC and OLCF, cut to `most_osts` (to `widest_osts` beyond 16 TiB) and to the active OSTs.
    """
    limits = thresholds or Thresholds()
    steps = ((10 * GIB, 4), (100 * GIB, 8), (TIB, 24), (16 * TIB, 72))
    count = next((count for below, count in steps if size_bytes < below), 128)
    most = limits.most_osts if size_bytes < 16 * TIB else max(limits.most_osts, limits.widest_osts)
    return max(1, min(count, most, active_osts or count))


@dataclass(frozen=True)
class Use:
    """How files are read: by `readers` nodes at once, from a file system of `active_osts` OSTs
    (None when not known), and what counts as a misfit then."""

    readers: int
    active_osts: int | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)


def judge_file(
    path: str,
    size_bytes: int,
    layout: Layout,
    readers: int,
    active_osts: int | None = None,
    thresholds: Thresholds | None = None,
) -> tuple[Finding, ...]:
    """What does not fit about one file read by `readers` nodes at once. Small files are judged by
    their number (:func:`judge_small_files`), not one by one."""
    if layout.incomplete is not None:
        return ()
    use = Use(readers, active_osts, thresholds or Thresholds())
    found = []
    if layout.is_released:
        found.append(released(path, size_bytes))
    if layout.has_stale_mirror:
        found.append(stale_mirror(path))
    width = effective_width(layout, size_bytes)
    code = judge_width(width, size_bytes, use, lambda: busiest_share(layout, size_bytes))
    if code is not None:
        found.append(width_finding(code, path, size_bytes, layout, use))
    return tuple(found)


def judge_width(
    width: int, size_bytes: int, use: Use, share: Callable[[], float | None]
) -> WidthCode | None:
    """Only whether a file on `width` OSTs lies on too few or too many. `share` (of its bytes on the
    fullest of them) is asked only where it decides."""
    limits = use.thresholds
    if width > limits.widest_osts:
        return "too-wide"
    if width == 0:  # on the MDT
        return None
    if size_bytes >= limits.large_bytes and use.readers >= limits.many_readers:
        if width >= limits.enough_osts and (share() or 0) <= limits.busiest_share:
            return None
    elif size_bytes < limits.single_bytes or use.readers < limits.single_readers or width > 1:
        return None
    # Where all OSTs are in use already, evenly, there is nothing to spread over.
    active_osts = use.active_osts
    if active_osts is not None and width >= active_osts and (share() or 0) < 1.5 / active_osts:
        return None
    return "narrow"


def width_finding(code: WidthCode, path: str, size_bytes: int, layout: Layout, use: Use) -> Finding:
    """The finding for a file that was judged "narrow" or "too-wide"."""
    width = effective_width(layout, size_bytes)
    size, limits = human(size_bytes), use.thresholds
    facts: dict[str, Any] = {"size_bytes": size_bytes, "osts": width}
    if code == "too-wide":
        advice = min(advised_osts(size_bytes, None, limits), limits.widest_osts)
        text = (
            f"on {width} OSTs: each open and lock asks all of them, and one slow OST stops the"
            f" file; {advice} are enough for {size}"
        )
    else:
        advice = max(advised_osts(size_bytes, use.active_osts, limits), 2)
        where = f"{size} on {_osts(width, busiest_share(layout, size_bytes))}"
        text = f"{where}, read by {use.readers} nodes at once: restripe it over {advice}"
        facts["readers"] = use.readers
    facts["advised_osts"] = advice
    pool = next((part.pool for part in data_components(layout, size_bytes)), None)
    command = commands.restripe(path, advice, pool)
    if layout.mirror_count > 1:
        text += f" (add such a mirror, then take the old ones of {layout.mirror_count} off)"
        command = commands.add_mirror(path, advice, pool)
    return Finding(code, f"{commands.printable(path)}: {text}", path, facts, (command,))


def _osts(width: int, share: float | None) -> str:
    if width == 1 or share is None:
        return f"{width} OST{'s' if width != 1 else ''}"
    return f"{width} OSTs ({share:.0%} of it on one)"


def released(path: str, size_bytes: int) -> Finding:
    """The finding for a file whose bytes are in the archive only."""
    return Finding(
        "released",
        f"{commands.printable(path)}: released to the archive ({human(size_bytes)}): its first read"
        " waits until it is restored",
        path,
        {"size_bytes": size_bytes},
        (commands.restore(path),),
    )


def stale_mirror(path: str) -> Finding:
    """The finding for a file with a mirror that missed writes."""
    return Finding(
        "stale-mirror",
        f"{commands.printable(path)}: a mirror is stale: reads use the other one only",
        path,
        {},
        (commands.resync(path),),
    )


def judge_small_files(folder: str, wide_files: int, thresholds: Thresholds) -> Finding | None:
    """Many small files with more than one stripe below a folder; None for few of them."""
    if wide_files <= thresholds.many_small_files:
        return None
    return Finding(
        "small-wide",
        f"{commands.printable(folder)}: {wide_files} files below {human(thresholds.small_bytes)}"
        " have more than one stripe: each open and stat asks every one of their OSTs. Better than"
        " restriping: pack them (tar, WebDataset, squashfs)",
        folder,
        {"files": wide_files, "small_bytes": thresholds.small_bytes},
        (
            commands.set_default(folder, 1),
            commands.restripe_small(folder, thresholds.small_bytes),
        ),
    )


def judge_balance(
    folder: str,
    objects: dict[int, int],
    ost_bytes: dict[int, int],
    active: frozenset[int] | None,
    thresholds: Thresholds,
) -> Finding | None:
    """One OST holds far more of a tree than the mean. Too few objects prove nothing: None."""
    osts = set(objects) | (active or frozenset())
    enough = sum(objects.values()) >= thresholds.imbalance_objects_per_ost * len(osts)
    if len(osts) < 2 or not enough:
        return None
    mean = sum(ost_bytes.values()) / len(osts)
    fullest = max(ost_bytes, key=lambda ost: ost_bytes[ost], default=None)
    if fullest is None or mean <= 0 or ost_bytes[fullest] / mean < thresholds.imbalance_ratio:
        return None
    ratio = ost_bytes[fullest] / mean
    return Finding(
        "imbalance",
        f"{commands.printable(folder)}: OST {fullest} holds {human(ost_bytes[fullest])} of it,"
        f" {ratio:.1f} times the mean of {len(osts)} OSTs: reads of the whole tree wait for it."
        " Move its largest files, and give new files no fixed OST (-i)",
        folder,
        {"ost": fullest, "ratio": ratio, "mean_bytes": mean},
        (commands.files_on(folder, fullest, thresholds.single_bytes),),
    )


def human(size_bytes: float) -> str:
    """``10 GiB``, ``3.5 MiB``, ``17 B``."""
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    power = min(int(math.log2(size_bytes) / 10), 6)
    value = size_bytes / 1024**power
    return f"{value:.1f}".removesuffix(".0") + f" {'KMGTPE'[power - 1]}iB"
