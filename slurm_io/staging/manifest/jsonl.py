r"""Manifests as JSON Lines: a header, one line a file in ascending order of paths, an end line.

    {"format":"slurm_io manifest","schema":1,"dataset":"c4","content_id":"c1-0f…","file_count":1,…}
    {"path":"a/0.tar","size_bytes":7,"digest":"xxh3-128:83…","ends":"xxh3-128:83…"}
    {"end":1,"content_id":"c1-0f…"}

A reader never holds more than one line (1 MiB at most) besides what its caller keeps. Truncation
shows by the missing end line; a changed entry by the content id, which is always recomputed.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii as _quoted
from typing import IO, Any

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.content_id import ContentId
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.manifest.paths import Ascending, checked_path, printable
from slurm_io.staging.manifest.rows import (
    MAX_FILES,
    MAX_LINE_BYTES,
    Totals,
    check_chunks,
    entry_of,
    entry_row,
    header_of,
    header_row,
    is_plain,
)

_PACKED = {
    b"\x1f\x8b": "gzip (gzip -d)",
    b"\x28\xb5\x2f\xfd": "zstd (zstd -d)",
    b"BZh": "bzip2 (bzip2 -d)",
    b"\xfd7zXZ": "xz (xz -d)",
    b"\x04\x22\x4d\x18": "lz4 (lz4 -d)",
    b"PK\x03\x04": "zip (unzip)",
}
_OTHER = {
    b"PAR1": "is a Parquet manifest: this reader takes JSON Lines only",
    b"\xef\xbb\xbf": "starts with a byte order mark: a text editor saved it; build it again",
    b"\xff\xfe": "is UTF-16: a text editor saved it; build it again",
    b"\xfe\xff": "is UTF-16: a text editor saved it; build it again",
}


def open_regular(path: str) -> int:
    """Descriptor of a manifest's file, which must be regular. Raises ManifestError."""
    try:
        # A named pipe put in its place must not stop us: O_NONBLOCK.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ManifestError(f"{printable(path)}: cannot be read ({reason})") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise ManifestError(f"{printable(path)}: is not a regular file; give a manifest")
    return fd


def read_header(path: str) -> Header:
    """The header of a JSON Lines manifest: reads its first line only. Raises ManifestError."""
    with os.fdopen(open_regular(path), "rb") as file:
        return _Reader(path, file).header


def read_entries(path: str) -> tuple[Header, Iterator[FileEntry]]:
    """The header, and the files one by one.

    The iterator raises ManifestError where the manifest is wrong; only when it has come to its end
    is the manifest known to be whole, with the content id its header says.
    """
    file = os.fdopen(open_regular(path), "rb")
    try:
        reader = _Reader(path, file)
    except BaseException:
        file.close()
        raise
    return reader.header, reader.entries()


def read_manifest(path: str, *, check_id: bool = True) -> Manifest:
    """A whole manifest of the JSON Lines form. Raises ManifestError naming file and line.

    `check_id` False: content id, counts and totals are taken as they stand (``verify-signature``
    tells altered entries from altered headers by itself).
    """
    with os.fdopen(open_regular(path), "rb") as file:
        reader = _Reader(path, file, check_id)
        return Manifest(reader.header, list(reader.entries()))


def write_jsonl(file: IO[bytes], header: Header, files: Iterable[FileEntry]) -> None:
    """Write a manifest whose files come in ascending order of paths. Raises ManifestError."""
    first = _line(header_row(header))
    header_of(parse_line(first))  # what cannot be read back must not be written
    file.write(first)
    ident, order, totals = ContentId(), Ascending(), Totals()
    for entry in files:
        ident.add(order.add(entry.path), entry.size_bytes, entry.digest)
        totals.add(entry.size_bytes)
        check_chunks(header, entry)
        file.write(_checked_line(entry_row(entry)))
    totals.check(header)
    if ident.value() != header.content_id:
        raise ManifestError(f"content id {header.content_id} is not that of the files")
    file.write(_line({"end": totals.file_count, "content_id": header.content_id}))


def entry_line(entry: FileEntry) -> bytes:
    """One file's line, as the manifest has it."""
    return _line(entry_row(entry))


def _checked_line(row: dict[str, Any]) -> bytes:
    """The line of an entry that a reader will take. Raises ManifestError."""
    if is_plain(row):  # a third of the encoder's time
        path, size, digest, ends = row.values()
        text = f'{{"path":{_quoted(path)},"size_bytes":{size},"digest":"{digest}","ends":"{ends}"}}'
        return text.encode("ascii") + b"\n"
    entry_of(row)
    return _line(row)


