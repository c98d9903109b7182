"""Any other file system: the share of a file that has blocks, which may accuse and never clears.

Guards, each seen to lie: files up to 64 MiB are not judged (inline data, data in the inode or on
the metadata server); nor what was written in the last two minutes (write caches, delayed
allocation); nor a mount on which most large files look alike (compression); nor FUSE and Ceph
mounts that make block counts up from sizes, or give none at all. A sparse file stays a false alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurm_io.filesystems.kinds import Kind
from slurm_io.filesystems.residency.base import SYSTEMS, Seen, System, Verdict

BIG_BYTES = 64 << 20
HOLES_BELOW = 0.5
SETTLED_S = 120.0
_EMPTY_BELOW = 0.02
_MADE_UP: frozenset[Kind] = frozenset({"ceph", "weka"})
_BLOCK_BYTES = 512
_SOURCE = "st_blocks"


def blocks_share(size_bytes: int, blocks: int) -> float:
    """Allocated bytes to size (may be above 1)."""
    return blocks * _BLOCK_BYTES / size_bytes if size_bytes > 0 else 1.0


def accuse(
    files: Sequence[Seen], all_files: Iterable[Seen], kind: Kind, now_s: float
) -> dict[str, Verdict]:
    """Verdicts by path for `files`, each "released" (Lustre's one block), "suspect" or "unknown".

    `all_files` are those of the same mount whose residency may be known: what they look like says
    whether block counts mean anything here. `now_s` is seconds since the epoch.
    """
    reason = _meaningless(all_files, kind)
    if reason:
        return {each.path: Verdict("unknown", reason=reason) for each in files}
    below = _accusing_below(files, now_s)
    return {each.path: _verdict(each, kind, below, now_s) for each in files}


def _meaningless(all_files: Iterable[Seen], kind: Kind) -> str:
    if kind in _MADE_UP:
        return f"block counts say nothing on {kind}"
    if kind == "fuse" and not any(each.blocks for each in all_files if each.size_bytes):
        return "this FUSE file system gives no block counts"
    return ""


def _accusing_below(files: Sequence[Seen], now_s: float) -> float:
    """The share below which a file is suspect; lower where most look compressed."""
    shares = [
        blocks_share(each.size_bytes, each.blocks) for each in files if not _excused(each, now_s)
    ]
    alike = sum(_EMPTY_BELOW <= share < HOLES_BELOW for share in shares)
    return _EMPTY_BELOW if len(shares) > 1 and alike * 2 > len(shares) else HOLES_BELOW


def _verdict(each: Seen, kind: Kind, below: float, now_s: float) -> Verdict:
    if kind == "lustre" and each.blocks == 1 and each.size_bytes > _BLOCK_BYTES:
        return Verdict("released", each.size_bytes, _SOURCE)
    excuse = _excused(each, now_s)
    if excuse:
        return Verdict("unknown", reason=excuse)
    share = blocks_share(each.size_bytes, each.blocks)
    if share < below:
        return Verdict("suspect", source=_SOURCE, reason=f"blocks for {share:.0%} of its size")
    return Verdict("unknown", reason=f"block counts can accuse on {kind}, not clear")


def _excused(each: Seen, now_s: float) -> str:
    if each.size_bytes <= BIG_BYTES:
        return "small files are not judged by their blocks"
    if now_s - each.changed_s <= SETTLED_S:
        return "written a moment ago"
    return ""


generic = SYSTEMS.register("generic")(
    System(kinds=("nfs", "beegfs", "ceph", "smb", "fuse", "overlay", "pseudo", "other"))
)
