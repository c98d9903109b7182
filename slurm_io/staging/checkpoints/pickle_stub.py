"""Reads a pickle without building anything it names: every class in it becomes an empty stand-in.

A pickle can name any function of any module and have it called. Here nothing is looked up: names of
a few known packages give a fresh class that keeps what it is given and does nothing, any other name
is an error. torch is not imported. A pickle can also ask for much memory or nest without end: so
this runs in a child with limits (:mod:`.limits`), where the worst is that the child dies.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Collection
from typing import Any, Self

_PACKAGES = ("torch", "pathlib", "collections", "megatron.core", "_codecs", "_io", "numpy")
_CUT = "it has no end: cut short, or its end is zeros"
# Python 3.11.2 (Debian 12) writes a member of an enum as getattr(its class, its name).
_BUILTINS = ("set", "frozenset", "bytearray", "complex", "slice", "range", "object", "getattr")


class PickleError(Exception):
    """It cannot be read, in words. `is_cut`: it has no end."""

    def __init__(self, text: str, is_cut: bool = False) -> None:
        super().__init__(text)
        self.is_cut = is_cut


class Blank:
    """Stands for an object of a class that was not imported, and forgets what it is given."""

    __slots__ = ()

    def __new__(cls, *given: Any, **named: Any) -> Self:
        """Takes anything."""
        return object.__new__(cls)

    def __init__(self, *given: Any, **named: Any) -> None:
        return None

    def __setstate__(self, state: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        return None

    def append(self, value: Any) -> None:
        """As a list has it, for classes pickled like lists."""

    def extend(self, values: Any) -> None:
        """The same."""


class Stub(Blank):
    """The same, with its state in its attributes."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            vars(self).update(state)


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, kept: Collection[str]) -> None:
        super().__init__(io.BytesIO(data))
        self._kept = kept
        self._classes: dict[tuple[str, str], type[Blank]] = {}

    def find_class(self, module: str, name: str, /) -> Any:
        """A stand-in for a name of a known package."""
        is_known = any(module == one or module.startswith(one + ".") for one in _PACKAGES)
        is_known = is_known or (module in ("builtins", "__builtin__") and name in _BUILTINS)
        if not is_known:
            raise PickleError(f"it names {module!a:.60}.{name!a:.60}, which no checkpoint needs")
        if (module, name) not in self._classes:
            made = type("Stub", (Stub,), {}) if name in self._kept else _blank()
            self._classes[module, name] = made
        return self._classes[module, name]


def _blank() -> type[Blank]:
    return type("Blank", (Blank,), {"__slots__": ()})


def read_pickle(data: bytes, kept: Collection[str]) -> Any:
    """What the pickle holds, of plain values, :class:`Stub` for the classes named in `kept`, and
    :class:`Blank` for all others. Raises PickleError."""
    if data and not data.startswith(pickle.PROTO) and any(data):
        raise PickleError("it is no pickle")
    if not data.endswith(pickle.STOP):
        raise PickleError(_CUT, is_cut=True)
    try:
        return _Reader(data, kept).load()
    except PickleError:
        raise
    except MemoryError:
        raise PickleError("reading it takes more memory than it may") from None
    except Exception as error:  # noqa: BLE001 - a hostile pickle can raise anything
        if isinstance(error, EOFError) or "truncated" in str(error):
            raise PickleError(_CUT, is_cut=True) from None
        raise PickleError(f"it cannot be read ({type(error).__name__})") from None
