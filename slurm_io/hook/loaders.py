"""Loaders that were seen: a number for each, as long as the object lives, and what it is like.

Nothing is written on the user's loader: it may be copied or pickled to a process without us.
"""

from __future__ import annotations

import itertools
import weakref

from . import record, text
from .padding import PaddingLooks
from .session import SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .ring import Ring


class Loader:
    """One loader: its id (from 1), flags for its batches, how often it was started."""

    __slots__ = (
        "loader_id", "flags", "epochs", "padding", "_fields", "_told_ring", "__weakref__",
    )  # fmt: skip

    def __init__(self, loader_id: int, flags: int, fields: dict[str, Any]) -> None:
        self.loader_id = loader_id
        self.flags = flags
        self.epochs = 0
        self.padding = PaddingLooks()
        self._fields = fields
        self._told_ring: Ring | None = None

    def announce(self, ring: Ring, now_ns: int) -> None:
        """Describe this loader in the ring, once a ring."""
        if self._told_ring is ring:
            return
        self._told_ring = ring
        told = text.encode(dict({"id": self.loader_id}, **self._fields))
        ring.event(0, record.LOADER, now_ns, now_ns, SESSION.steps, record.UNKNOWN, told)


class Loaders:
    """The loaders of this process, found again by identity while they live."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._known: dict[int, tuple[Any, Loader]] = {}

    def new(self, describe: Callable[[Any], dict[str, Any]], owner: Any, flags: int = 0) -> Loader:
        """A number for `owner`; ids past 65535 share the last one."""
        fields = describe(owner)
        if fields.get("num_workers"):
            flags |= record.WORKERS
        return Loader(min(next(self._ids), record.MAX_LOADER_ID), flags, fields)

    def find(self, describe: Callable[[Any], dict[str, Any]], owner: Any) -> Loader:
        """The Loader of `owner`, made at its first appearance."""
        key = id(owner)
        known = self._known.get(key)
        if known is not None and known[0]() is owner:
            return known[1]
        loader = self.new(describe, owner)
        self._known[key] = (weakref.ref(owner, lambda ref: self._forget(key, ref)), loader)
        return loader

    def _forget(self, key: int, ref: Any) -> None:
        known = self._known.get(key)
        if known is not None and known[0] is ref:
            del self._known[key]


LOADERS = Loaders()


def type_name(value: object) -> str:
    """Module and class of a value."""
    return "%s.%s" % (type(value).__module__, type(value).__qualname__)


def plain(value: object) -> Any:
    """`value` if it is a simple JSON value, else None: a description holds no surprises."""
    return value if isinstance(value, (bool, int, str)) else None


def attribute(owner: object, name: str) -> Any:
    """`owner.name` as a simple value; None when absent or when asking for it fails."""
    try:
        return plain(getattr(owner, name, None))
    except Exception:  # a property of the user's: what it raises is not our affair
        return None
