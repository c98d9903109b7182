"""Digests by name: how each is made and how it is written (``ALGORITHM:HEX``).

Every module is looked up by name when it is first asked for: the prolog pays only for what a
manifest uses, and a missing package costs one clear error. ``crc32c`` is the one of S3 and needs
``google-crc32c``; ``blake3`` needs the ``hash`` extra.

Imports nothing heavy: the prolog loads it.
"""

from __future__ import annotations

import importlib
import re
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from slurm_io.errors import ManifestError

DEFAULT = "xxh3-128"
# Name -> (module, attribute, hex digits, what to install when it is missing).
_KNOWN = {
    "xxh3-128": ("xxhash", "xxh3_128", 32, "xxhash"),
    "xxh3-64": ("xxhash", "xxh3_64", 16, "xxhash"),
    "xxh64": ("xxhash", "xxh64", 16, "xxhash"),
    "xxh32": ("xxhash", "xxh32", 8, "xxhash"),
    "blake3": ("blake3", "blake3", 64, "blake3"),
    "sha224": ("hashlib", "sha224", 56, ""),
    "sha256": ("hashlib", "sha256", 64, ""),
    "sha384": ("hashlib", "sha384", 96, ""),
    "sha512": ("hashlib", "sha512", 128, ""),
    "sha1": ("hashlib", "sha1", 40, ""),
    "md5": ("hashlib", "md5", 32, ""),
    "blake2b": ("hashlib", "blake2b", 128, ""),  # b2sum's
    "crc32": ("zlib", "crc32", 8, ""),
    "crc32c": ("google_crc32c", "Checksum", 8, "google-crc32c"),
    "crc64nvme": ("", "", 16, ""),  # S3's: kept and compared, not made
}
ALGORITHMS = tuple(_KNOWN)
TAMPER_PROOF = frozenset(
    {"blake3", "blake2b", "sha224", "sha256", "sha384", "sha512"}
)  # nobody can make a second file with one
_HEX = re.compile(r"[0-9a-f]+")
_DIGEST = re.compile(
    "|".join(f"{name}:[0-9a-f]{{{digits}}}" for name, (_, _, digits, _) in _KNOWN.items())
)


class Hasher(Protocol):
    """What hashlib's objects can do."""

    def update(self, data: Any, /) -> object: ...
    def hexdigest(self) -> str: ...


class Crc32:
    """zlib's CRC-32 with the interface of hashlib's objects."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Any, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


class _Crc32c:
    """google-crc32c takes bytes only."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._inner = make()

    def update(self, data: Any, /) -> None:
        self._inner.update(bytes(data))

    def hexdigest(self) -> str:
        return str(self._inner.hexdigest().decode())


def maker_of(algorithm: str, many_threads: bool = False) -> Callable[[], Hasher]:
    """What makes a fresh hasher. Raises ManifestError: unknown algorithm, package missing.

    `many_threads`: one that uses all cores, where there is such a thing (blake3's tree).
    """
    try:
        module, attribute, _, package = _KNOWN[algorithm]
    except KeyError:
        known = ", ".join(ALGORITHMS)
        raise ManifestError(f"digest algorithm {algorithm!a:.60} is not one of {known}") from None
    if not module:
        raise ManifestError(f"slurm_io cannot make {algorithm} digests: name another algorithm")
    if module == "zlib":
        return Crc32
    try:
        make = getattr(importlib.import_module(module), attribute)
    except ImportError:
        raise ManifestError(
            f"{algorithm} digests need a package that is missing: pip install '{package}'"
        ) from None
    if algorithm == "crc32c":
        return lambda: _Crc32c(make)
    if algorithm == "blake3" and many_threads:
        return lambda: make(max_threads=make.AUTO)
    if module == "hashlib":  # not for security where it is broken: FIPS mode refuses it otherwise
        return lambda: make(usedforsecurity=algorithm in TAMPER_PROOF)
    return make  # type: ignore[no-any-return]


def is_digest(text: object) -> bool:
    """Whether this is ``ALGORITHM:HEX`` as :func:`parse_digest` takes it."""
    return type(text) is str and _DIGEST.fullmatch(text) is not None


def parse_digest(text: str) -> tuple[str, str]:
    """``ALGORITHM:HEX`` -> (algorithm, hex). Raises ManifestError naming the accepted form."""
    algorithm, colon, digits = text.partition(":")
    known = _KNOWN.get(algorithm)
    if not colon or known is None:
        raise ManifestError(
            f"digest {text!a:.80} is not ALGORITHM:HEX with one of {', '.join(ALGORITHMS)}"
        )
    check_digits(algorithm, digits)
    return algorithm, digits


def check_digits(algorithm: str, digits: str) -> None:
    """Raise ManifestError unless `digits` are that algorithm's: lower case hex, right length."""
    wanted = _KNOWN[algorithm][2]
    if len(digits) != wanted or not _HEX.fullmatch(digits):
        raise ManifestError(f"digest {digits!a:.140} is not the {wanted} hex digits of {algorithm}")
