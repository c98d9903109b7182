"""A Lustre layout in memory, whichever way it was read, and what it means for a file of some size.

A plain file is a layout of one component that covers it all. Extents are bytes of the file,
``end_bytes`` None meaning its end. Counts of -1 to -32 stand in templates and in components without
objects: -1 is every OST, -N is N objects on every OST.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from slurm_io.errors import SlurmIoError
from slurm_io.filesystems.layout import patterns

Kind = Literal["plain", "composite", "foreign"]


class LayoutError(SlurmIoError):
    """Bytes or text that are no layout, or none that can be read with certainty: one line why."""


@dataclass(frozen=True)
class Object:
    """One stripe: the OST it lies on. `is_hole` = LFSCK lost it; it lies nowhere."""

    ost_index: int
    is_hole: bool = False


@dataclass(frozen=True)
class Foreign:
    """A layout of some other system: `type_name` is posix, s3, symlink, … or None when unknown."""

    type: int
    type_name: str | None
    flags: int
    value: bytes


@dataclass(frozen=True)
class Component:
    """One extent of a file and how it is striped.

    `component_id` is None in templates and plain layouts. `pattern` and `stripe_size_bytes` are
    None when the source does not say. `chosen_osts` are indices asked for but not yet used.
    """

    component_id: int | None
    flags: int
    start_bytes: int
    end_bytes: int | None
    pattern: int | None
    stripe_count: int
    stripe_size_bytes: int | None
    pool: str | None = None
    objects: tuple[Object, ...] = ()
    stripe_offset: int | None = None
    extension_size_bytes: int | None = None
    chosen_osts: tuple[int, ...] = ()
    foreign: Foreign | None = None

    @property
    def mirror_id(self) -> int:
        """0 where there are no mirrors."""
        return (self.component_id or 0) >> 16

    @property
    def is_instantiated(self) -> bool:
        """Has objects (or its place on the MDT) already."""
        return bool(self.flags & patterns.INSTANTIATED)

    @property
    def is_stale(self) -> bool:
        """A mirror's part that missed a write."""
        return bool(self.flags & patterns.STALE)

    @property
    def is_preferred(self) -> bool:
        """The admin's choice among mirrors, for reading."""
        return bool(self.flags & patterns.PREFER_READ)

    @property
    def is_extension(self) -> bool:
        """Space that the component before it may grow into; holds nothing itself."""
        return bool(self.flags & patterns.EXTENSION)

    @property
    def is_parity(self) -> bool:
        """Redundancy of another mirror, no data."""
        return bool(self.flags & patterns.PARITY_COMPONENT or self._pattern & patterns.PARITY)

    @property
    def is_on_mdt(self) -> bool:
        """Data on MDT: the metadata server holds these bytes, no OST."""
        return bool(self._pattern & patterns.MDT)

    @property
    def is_overstriped(self) -> bool:
        """More than one object on an OST is allowed."""
        return bool(self._pattern & patterns.OVERSTRIPED)

    @property
    def is_compressed(self) -> bool:
        """Stored compressed: st_blocks is smaller than the size."""
        both = self._pattern & patterns.COMPRESSED, self.flags & patterns.COMPRESSED_COMPONENT
        return any(both)

    @property
    def is_released(self) -> bool:
        """HSM: the bytes are in the archive only."""
        return bool(self._pattern & patterns.RELEASED)

    @property
    def osts(self) -> tuple[int, ...]:
        """OST of each object, in order, holes left out."""
        return tuple(each.ost_index for each in self.objects if not each.is_hole)

    @property
    def _pattern(self) -> int:
        return self.pattern or 0


@dataclass(frozen=True)
class Layout:
    """How one file is laid out; a directory's template with `is_template`.

    `incomplete` says what is missing when the text was cut: then counts must not be trusted.
    `remarks` are bits and words that are not known here.
    """

    kind: Kind
    components: tuple[Component, ...]
    mirror_count: int = 1
    mirror_state: str = "none"
    layout_gen: int | None = None
    is_template: bool = False
    incomplete: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def is_released(self) -> bool:
        """Some of the file is in the archive only."""
        return any(part.is_released for part in self.components)

    @property
    def has_stale_mirror(self) -> bool:
        """Some mirror missed a write and waits for `lfs mirror resync`."""
        return any(part.is_stale for part in self.components)

    def mirrors(self) -> dict[int, tuple[Component, ...]]:
        """Components by mirror id, parity left out."""
        found: dict[int, list[Component]] = {}
        for part in self.components:
            if not part.is_parity:
                found.setdefault(part.mirror_id, []).append(part)
        return {mirror: tuple(parts) for mirror, parts in found.items()}


