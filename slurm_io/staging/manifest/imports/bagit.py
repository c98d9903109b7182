"""BagIt bags (RFC 8493): ``manifest-ALG.txt`` and ``tagmanifest-ALG.txt`` beside ``bagit.txt``.

Sample lines of manifest, bag-info and fetch.txt::

    49afbd86…2ab34  data/train/00000.tar
    Payload-Oxum: 279164409832.1198
    https://example.org/00000.tar 1073741824 data/train/00000.tar

Paths are percent-encoded for CR, LF and (from version 1.0 on) the percent sign itself. The bag's
folder is the dataset's folder, so that paths start with ``data/``; ``--prefix data/`` cuts it off.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from slurm_io.errors import ManifestError, UsageError
from slurm_io.staging.manifest.foreign_entries import EntryList, algorithm_named, digest_of
from slurm_io.staging.manifest.foreign_source import Source, lines_of, shown
from slurm_io.staging.manifest.hashing import digest_bytes
from slurm_io.staging.manifest.imports.base import (
    IMPORTERS,
    Imported,
    ImportOptions,
    Problem,
    Stated,
)

_BAGIT = "bagit.txt"
_PAYLOAD = "data/"
_OWN_NAMES = (_BAGIT, "bag-info.txt")
_MAX_TAG_BYTES = 64 << 20
_MANIFEST = re.compile(r"(tag)?manifest-([a-zA-Z0-9-]{1,20})\.txt")
_VERSION = re.compile(r"BagIt-Version:\s*(\d{1,3})\.(\d{1,3})\s*", re.IGNORECASE)
_ENCODING = re.compile(r"Tag-File-Character-Encoding:\s*([\w-]{1,40})\s*", re.IGNORECASE)
_OXUM = re.compile(r"Payload-Oxum\s*:\s*(.*)", re.IGNORECASE)
_OXUM_VALUE = re.compile(r"(\d{1,19})\.(\d{1,19})")
_LINE = re.compile(r"([0-9a-fA-F]+)[ \t]+\*?(.+)")
_FETCH = re.compile(r"(\S+)[ \t]+(\d{1,19}|-)[ \t]+(.+)")
_NEWER = re.compile(r"%(0[Dd]|0[Aa]|25)")
_OLDER = re.compile(r"%(0[Dd]|0[Aa])")


@dataclass(frozen=True)
class _Declaration:
    """bagit.txt: version and encoding of the tag files."""

    version: tuple[int, int]
    encoding: str


@IMPORTERS.register("bagit")
class BagIt:
    """A bag: its folder, or its bagit.txt."""

    title = "bagit: a bag's folder (RFC 8493)"

    def recognise(self, source: Source) -> bool:
        """A folder with bagit.txt, or that file."""
        return _BAGIT in source.names or source.name == _BAGIT

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Manifests, tag manifests, fetch list and Payload-Oxum."""
        return _Reading(source, options).imported()


