"""MosaicML Streaming: ``index.json`` beside the shards, merged ones, and folders of streams.

Sample::

    {"version": 2, "shards": [{"format": "mds", "compression": "zstd", "samples": 4096,
      "raw_data": {"basename": "shard.00000.mds", "bytes": 67108864, "hashes": {"sha1": "…"}},
      "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 50331648, "hashes": {}}}]}

csv, tsv and jsonl shards come with ``raw_meta``/``zip_meta``. Where a shard is compressed, the zip
is the file of the dataset, unless the local copy holds the unpacked one in its place.
"""

from __future__ import annotations

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList, algorithm_named, digest_of
from slurm_io.staging.manifest.foreign_json import Fields, parse_json
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions
from slurm_io.staging.manifest.model import Role

_INDEX = "index.json"
_KINDS: tuple[tuple[str, Role], ...] = (("data", "data"), ("meta", "metadata"))


@IMPORTERS.register("mosaicml")
class MosaicMl:
    """An ``index.json``, or a folder with one, or a folder of streams with one each."""

    title = "mosaicml: index.json of MosaicML Streaming"

    def recognise(self, source: Source) -> bool:
        """A list of shards of which the first has raw or zip data."""
        if source.is_folder:
            return any(_is_index(source, folder) for folder in _streams(source))
        return _has_shards(source.document)

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read all indexes; sizes and digests as they say."""
        reading = _Reading(EntryList(options.prefix), options.root)
        if source.is_folder:
            for folder in _streams(source):
                content = source.read_below(_below(folder, _INDEX))
                if content is not None:
                    reading.add_index(content, folder, _INDEX)
        else:
            reading.add_index(source.content, "", source.name)
        return reading.result(source)


class _Reading:
    """Entries and counts gathered over the indexes of all streams."""

    def __init__(self, entries: EntryList, root: str | None) -> None:
        self._entries = entries
        self._root = Source(root) if root else None
        self._samples = self._shards = 0
        self._unhashed = 0
        self._unpacked = 0
        self._unknown: set[str] = set()

    def add_index(self, content: bytes, folder: str, name: str) -> None:
        """One index and the shards it names, paths relative to its folder."""
        where = shown(_below(folder, name))
        index = Fields(parse_json(content, where), where)
        if index.raw("version") != 2:
            raise ManifestError(f"{where}: version {index.raw('version')!a:.20}; only 2 is known")
        for shard in index.objects("shards"):
            self._samples += shard.optional_count("samples") or 0
            self._add_shard(shard, folder)
            self._shards += 1
        self._entries.add_own(_below(folder, name), content, "index", where)

    def result(self, source: Source) -> Imported:
        """All that was gathered. Raises ManifestError when no index names a shard."""
        if not self._shards:
            raise ManifestError(f"{source.shown}: names no shards")
        if self._root is not None:
            self._root.close()
        notes = [f"{self._samples} samples"]
        if self._unhashed:
            notes.append(f"{self._unhashed} shard files without digests")
        if self._unpacked:
            notes.append(f"{self._unpacked} shard files taken unpacked, as the local copy has them")
        if self._unknown:
            notes.append(f"digests not kept: {', '.join(sorted(self._unknown))}")
        return Imported(self._entries.entries(source.shown), tuple(notes), (source.path,))

    def _add_shard(self, shard: Fields, folder: str) -> None:
        found = False
        for kind, role in _KINDS:
            raw = shard.optional_object(f"raw_{kind}")
            packed = shard.optional_object(f"zip_{kind}")
            chosen = self._chosen(raw, packed, folder)
            if chosen is not None:
                self._add_file(chosen, folder, role)
                found = True
        if not found:
            raise ManifestError(f"{shard.where}: neither raw_data nor zip_data: not a shard")

    def _chosen(self, raw: Fields | None, packed: Fields | None, folder: str) -> Fields | None:
        if raw is None or packed is None or self._root is None:
            return packed or raw
        if not self._is_there(packed, folder) and self._is_there(raw, folder):
            self._unpacked += 1
            return raw
        return packed

    def _is_there(self, file: Fields, folder: str) -> bool:
        assert self._root is not None
        return self._root.holds(_below(folder, file.text("basename")))

    def _add_file(self, file: Fields, folder: str, role: Role) -> None:
        hashes = file.optional_object("hashes")
        digests = []
        for name in hashes.names() if hashes else ():
            algorithm = algorithm_named(name)
            assert hashes is not None
            if algorithm is None:
                self._unknown.add(name[:40])
            elif digits := hashes.optional_text(name):
                digests.append(digest_of(algorithm, digits, f"{hashes.where}.{name:.40}"))
        self._unhashed += not digests
        self._entries.add(
            _below(folder, file.text("basename")),
            file.where,
            size_bytes=file.count("bytes"),
            digests=tuple(dict.fromkeys(digests)),
            role=role,
        )


def _streams(source: Source) -> list[str]:
    """Folders whose index counts: the source itself, else every one below it that has one."""
    if _INDEX in source.names:
        return [""]
    return [folder for folder in source.folders_below() if source.holds(_below(folder, _INDEX))]


def _is_index(source: Source, folder: str) -> bool:
    path = _below(folder, _INDEX)
    content = source.read_below(path)
    return content is not None and _has_shards(parse_json(content, shown(path)))


def _has_shards(document: object) -> bool:
    shards = document.get("shards") if isinstance(document, dict) else None
    if not isinstance(shards, list) or not shards or not isinstance(shards[0], dict):
        return False
    return "raw_data" in shards[0] or "zip_data" in shards[0]


def _below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
