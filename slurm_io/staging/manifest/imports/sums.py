"""Sum files: one line a file, as sha256sum, xxhsum, b3sum, openssl and their BSD kin write them.

Sample lines, all of which may stand in one file::

    a18b869b…83ac  train/00000.tar                text mode
    a18b869b…83ac *train/00000.tar                binary mode
    \\a18b869b…83ac  odd\\nname                     a backslash first: \\\\ \\n \\r are escapes
    SHA256 (train/00000.tar) = a18b869b…83ac      BSD, --tag
    SHA2-256(train/00000.tar)= a18b869b…83ac      openssl dgst
    XXH3_44bc2cf5ad770999  train/00000.tar        xxh3sum
    E4DFE771…6248                                 a lone digest: of the file it is named after

Files written on Windows are read too: CRLF, byte order marks, UTF-16. A sum file knows no sizes.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest.algorithms import ALGORITHMS
from slurm_io.staging.manifest.foreign_entries import EntryList, algorithm_named, digest_of
from slurm_io.staging.manifest.foreign_source import (
    MAX_DOCUMENT_BYTES,
    Source,
    lines_of,
    looks_like_json,
    read_bounded,
)
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions
from slurm_io.staging.manifest.paths import decode_path

_GNU = re.compile(rb"(\\?)(XXH3_|)([0-9a-fA-F]{8,128})( \*| {2}|\t| )(.+)", re.DOTALL)
_BSD = re.compile(
    rb"(\\?)([A-Za-z][A-Za-z0-9/_-]{1,15}) ?\((.+)\) ?= ([0-9a-fA-F]{8,128})", re.DOTALL
)
_BARE = re.compile(rb"(XXH3_|)([0-9a-fA-F]{8,128})(?:[ \t]+\*?-)?[ \t]{0,2}")
_ESCAPE = re.compile(rb"\\(.?)", re.DOTALL)
_ESCAPES = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}
_PGP_START = b"-----BEGIN PGP SIGNED MESSAGE-----"
_PGP_END = b"-----BEGIN PGP SIGNATURE-----"
_SKIPPED = (b"#", b";")
#: Length of the hex digits -> what it is when neither line, name nor --algorithm says.
_BY_LENGTH = dict(
    zip(
        (16, 32, 40, 56, 64, 96, 128),
        ("xxh64", "md5", "sha1", "sha224", "sha256", "sha384", "sha512"),
        strict=True,
    )
)
_AMBIGUOUS = (16, 32, 64)  # xxh64 or xxh3, md5 or xxh128, sha256 or blake3
# Words a sum file's name may hold: SHA256SUMS, x.tar.sha256, checksums.b3, files.xxh128
_NAME_WORD = re.compile(
    r"(md5|sha-?1|sha-?224|sha-?256|sha-?384|sha-?512|xxh(?:32|64|3|128)|blake3"
    r"|(?<![a-z0-9])b3)(?![0-9])",
    re.IGNORECASE,
)
_OWN_SUFFIX = re.compile(r"\.(?:md5|sha\d*|xxh\d*|blake3|b3)(?:sums?)?(?:\.txt)?$", re.IGNORECASE)


@dataclass(frozen=True)
class _Line:
    """One parsed line. `algorithm` None: the line does not say. `name` None: a lone digest."""

    algorithm: str | None
    digits: str
    name: bytes | None


@dataclass
class _Reading:
    """What is learnt about a file while it is read."""

    shown: str
    hint: str | None
    notes: list[str] = field(default_factory=list)
    guessed: set[str] = field(default_factory=set)
    has_backslash: bool = False


@IMPORTERS.register("sums")
class Sums:
    """Sum files of any of the usual tools."""

    title = "sums: lines of digest and path (sha256sum, xxhsum, b3sum, --tag)"

    def recognise(self, source: Source) -> bool:
        """The first line that says anything must be a digest with a name."""
        if source.is_folder or looks_like_json(source.head):
            return False
        head, _ = _decoded(source.head)
        for line in head.split(b"\n", 50)[:50]:
            line = line.rstrip(b"\r")
            if not line.strip() or line.startswith((*_SKIPPED, b"-----", b"Hash: ")):
                continue
            return _parsed(line) is not None
        return False

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read every line; a line that is none of the known forms is an error."""
        reading = _Reading(source.shown, _hint(source, options))
        entries = EntryList(options.prefix)
        fd = source.open()
        with os.fdopen(fd, "rb") as raw:
            for number, line in _own_lines(_as_utf8(raw, reading), reading):
                where = f"{source.shown} line {number}"
                parsed = _parsed(line)
                if parsed is None:
                    raise ManifestError(
                        f"{where}: not a digest and a path; remove the line or put # before it"
                    )
                self._add(entries, parsed, source, reading, where)
        if reading.guessed:
            reading.notes.append(
                f"{source.shown}: digests taken for {', '.join(sorted(reading.guessed))} by their "
                "length; --algorithm says otherwise"
            )
        if reading.has_backslash:
            reading.notes.append(f"{source.shown}: backslashes in paths are kept, not made to /")
        return Imported(entries.entries(source.shown), tuple(reading.notes), (source.path,))

    def _add(
        self, entries: EntryList, parsed: _Line, source: Source, reading: _Reading, where: str
    ) -> None:
        algorithm = parsed.algorithm or _by_length(parsed.digits, reading, where)
        digest = digest_of(algorithm, parsed.digits, where)
        if parsed.name is None:
            if len(entries):
                raise ManifestError(f"{where}: a digest without a path")
            path = _own_file(source, where)
            reading.notes.append(f"{source.shown}: the path is the sum file's own name")
        else:
            path = decode_path(parsed.name)
            reading.has_backslash |= "\\" in path
            while path.startswith("./"):
                path = path[2:].lstrip("/")
        entries.add(path, where, digests=(digest,), merge=True)


