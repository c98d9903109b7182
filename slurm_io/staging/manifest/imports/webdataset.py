"""WebDataset: the shard list that ``widsindex`` writes (``wids-shard-index-v1``).

Sample::

    {"__kind__": "wids-shard-index-v1", "wids_version": 1, "name": "train", "shardlist": [
      {"url": "s3://bucket/c4/train-000000.tar", "nsamples": 9000, "filesize": 1073741824,
       "md5sum": "9e107d9d372bb6826bd81d3542a419d6"}]}

Size and digest are optional. Addresses become paths below the folder that all have in common.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from urllib.parse import unquote

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList, digest_of
from slurm_io.staging.manifest.foreign_json import Fields, parse_json
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions

_KIND = "wids-shard-index-v1"
_BRACES = re.compile(r"\{[^{}]*(?:\.\.|,)[^{}]*\}")
_ADDRESS = re.compile(
    r"(file):(?://[^/]*)?(/.*)|([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL
)
_WEB = frozenset({"http", "https"})
_STORES = frozenset({"s3", "gs", "gcs", "az", "abfs", "hf", "ais"})


@dataclass(frozen=True)
class _Shard:
    """One row. `place`: scheme and host; `parts`: the path's components below it."""

    place: str
    parts: tuple[str, ...]
    row: Fields


@IMPORTERS.register("webdataset")
class WebDataset:
    """A wids index."""

    title = "webdataset: wids index (wids-shard-index-v1)"

    def recognise(self, source: Source) -> bool:
        """Its own mark, or version and shard list."""
        document = source.document
        return isinstance(document, dict) and (
            document.get("__kind__") == _KIND
            or ("wids_version" in document and ("shardlist" in document or "datasets" in document))
        )

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read the list and those of its datasets that lie in files beside it."""
        index = Fields(source.document, source.shown)
        if index.raw("wids_version") not in (None, 1):
            raise ManifestError(f"{source.shown}: wids_version must be 1")
        shards = _shards(index, index.optional_text("base") or "")
        for dataset in index.objects("datasets"):
            shards += _shards_of(dataset, source)
        entries = EntryList(options.prefix)
        if not shards:
            raise ManifestError(f"{source.shown}: names no shards")
        common = _common_folders(shards, source.shown)
        for shard in shards:
            _add(entries, shard, len(common))
        sources = [source.path]
        if shards[0].place:
            sources.append("/".join((shards[0].place, *common, "")))
        else:
            entries.add_own(source.name, source.content, "index", source.shown)
        samples = sum(shard.row.optional_count("nsamples") or 0 for shard in shards)
        return Imported(entries.entries(source.shown), (f"{samples} samples",), tuple(sources))


def _shards_of(dataset: Fields, source: Source) -> list[_Shard]:
    """The shards of one of ``datasets``: in place, or in a file beside the index."""
    address = dataset.optional_text("source_url")
    if address is None:
        return _shards(dataset, dataset.optional_text("base") or "")
    content = None if "://" in address else source.read_below(address)
    if content is None:
        raise ManifestError(
            f"{dataset.where}: its list {_shown(address)} is not beside the index; "
            "fetch it and write its name there"
        )
    inner = Fields(parse_json(content, shown(address)), shown(address))
    if "datasets" in inner or "source_url" in inner:
        raise ManifestError(f"{inner.where}: names further lists; only one level is allowed")
    return _shards(inner, inner.optional_text("base") or os.path.dirname(address))


def _shards(index: Fields, base: str) -> list[_Shard]:
    return [_shard(row, base) for row in index.objects("shardlist")]


def _shard(row: Fields, base: str) -> _Shard:
    url = row.text("url")
    if url.startswith("pipe:"):
        raise ManifestError(f"{row.where}.url: a pipe: command names no file; write the address")
    if _BRACES.search(url):
        raise ManifestError(
            f"{row.where}.url: {_shown(url)} is a pattern; an index has one row a shard "
            "(widsindex create)"
        )
    if base and not url.startswith("/") and not _ADDRESS.fullmatch(url):
        url = f"{base.rstrip('/')}/{url}"
    place, path = _place_and_path(url, row.where)
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in parts or not parts or path.endswith("/"):
        raise ManifestError(f"{row.where}.url: {_shown(url)} names no file, or holds '..'")
    return _Shard(place, parts, row)


def _place_and_path(url: str, where: str) -> tuple[str, str]:
    """("", path) of a path beside the index, else scheme with host (no user, no password) and path.

    Only addresses of the web are percent-encoded, and only they have queries.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return ("file://", url) if url.startswith("/") else ("", url)
    if found[1]:
        return "file://", found[2]
    scheme, host, path = found[3].lower(), found[4].rpartition("@")[2], found[5]
    if scheme in _WEB:
        plain = path.partition("#")[0].partition("?")[0]
        return f"{scheme}://{host}", unquote(plain, errors="surrogateescape")
    if scheme in _STORES:
        return f"{scheme}://{host}", path
    raise ManifestError(f"{where}.url: {scheme!a:.20}: is none of the known kinds of address")


def _common_folders(shards: list[_Shard], where: str) -> tuple[str, ...]:
    """The folders all addresses have in common; none for paths beside the index."""
    places = sorted({shard.place for shard in shards})
    if len(places) > 1:
        named = ", ".join(shown(place) if place else "beside the index" for place in places)
        raise ManifestError(
            f"{where}: shards lie in several places ({named:.200}); split the index, one for each"
        )
    if not shards[0].place:
        return ()
    first = min(shard.parts[:-1] for shard in shards)
    last = max(shard.parts[:-1] for shard in shards)
    equal = (a == b for a, b in zip(first, last, strict=False))
    return first[: sum(itertools.takewhile(bool, equal))]


def _add(entries: EntryList, shard: _Shard, folders: int) -> None:
    md5 = shard.row.optional_text("md5sum")
    where = shard.row.where
    entries.add(
        "/".join(shard.parts[folders:]),
        where,
        size_bytes=shard.row.optional_count("filesize"),
        digests=(digest_of("md5", md5, f"{where}.md5sum"),) if md5 else (),
    )


def _shown(url: str) -> str:
    """An address for messages, without its query: that may be a signature."""
    return f"{url.partition('?')[0].rpartition('@')[2]!a:.120}"
