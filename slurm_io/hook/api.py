"""What a training script may call. With the hook off it costs nothing and changes nothing."""

from __future__ import annotations

from . import record, target
from .session import SESSION, debug
from .span import open_span, path_field
from .watching import watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from .span import Span

__all__ = ["checkpoint", "enabled", "event", "watch"]

_KINDS = {
    "ckpt_save": record.CKPT_SAVE,
    "ckpt_async": record.CKPT_ASYNC,
    "ckpt_background": record.CKPT_BACKGROUND,
    "load": record.LOAD,
}


def enabled() -> bool:
    """Does the hook record what this process does?"""
    return not SESSION.off


class event:  # noqa: N801 - used as a context manager, read as a function
    """Times a block of the user's own checkpoint code.

    `kind` is "ckpt_save", "ckpt_async" (the blocking part of one), "ckpt_background" or "load".
    `path` names the file or folder; `bytes` is asked for nothing else when given, otherwise the
    size of the file at `path` counts.
    """

    def __init__(
        self,
        kind: str,
        path: str | os.PathLike[str] | None = None,
        bytes: int | None = None,  # noqa: A002
    ) -> None:
        self._kind = _KINDS.get(kind)
        self._path = path
        self._bytes = bytes
        self._span: Span | None = None
        if self._kind is None:
            debug("event kind %r is none of %s" % (kind, ", ".join(sorted(_KINDS))))

    def __enter__(self) -> event:
        self._span = None if self._kind is None else open_span(self._kind)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if self._span is not None:
            self._span.close(error, path_field(self._path), self._moved_bytes)

    def _moved_bytes(self) -> int:
        return target.bytes_of_file(self._path) if self._bytes is None else int(self._bytes)


def checkpoint(path: str | os.PathLike[str] | None = None, bytes: int | None = None) -> event:  # noqa: A002
    """`with checkpoint(path): ...` around code of one's own that saves while training waits."""
    return event("ckpt_save", path, bytes)
