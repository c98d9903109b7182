"""Relative paths of a manifest: exact bytes, and nothing that could leave the dataset's folder.

A path is kept as text whose bytes are always UTF-8 with ``surrogateescape``, whatever the locale
(``os.fsencode`` gives the same bytes under every UTF-8 locale; a prolog may have another one).
Bytes that are not UTF-8 are lone surrogates ``U+DC80``..``U+DCFF`` in the text.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_io.errors import ManifestError

MAX_COMPONENT_BYTES = 255  # NAME_MAX of every Linux file system
# PATH_MAX: no loader, rsync or tar opens a longer name in one call, so a copy of it cannot be used.
MAX_PATH_BYTES = 4096


def encode_path(path: str) -> bytes:
    """The bytes of a path. Raises ManifestError for text that stands for no bytes."""
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ManifestError(f"path {printable(path)} holds a character no file name has") from None


def decode_path(raw: bytes) -> str:
    """The text of a path's bytes; :func:`encode_path` gives them back exactly."""
    return raw.decode("utf-8", "surrogateescape")


def printable(path: str, limit: int = 200) -> str:
    """A path for people: one line, quoted, ASCII; the middle of a long one left out."""
    if len(path) > limit:
        path = f"{path[: limit // 2]}[...]{path[-limit // 2 :]}"
    return ascii(path)


def checked_path(path: str) -> bytes:
    """The bytes of a path that is safe to open below a dataset's folder.

    Raises ManifestError saying what is wrong: absolute, ``..``, ``.`` or empty components, NUL,
    a component over 255 or a path over 4096 bytes, text that is not what its bytes decode to.
    """
    raw = encode_path(path)
    fault = fault_of(raw)
    if fault is None and not path.isascii() and decode_path(raw) != path:
        fault = "is written with escapes for bytes that are plain UTF-8"
    if fault is not None:
        raise ManifestError(f"path {printable(path)} {fault}")
    return raw


def fault_of(raw: bytes) -> str | None:
    """What is wrong with a path's bytes, None when they are safe to open below a folder."""
    framed = b"/%b/" % raw
    clean = len(raw) <= MAX_COMPONENT_BYTES and b"\0" not in raw
    if clean and b"//" not in framed and b"/./" not in framed and b"/../" not in framed:
        return None  # a million times
    return _fault(raw)


def _fault(raw: bytes) -> str | None:
    if not raw:
        return "is empty"
    if b"\0" in raw:
        return "holds a NUL byte"
    if raw[0] == 0x2F:
        return "is absolute: a manifest holds paths relative to the dataset's folder"
    if len(raw) > MAX_PATH_BYTES:
        return f"has {len(raw)} bytes: at most {MAX_PATH_BYTES}, or no program can open it"
    return _component_fault(raw)


def _component_fault(raw: bytes) -> str | None:
    for component in raw.split(b"/"):
        if component == b"..":
            return "holds '..', which could leave the dataset's folder"
        if component in (b"", b"."):
            return "holds an empty or '.' component: write it without"
        if len(component) > MAX_COMPONENT_BYTES:
            return f"has a component of {len(component)} bytes: at most {MAX_COMPONENT_BYTES}"
    return None


class Ascending:
    """Checks a stream of paths: strictly ascending bytes, and no file that is also a folder.

    Ascending order makes duplicates visible without remembering every path; memory is one chain
    of prefixes of the last path.
    """

    def __init__(self) -> None:
        self._last = b""
        self._prefixes: list[bytes] = []

    def add(self, path: str) -> bytes:
        """Check the next path and give its bytes. Raises ManifestError."""
        raw = checked_path(path)
        if raw <= self._last:
            fault = "stands there twice" if raw == self._last else "is not in ascending order"
            raise ManifestError(f"path {printable(path)} {fault}")
        self._last = raw
        prefixes = self._prefixes
        while prefixes and not raw.startswith(prefixes[-1]):
            prefixes.pop()
        if prefixes and raw[len(prefixes[-1])] == 0x2F:
            raise ManifestError(f"path {printable(path)} lies below another file of the manifest")
        prefixes.append(raw)
        return raw


def notes_on(paths: Iterable[str]) -> list[str]:
    """What may trip other systems: names not in NFC, names that differ only in case.

    One line each with the first example; names of bytes that are not UTF-8 are counted too.
    """
    from unicodedata import is_normalized

    seen: set[int] = set()
    found: dict[str, list[str]] = {"not in Unicode NFC": [], "equal but for case": []}
    found["not UTF-8"] = []
    for path in paths:
        folded = hash(path.casefold())
        if folded in seen:
            found["equal but for case"].append(path)
        seen.add(folded)
        if not path.isascii():
            if any("\udc80" <= letter <= "\udcff" for letter in path):
                found["not UTF-8"].append(path)
            elif not is_normalized("NFC", path):
                found["not in Unicode NFC"].append(path)
    return [
        f"{len(hits)} path(s) {what}, first {printable(hits[0])}"
        for what, hits in found.items()
        if hits
    ]