class _Reading:
    """One bag while it is read."""

    def __init__(self, source: Source, options: ImportOptions) -> None:
        if not source.is_folder and source.name != _BAGIT:
            raise UsageError(f"{source.shown}: give the bag's folder")
        self._source = source
        self._entries = EntryList(options.prefix)
        self._prefix = options.prefix
        self._declaration = _declared(self._required(_BAGIT))
        self._notes: list[str] = []
        self._problems: list[Problem] = []

    def imported(self) -> Imported:
        """The whole bag."""
        payload, tags = self._manifests()
        if not payload:
            raise ManifestError(f"{self._source.shown}: a bag without a manifest-ALGORITHM.txt")
        listed = [self._add_manifest(name, algorithm) for name, algorithm in payload]
        self._require_same(listed)
        self._add_fetch()
        stated = self._stated(len(listed[0]))
        if not self._prefix:
            for name, algorithm in tags:
                self._add_tag_manifest(name, algorithm)
            for name in self._source.names_below():
                if name in _OWN_NAMES or _MANIFEST.fullmatch(name):
                    self._entries.add_own(name, self._required(name), "metadata", name)
        return Imported(
            self._entries.entries(self._source.shown),
            tuple(self._notes),
            (self._source.folder,),
            problems=tuple(self._problems),
            stated=stated,
        )

    def _manifests(self) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """(file, algorithm) of the manifests and of the tag manifests whose algorithm we know."""
        found: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
        for name in self._source.names_below():
            match = _MANIFEST.fullmatch(name)
            if match is None:
                continue
            algorithm = algorithm_named(match[2])
            if algorithm is None:
                self._notes.append(f"{name}: {match[2]} digests are not kept")
            else:
                found[bool(match[1])].append((name, algorithm))
        return found

    def _add_manifest(self, name: str, algorithm: str) -> set[str]:
        """One payload manifest; the paths it lists."""
        listed = set()
        for where, digits, path in self._rows(name):
            if not path.startswith(_PAYLOAD):
                raise ManifestError(f"{where}: {shown(path)} is not below {_PAYLOAD}")
            digest = digest_of(algorithm, digits, where)
            self._entries.add(path, where, digests=(digest,), merge=True)
            listed.add(path)
        return listed

    def _require_same(self, listed: list[set[str]]) -> None:
        everything = set().union(*listed)
        for paths in listed:
            for path in sorted(everything - paths)[:100]:
                text = "is in one manifest of the bag and not in another"
                self._problems.append(Problem("contradiction", self._ours(path), text))

    def _add_tag_manifest(self, name: str, algorithm: str) -> None:
        """Tag files: they lie beside, so their digests are compared at once."""
        for where, digits, path in self._rows(name):
            digest = digest_of(algorithm, digits, where)
            content = self._source.read_below(path, _MAX_TAG_BYTES)
            found = None if content is None else digest_bytes(content, algorithm)
            size_bytes = len(content) if content is not None and found == digest else None
            self._entries.add(
                path, where, size_bytes=size_bytes, digests=(digest,), role="metadata", merge=True
            )
            if content is None:
                self._problems.append(Problem("missing", path, f"{where} lists it", digest))
            elif found != digest:
                text = f"is not what {name} says: changed after the bag was made"
                self._problems.append(Problem("corrupt", path, text, digest, found))

    def _add_fetch(self) -> None:
        """fetch.txt: payload that lies elsewhere until somebody fetches it."""
        fetched = 0
        for number, line in self._lines("fetch.txt"):
            where = f"fetch.txt line {number}"
            found = _FETCH.fullmatch(line)
            if found is None:
                raise ManifestError(f"{where}: must be ADDRESS LENGTH PATH")
            path = self._decoded(found[3])
            if path not in self._entries:
                raise ManifestError(f"{where}: {shown(path)} is in no manifest of the bag")
            if found[2] != "-":
                self._entries.set_size(path, int(found[2]), where)
            fetched += 1
        if fetched:
            self._notes.append(f"{fetched} files are not in the bag until fetch.txt is carried out")

    def _stated(self, listed: int) -> Stated | None:
        """Payload-Oxum of bag-info.txt; a count that differs is a problem at once."""
        where = "bag-info.txt: Payload-Oxum"
        lines = (_OXUM.fullmatch(line) for _, line in self._lines("bag-info.txt"))
        values = [found[1].strip() for found in lines if found]
        if not values:
            self._notes.append("no Payload-Oxum: the bag states no total size")
            return None
        value = _OXUM_VALUE.fullmatch(values[0])
        if value is None or len(values) > 1:
            raise ManifestError(f"{where}: must stand once, as BYTES.COUNT")
        total_bytes, count = int(value[1]), int(value[2])
        if count != listed:
            text = f"Payload-Oxum counts {count} files, the manifests list {listed}"
            self._problems.append(Problem("contradiction", "bag-info.txt", text, count, listed))
        below = _PAYLOAD.removeprefix(self._prefix)
        return Stated(total_bytes, count, below, where)

    def _rows(self, name: str) -> Iterator[tuple[str, str, str]]:
        """(place, hex digits, path) of each line of a manifest."""
        for number, line in self._lines(name):
            where = f"{name} line {number}"
            found = _LINE.fullmatch(line)
            if found is None:
                raise ManifestError(f"{where}: must be a digest and a path")
            path = self._decoded(found[2])
            while path.startswith("./"):
                path = path[2:]
            yield where, found[1], path

    def _lines(self, name: str) -> Iterator[tuple[int, str]]:
        """(number, text) of the non-empty lines of a tag file; none when there is no such file."""
        content = self._source.read_below(name)
        if content is None:
            return
        text = _as_utf8(content, self._declaration.encoding, name)
        for number, line in lines_of(io.BytesIO(text), name):
            plain = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            if plain.strip():
                yield number, plain

    def _decoded(self, path: str) -> str:
        pattern = _NEWER if self._declaration.version >= (1, 0) else _OLDER
        return pattern.sub(lambda found: chr(int(found[1], 16)), path)

    def _ours(self, path: str) -> str:
        return path.removeprefix(self._prefix)

    def _required(self, name: str) -> bytes:
        content = self._source.read_below(name)
        if content is None:
            raise ManifestError(f"{self._source.shown}: holds no {name}: not a bag")
        return content


def _declared(content: bytes) -> _Declaration:
    lines = content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").splitlines()
    version = _VERSION.fullmatch(lines[0]) if lines else None
    if version is None:
        raise ManifestError(f"{_BAGIT} line 1: must be 'BagIt-Version: M.N'")
    named = _ENCODING.fullmatch(lines[1]) if len(lines) > 1 else None
    if named is None:
        raise ManifestError(f"{_BAGIT} line 2: must be 'Tag-File-Character-Encoding: UTF-8'")
    try:
        encoding = codecs.lookup(named[1]).name
    except LookupError:
        raise ManifestError(f"{_BAGIT} line 2: encoding {named[1]!a} is unknown here") from None
    return _Declaration((int(version[1]), int(version[2])), encoding)


def _as_utf8(content: bytes, encoding: str, name: str) -> bytes:
    if encoding == "utf-8":
        return content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode(encoding).encode()
    except (ValueError, LookupError) as error:
        raise ManifestError(f"{name}: not {encoding} ({error!s:.100})") from None