def _line(row: dict[str, Any]) -> bytes:
    line = _ENCODER.encode(row).encode("ascii") + b"\n"
    if len(line) > MAX_LINE_BYTES:
        raise ManifestError(f"a line of {len(line)} bytes: at most {MAX_LINE_BYTES}")
    return line


class _Reader:
    """Reads one open manifest from its start."""

    def __init__(self, path: str, file: IO[bytes], check_id: bool = True) -> None:
        self._path = path
        self._file = file
        self._check_id = check_id
        self._number = 0
        first = self._next_line()
        self._check_magic(first)
        try:
            self.header = header_of(parse_line(first))
            self._most_files = self.header.file_count if check_id else MAX_FILES
        except ManifestError as error:
            raise self._error(error) from None

    def entries(self) -> Iterator[FileEntry]:
        """Every file, then the check of the end line."""
        ident, order, totals = ContentId(), Ascending(), Totals()
        with self._file:
            while line := self._next_line():
                try:
                    row = parse_line(line)
                    if type(row) is dict and "end" in row:
                        self._check_end(row, ident, totals)
                        return
                    entry = entry_of(row)
                    ident.add(order.add(entry.path), entry.size_bytes, entry.digest)
                    check_chunks(self.header, entry)
                    totals.add(entry.size_bytes)
                    if totals.file_count > self._most_files:
                        raise ManifestError(f"more than the header's {self._most_files} files")
                except ManifestError as error:
                    raise self._error(error) from None
                yield entry
        raise self._error(ManifestError("is truncated: its end line is missing; copy it again"))

    def _check_end(self, row: dict[str, Any], ident: ContentId, totals: Totals) -> None:
        header = self.header
        if not self._check_id:
            self._check_nothing_follows()
            return
        if row != {"end": totals.file_count, "content_id": header.content_id}:
            raise ManifestError("its end line does not fit its header and files: build it again")
        totals.check(header)
        if ident.value() != header.content_id:
            raise ManifestError(
                f"its files make content id {ident.value()}, its header says {header.content_id}: "
                "an entry was altered; get the manifest again"
            )
        self._check_nothing_follows()

    def _check_nothing_follows(self) -> None:
        if self._file.read(1):
            raise ManifestError("something follows its end line: build it again")

    def _next_line(self) -> bytes:
        self._number += 1
        try:
            line = self._file.readline(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise self._error(ManifestError(f"cannot be read ({error.strerror})")) from error
        if len(line) > MAX_LINE_BYTES:
            self._check_magic(line)
            raise self._error(ManifestError(f"is longer than {MAX_LINE_BYTES} bytes: no manifest"))
        if line and line[-1:] != b"\n":
            self._check_magic(line)
            raise self._error(ManifestError("is truncated in mid-line; copy it again"))
        return line

    def _check_magic(self, line: bytes) -> None:
        if self._number > 1:
            return
        if not line:
            raise ManifestError(f"{printable(self._path)}: is empty; build the manifest again")
        for magic, packer in _PACKED.items():
            if line.startswith(magic):
                raise ManifestError(
                    f"{printable(self._path)}: is packed with {packer}: unpack it first"
                )
        for magic, fault in _OTHER.items():
            if line.startswith(magic):
                raise ManifestError(f"{printable(self._path)}: {fault}")

    def _error(self, error: ManifestError) -> ManifestError:
        return ManifestError(f"{printable(self._path)} line {self._number}: {error}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ManifestError(f"key {twice!a:.60} stands there twice")
    return row


def _refuse_number(text: str) -> Any:
    raise ManifestError(f"number {text:.40} is not a whole number")


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_refuse_number, parse_constant=_refuse_number
)


def parse_line(line: bytes) -> Any:
    """One line's JSON value. Raises ManifestError."""
    try:
        return _DECODER.decode(line.decode())
    except UnicodeDecodeError:
        raise ManifestError("is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ManifestError(f"is not JSON ({error.msg} at column {error.colno})") from None
    except RecursionError:
        raise ManifestError("is nested too deeply") from None
    except ValueError:
        raise ManifestError("holds a number of too many digits") from None


def check_entry(entry: FileEntry) -> FileEntry:
    """Check one entry made elsewhere (imports) as a reader would. Raises ManifestError."""
    checked_path(entry.path)
    return entry_of(entry_row(entry))