def _own_lines(file: IO[bytes], reading: _Reading) -> Iterator[tuple[int, bytes]]:
    """(number, line without its end) of the lines that say something."""
    crlf: bool | None = None
    in_pgp_head = False
    for number, line in lines_of(file, reading.shown):
        ended = line.endswith(b"\n")
        line = line.removesuffix(b"\n")
        is_crlf = line.endswith(b"\r")
        if crlf is None and ended:
            crlf = is_crlf
            if crlf:
                reading.notes.append(f"{reading.shown}: lines end in CR LF")
        elif crlf != is_crlf and ended:
            raise ManifestError(
                f"{reading.shown} line {number}: some lines end in CR LF, some in LF; a path may "
                "end in CR: convert the file with dos2unix, or write such names with sha256sum"
            )
        line = line.removesuffix(b"\r") if crlf or not ended else line
        if line == _PGP_START:
            in_pgp_head = True
            reading.notes.append(f"{reading.shown}: the PGP signature is not checked")
        elif line == _PGP_END:
            return
        elif in_pgp_head:
            in_pgp_head = bool(line)
        elif b"\0" in line:
            raise ManifestError(
                f"{reading.shown} line {number}: holds NUL bytes; if it is UTF-16, convert it "
                "with iconv -f UTF-16 -t UTF-8"
            )
        elif line.strip() and not line.startswith(_SKIPPED):
            yield number, line


def _parsed(line: bytes) -> _Line | None:
    """One line in any of the forms, None when it is none of them."""
    bare = _BARE.fullmatch(line)
    if bare is not None:
        return _Line("xxh3-64" if bare[1] else None, bare[2].decode(), None)
    gnu = _GNU.fullmatch(line)
    if gnu is not None:
        return _line("xxh3-64" if gnu[2] else None, gnu[3].decode(), gnu[5], bool(gnu[1]))
    bsd = _BSD.fullmatch(line)
    return None if bsd is None else _parsed_bsd(bsd)


def _parsed_bsd(bsd: re.Match[bytes]) -> _Line | None:
    label, digits = bsd[2].decode(), bsd[4].decode()
    if label.upper().endswith("_LE") and len(digits) % 2 == 0:  # xxhsum --little-endian
        label, digits = label[:-3], bytes.fromhex(digits)[::-1].hex()
    algorithm = algorithm_named(label)
    return _line(algorithm, digits, bsd[3], bool(bsd[1])) if algorithm else None


def _line(algorithm: str | None, digits: str, name: bytes, escaped: bool) -> _Line | None:
    plain = _unescaped(name) if escaped else name
    return None if plain is None else _Line(algorithm, digits, plain)


def _unescaped(name: bytes) -> bytes | None:
    """The name behind GNU's escapes, None for one that GNU never writes."""
    if any(found[1] not in _ESCAPES for found in _ESCAPE.finditer(name)):
        return None
    return _ESCAPE.sub(lambda found: _ESCAPES[found[1]], name)


def _by_length(digits: str, reading: _Reading, where: str) -> str:
    """The algorithm of a line that does not say: by --algorithm, the file's name, its length."""
    if reading.hint is not None:
        return reading.hint
    algorithm = _BY_LENGTH.get(len(digits))
    if algorithm is None:
        raise ManifestError(
            f"{where}: {len(digits)} hex digits could be several digests; say --algorithm "
            f"({', '.join(ALGORITHMS)})"
        )
    if len(digits) in _AMBIGUOUS:
        reading.guessed.add(algorithm)
    return algorithm


def _hint(source: Source, options: ImportOptions) -> str | None:
    if options.algorithm is not None:
        named = algorithm_named(options.algorithm)
        if named is None:
            raise UsageError(
                f"--algorithm {options.algorithm!a:.40}: there are {', '.join(ALGORITHMS)}"
            )
        return named
    words = {algorithm_named(word) for word in _NAME_WORD.findall(source.name)}
    return words.pop() if len(words) == 1 else None


def _own_file(source: Source, where: str) -> str:
    own = _OWN_SUFFIX.sub("", source.name)
    if own == source.name or not own:
        raise ManifestError(
            f"{where}: a digest without a path, and {source.shown} is not named after a file "
            "(data.bin.sha256): write '<digest>  <path>'"
        )
    return own


def _as_utf8(file: IO[bytes], reading: _Reading) -> IO[bytes]:
    """The file without its byte order mark, UTF-16 made UTF-8."""
    head = file.read(4)
    file.seek(0)
    _, encoding = _decoded(head)
    if encoding is None:
        return file
    reading.notes.append(f"{reading.shown}: read as {encoding} with BOM")
    if encoding == "utf-8":
        file.seek(len(codecs.BOM_UTF8))
        return file
    content = read_bounded(file.fileno(), MAX_DOCUMENT_BYTES, reading.shown)
    try:
        return io.BytesIO(content[2:].decode(encoding).encode())
    except ValueError as error:
        raise ManifestError(f"{reading.shown}: not {encoding} ({error!s:.100})") from None


def _decoded(head: bytes) -> tuple[bytes, str | None]:
    """(a head as UTF-8, encoding its byte order mark names)."""
    if head.startswith(codecs.BOM_UTF8):
        return head[3:], "utf-8"
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if head.startswith(mark):
            return head[2:].decode(encoding, "replace").encode(), encoding
    return head, None
