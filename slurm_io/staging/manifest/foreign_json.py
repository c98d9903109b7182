"""Foreign JSON, field by field: every mistake is an error that names file, place and fix."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any

from slurm_io.errors import ManifestError

MAX_INT = 2**63 - 1
MAX_CONTAINERS = 5_000_000  # each costs 60 bytes and more, from 2 bytes of text
MAX_VALUES = 20_000_000
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def parse_json(text: bytes, where: str) -> Any:
    """The document. Raises ManifestError for bad JSON, NaN, a key that occurs twice, bombs."""
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS or text.count(b",") > MAX_VALUES:
        raise ManifestError(f"{where}: holds too many values for one JSON document")
    encoding = "utf-16" if text.startswith(_UTF16_MARKS) else "utf-8-sig"
    try:
        return json.loads(
            text.decode(encoding), object_pairs_hook=_no_duplicates, parse_constant=_no_constant
        )
    except RecursionError:
        raise ManifestError(f"{where}: nested too deeply to be a description of files") from None
    except json.JSONDecodeError as error:
        raise ManifestError(f"{where} line {error.lineno}: not JSON ({error.msg})") from None
    except ValueError as error:
        raise ManifestError(f"{where}: not JSON ({error!s:.200})") from None


class Fields:
    """One object of a foreign document. `where` says which, for messages."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ManifestError(f"{where}: a JSON object is expected, not {_kind(value)}")
        self._values = value
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def names(self) -> list[str]:
        """Names of the fields."""
        return list(self._values)

    def raw(self, key: str) -> Any:
        """The value as it stands, None when it is absent."""
        return self._values.get(key)

    def optional_text(self, key: str) -> str | None:
        """Text; None when absent, null or empty."""
        value = self._values.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise ManifestError(f"{self.where}.{key}: must be text, not {_kind(value)}")
        return value

    def text(self, key: str) -> str:
        """Text that must be there."""
        value = self.optional_text(key)
        if value is None:
            raise ManifestError(f"{self.where}: lacks {key}")
        return value

    def optional_count(self, key: str) -> int | None:
        """A whole number from 0 up to 2^63 - 1; None when absent or null."""
        value = self._values.get(key)
        if value is None:
            return None
        if type(value) is not int:
            raise ManifestError(
                f"{self.where}.{key}: must be a whole number, not {_kind(value)} {value!a:.40}"
            )
        if not 0 <= value <= MAX_INT:
            raise ManifestError(f"{self.where}.{key}: {value!s:.40} cannot be a number of bytes")
        return value

    def count(self, key: str) -> int:
        """A whole number that must be there."""
        value = self.optional_count(key)
        if value is None:
            raise ManifestError(f"{self.where}: lacks {key}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false when absent."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise ManifestError(f"{self.where}.{key}: must be true or false, not {_kind(value)}")
        return bool(value)

    def optional_object(self, key: str) -> Fields | None:
        """An object; None when absent or null."""
        value = self._values.get(key)
        return None if value is None else Fields(value, f"{self.where}.{key}")

    def objects(self, key: str) -> Iterator[Fields]:
        """The objects of a list; none when it is absent or null."""
        for index, value in enumerate(self.list_of(key)):
            yield Fields(value, f"{self.where}.{key}[{index}]")

    def list_of(self, key: str) -> list[Any]:
        """A list; empty when it is absent or null."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise ManifestError(f"{self.where}.{key}: must be a list, not {_kind(value)}")
        return value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "nothing" if value is None else "a number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!a:.80} occurs twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")