@dataclass(frozen=True)
class DirectoryDefault:
    """What new files of a directory get. `layout` None: it has no template of its own to show, so
    the file system's default holds (count 1 unless the site changed it)."""

    layout: Layout | None

    @property
    def is_file_system_default(self) -> bool:
        """Nothing is asked for: no template, or a count and a size of 0."""
        return self.layout is None or all(
            part.stripe_count == 0 and not part.stripe_size_bytes and not part.is_on_mdt
            for part in self.layout.components
        )


@dataclass(frozen=True)
class MdtLayout:
    """Default striping of new subdirectories over metadata servers (LMV). -1 = any."""

    stripe_count: int
    stripe_offset: int
    hash_name: str
    max_inherit: int | None = None
    max_inherit_rr: int | None = None
    pool: str | None = None


def data_components(layout: Layout, size_bytes: int | None) -> tuple[Component, ...]:
    """Components that hold the first `size_bytes` (None: all) in the one mirror a reader uses.

    The mirror is the preferred one without stale parts, else the first such, else the first.
    """
    return tuple(
        part
        for part in _reading_mirror(layout)
        if part.is_instantiated
        and not part.is_extension
        and part.foreign is None
        and part.end_bytes != part.start_bytes
        and (size_bytes is None or part.start_bytes < max(size_bytes, 1))
    )


def distinct_osts(parts: Iterable[Component]) -> frozenset[int]:
    """OSTs that hold an object: with overstriping fewer than the stripe count."""
    return frozenset(ost for part in parts for ost in part.osts)


def effective_width(layout: Layout, size_bytes: int | None) -> int:
    """How many OSTs hold objects behind the first `size_bytes`; 0 for data on the MDT only."""
    return len(distinct_osts(data_components(layout, size_bytes)))


def ost_bytes(layout: Layout, size_bytes: int) -> dict[int, int]:
    """OST -> bytes of a file of that size, as if it had no holes."""
    found: dict[int, int] = {}
    for part in data_components(layout, size_bytes):
        end = size_bytes if part.end_bytes is None else min(part.end_bytes, size_bytes)
        count, size = len(part.objects), part.stripe_size_bytes
        for number, each in enumerate(part.objects):
            if size and not each.is_hole:
                share = _on_stripe(end, number, count, size)
                share -= _on_stripe(part.start_bytes, number, count, size)
                found[each.ost_index] = found.get(each.ost_index, 0) + share
    return found


def busiest_share(layout: Layout, size_bytes: int) -> float | None:
    """Share of the bytes that the fullest OST holds; None when no OST holds any."""
    per_ost = ost_bytes(layout, size_bytes).values()
    return max(per_ost) / size_bytes if per_ost and size_bytes > 0 else None


def would_use(part: Component, active_osts: int | None) -> int | None:
    """OSTs a component takes when it gets its objects; None when that depends on an unknown."""
    if part.is_on_mdt or part.is_extension:
        return 0
    count = part.stripe_count or 1
    if count < 0:
        return active_osts
    return count if active_osts is None else min(count, active_osts)


def template_width(layout: Layout, active_osts: int | None) -> int | None:
    """The most OSTs a new file could use in one mirror; None when that depends on an unknown."""
    widths = [would_use(part, active_osts) for part in _reading_mirror(layout)]
    known = [width for width in widths if width is not None]
    return None if len(known) < len(widths) or not known else max(known)


def _reading_mirror(layout: Layout) -> tuple[Component, ...]:
    mirrors = list(layout.mirrors().values())
    fresh = [parts for parts in mirrors if not any(part.is_stale for part in parts)] or mirrors
    preferred = [parts for parts in fresh if any(part.is_preferred for part in parts)]
    return next(iter(preferred or fresh), ())


def _on_stripe(end_bytes: int, number: int, count: int, size_bytes: int) -> int:
    """Bytes of [0, end) that lie on stripe `number` of `count`."""
    rounds, rest = divmod(end_bytes, count * size_bytes)
    return rounds * size_bytes + min(max(rest - number * size_bytes, 0), size_bytes)
