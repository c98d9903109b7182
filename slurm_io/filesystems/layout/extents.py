"""Do the components of a composite layout fit together? They must cover the file, mirror by mirror,
without overlap and without gap, and so must their own bytes within the attribute.

Each check raises :class:`LayoutError`, one line.
"""

from __future__ import annotations

from slurm_io.filesystems.layout.model import Component, LayoutError

ALIGNMENT_BYTES = 8
_END = 1 << 64


def check_places(places: list[tuple[int, int]], first: int, size: int) -> None:
    """Components' own bytes follow one another up to the end, with room for alignment only."""
    position = first
    for start, end in sorted(places):
        if not position <= start < position + ALIGNMENT_BYTES:
            raise LayoutError(f"bytes of a component begin at {start}, not at {position}")
        position = end
    if size - position >= ALIGNMENT_BYTES:
        raise LayoutError(f"{size - position} bytes behind the last component")


def mirror_groups(parts: list[Component], is_directory: bool) -> list[list[Component]]:
    """Components of each mirror; ids in templates mean nothing, there each mirror begins at 0."""
    groups: dict[int, list[Component]] = {}
    if is_directory:
        for part in parts:
            if not groups or (part.start_bytes == 0 and groups[len(groups)][-1].end_bytes != 0):
                groups[len(groups) + 1] = []
            groups[len(groups)].append(part)
        return list(groups.values())
    if len({part.component_id for part in parts}) != len(parts):
        raise LayoutError("two components have the same id")
    for part in parts:
        groups.setdefault(part.mirror_id, []).append(part)
    return list(groups.values())


def check_mirrors(groups: list[list[Component]], mirrors: int, parities: int) -> None:
    data_groups = [parts for parts in groups if not all(part.is_parity for part in parts)]
    if not len(data_groups) <= mirrors <= len(groups) + parities:
        raise LayoutError(f"{len(groups)} mirrors found, {mirrors} announced")
    for parts in groups:
        _check_extents(sorted(parts, key=_extent))


def _check_extents(parts: list[Component]) -> None:
    """A mirror covers the file from 0 on, without overlap and without gap."""
    position: int | None = 0
    may_be_empty = any(part.is_extension for part in parts)
    for part in parts:
        if part.start_bytes != position:
            wanted = "behind the end of the file" if position is None else f"not at {position}"
            raise LayoutError(f"a component begins at {part.start_bytes}, {wanted}")
        if part.start_bytes == part.end_bytes and not may_be_empty:
            raise LayoutError(f"an empty component at {part.start_bytes}")
        position = part.end_bytes


def _extent(part: Component) -> tuple[int, int]:
    return part.start_bytes, _END if part.end_bytes is None else part.end_bytes
