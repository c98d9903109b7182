"""What slowfs injects: one frozen record, changeable while the file system is mounted.

As JSON (control xattr, control socket) it is an object with the names below; absent = default.
Globs match the path below the mount without a leading slash (``*`` crosses folders).
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

OpClass = Literal["read", "write", "open", "stat", "fsync", "list", "statfs", "flush"]
OP_CLASSES: tuple[OpClass, ...] = ("read", "write", "open", "stat", "fsync", "list", "statfs")

CacheMode = Literal["direct", "page", "kernel"]
"""Per mount. ``direct``: every read(2) is a request and mmap fails. ``page``: the page cache is
used (mmap works) and dropped at every open. ``kernel``: the page cache survives opens."""


@dataclass(frozen=True)
class SlowFsSettings:
    """Delays in seconds per request, one request being at most 1 MiB (128 KiB through the cache).

    `spike_*`: every `spike_period_s`, for `spike_duration_s`, requests of `spike_classes` take
    `spike_latency_s` longer; the first window opens `spike_offset_s` after the settings arrive.
    `bandwidth_bytes_per_s` is shared by reads and writes. `file_latency_s` maps globs to extra
    seconds per read. Files under `evicted_globs` take `recall_latency_s` at their first read and
    show `evicted_blocks` blocks in stat until then (Lustre shows 1); a new `recall_generation`
    evicts them again. Requests of
    `hang_classes` under `hang_globs` are not answered until new settings no longer say so; "flush",
    what close(2) sends, hangs only where it is named.
    `xattrs` maps globs to ``{name: hex bytes}``.
    """

    read_latency_s: float = 0.0
    write_latency_s: float = 0.0
    open_latency_s: float = 0.0
    stat_latency_s: float = 0.0
    fsync_latency_s: float = 0.0
    list_latency_s: float = 0.0
    statfs_latency_s: float = 0.0
    bandwidth_bytes_per_s: float | None = None
    spike_period_s: float | None = None
    spike_duration_s: float = 0.0
    spike_latency_s: float = 0.0
    spike_offset_s: float = 0.0
    spike_classes: tuple[str, ...] = ("read",)
    file_latency_s: Mapping[str, float] = field(default_factory=dict)
    evicted_globs: tuple[str, ...] = ()
    evicted_blocks: int = 0
    recall_latency_s: float = 0.0
    recall_generation: int = 0
    hang_globs: tuple[str, ...] = ()
    hang_classes: tuple[str, ...] = OP_CLASSES
    no_space: bool = False
    read_error_globs: tuple[str, ...] = ()
    xattrs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def latency_s(self, op_class: OpClass) -> float:
        """The constant part of the delay of one request."""
        value: float = getattr(self, f"{op_class}_latency_s")
        return value

    def extra_read_latency_s(self, path: str) -> float:
        """The sum of all `file_latency_s` entries that match."""
        return sum(extra for glob, extra in self.file_latency_s.items() if matches(path, (glob,)))

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> SlowFsSettings:
        """The inverse of :meth:`to_json`. Raises ValueError for a name it does not know."""
        data: dict[str, Any] = json.loads(text)
        unknown = set(data) - {column.name for column in fields(cls)}
        if unknown:
            raise ValueError(f"slowfs knows no setting {sorted(unknown)}")
        lists = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
        return cls(**{**data, **lists})


def matches(path: str, globs: tuple[str, ...]) -> bool:
    """Whether any glob matches `path` (with or without its leading slash)."""
    bare = path.lstrip("/")
    return any(fnmatch.fnmatchcase(bare, glob) for glob in globs)
