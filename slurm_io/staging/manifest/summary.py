"""What one manifest holds, at a glance: totals, sizes, roles, the biggest files."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.manifest.rows import header_row

# Upper bounds of size classes, in bytes; powers of ten: what file systems and loaders differ at.
_CLASSES = (0, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**10, 10**11)
_BIGGEST = 5


@dataclass(frozen=True)
class SizeClass:
    """Files of at most `up_to_bytes` (None: of any size above, or of unknown size)."""

    label: str
    up_to_bytes: int | None
    file_count: int
    total_bytes: int


@dataclass(frozen=True)
class Summary:
    """One manifest in numbers. `without_digest`: files whose content nobody vouches for."""

    header: Header
    sizes: tuple[SizeClass, ...]
    roles: dict[str, int]
    algorithms: dict[str, int]
    biggest: tuple[FileEntry, ...]
    without_digest: int
    with_chunks: int

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "header": header_row(self.header),
            "signed_by": signer_of(self.header),
            "sizes": [
                {
                    "up_to_bytes": each.up_to_bytes,
                    "label": each.label,
                    "file_count": each.file_count,
                    "total_bytes": each.total_bytes,
                }
                for each in self.sizes
            ],
            "roles": self.roles,
            "algorithms": self.algorithms,
            "biggest": [{"path": e.path, "size_bytes": e.size_bytes} for e in self.biggest],
            "without_digest": self.without_digest,
            "with_chunks": self.with_chunks,
        }

    def lines(self) -> Iterator[str]:
        """For people: one screen."""
        yield from header_lines(self.header)
        yield "sizes"
        largest = max((each.file_count for each in self.sizes), default=1)
        for each in self.sizes:
            bar = "#" * max(1, round(30 * each.file_count / largest))
            total = human_bytes(each.total_bytes)
            yield f"  {each.label:>12}  {each.file_count:>9}  {total:>9}  {bar}"
        yield "roles       " + _counts(self.roles)
        yield "digests     " + (_counts(self.algorithms) or "none")
        if self.without_digest:
            yield f"            {self.without_digest} file(s) without one: only sizes are known"
        yield "biggest"
        for entry in self.biggest:
            yield f"  {human_bytes(entry.size_bytes):>12}  {printable(entry.path, 120)}"


def summarise(manifest: Manifest) -> Summary:
    """Count one manifest."""
    counts: Counter[int | None] = Counter()
    sums: Counter[int | None] = Counter()
    for entry in manifest.files:
        bound = _class_of(entry.size_bytes)
        counts[bound] += 1
        sums[bound] += entry.size_bytes or 0
    known = [bound for bound in (*_CLASSES, -1, None) if counts[bound]]
    return Summary(
        header=manifest.header,
        sizes=tuple(
            SizeClass(_label(b), None if b in (-1, None) else b, counts[b], sums[b]) for b in known
        ),
        roles=dict(Counter(entry.role for entry in manifest.files).most_common()),
        algorithms=dict(
            Counter(e.digest.partition(":")[0] for e in manifest.files if e.digest).most_common()
        ),
        biggest=tuple(
            heapq.nlargest(_BIGGEST, manifest.files, key=lambda entry: entry.size_bytes or 0)
        ),
        without_digest=sum(entry.digest is None for entry in manifest.files),
        with_chunks=sum(bool(entry.chunks) for entry in manifest.files),
    )


def header_lines(header: Header) -> Iterator[str]:
    """A header for people."""
    row = header_row(header)
    yield f"dataset     {_plain(header.dataset)}"
    yield f"content id  {header.content_id}"
    total = header.total_bytes
    size = "of a total size that is not known" if total is None else human_bytes(total)
    yield f"files       {header.file_count}, {size}"
    if header.missing_count:
        yield f"INCOMPLETE  {header.missing_count} path(s) of the folder are missing"
    signer = signer_of(header)
    yield "signature   " + (f"by key {signer} (not verified here)" if signer else "none")
    shown = ("algorithm", "chunk_bytes", "created_at", "creator", "sources", "tokens", "layout")
    for key in (*shown, "requires", "retention_days"):
        if key in row:
            yield f"{key:<11} {_plain(row[key]):.200}"
    for note in header.notes:
        yield f"note        {printable(note)[1:-1]}"


def _plain(value: Any) -> str:
    """A header's value for people: one line of ASCII without Python's brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{_plain(key)} {_plain(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return "; ".join(map(_plain, value))
    return ascii(str(value))[1:-1]


def signer_of(header: Header) -> str | None:
    """The id of the key a manifest says it is signed by; None when it is not signed."""
    return header.signature.split(":")[1] if header.signature else None


def human_bytes(count: int | None) -> str:
    """Bytes in decimal units, ``?`` when not known: 1 GB = 10^9 B."""
    if count is None:
        return "? B"
    value, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB", "PB", "EB"):
        if value < 999.5 or unit == "EB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def _class_of(size_bytes: int | None) -> int | None:
    """The bound of a size's class; -1 above all, None when not known."""
    if size_bytes is None:
        return None
    return next((bound for bound in _CLASSES if size_bytes <= bound), -1)


def _label(bound: int | None) -> str:
    if bound is None:
        return "not known"
    if bound == -1:
        return f"> {human_bytes(_CLASSES[-1])}"
    return "empty" if bound == 0 else f"<= {human_bytes(bound)}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
