"""S3 Inventory: the ``manifest.json`` of one inventory and the CSV files it names.

Samples (the CSV has no header; ``fileSchema`` names its columns, keys are URL-encoded)::

    {"sourceBucket": "data", "fileFormat": "CSV", "fileSchema": "Bucket, Key, Size, ETag",
     "files": [{"key": "inv/data/daily/data/573a.csv.gz", "size": 169, "MD5checksum": "1100…43c1"}]}
    "data","c4/train+0.tar","1234","9b2c…-3"

The CSV files are looked for beside ``manifest.json`` and in ``data/`` beside it, and compared with
the size and MD5 it states. ORC and Parquet inventories are refused.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator
from typing import IO
from urllib.parse import unquote_plus

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_json import Fields
from slurm_io.staging.manifest.foreign_objects import DELETED, OLD, ObjectList, size_of
from slurm_io.staging.manifest.foreign_packed import unpacked
from slurm_io.staging.manifest.foreign_source import Source, lines_of, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions


@IMPORTERS.register("s3_inventory")
class S3Inventory:
    """The manifest.json of an inventory."""

    title = "s3_inventory: manifest.json of an S3 Inventory in CSV"

    def recognise(self, source: Source) -> bool:
        """By the keys of the JSON."""
        return source.has_keys("fileFormat", "fileSchema", "files")

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read every CSV file; old versions and deleted objects are left out and counted."""
        manifest = Fields(source.document, source.shown)
        columns = _columns(manifest)
        objects = ObjectList(options.prefix)
        for file in manifest.objects("files"):
            for where, row in _rows(source, file, len(columns)):
                _add_row(objects, dict(zip(columns, row, strict=True)), where)
        bucket = manifest.optional_text("sourceBucket")
        sources = [source.path, *([f"s3://{bucket}/{options.prefix}"] if bucket else [])]
        return Imported(objects.entries(source.shown), objects.notes(), tuple(sources))


def _columns(manifest: Fields) -> list[str]:
    kind = manifest.text("fileFormat")
    if kind.upper() != "CSV":
        raise ManifestError(
            f"{manifest.where}: an inventory as {kind!a:.20} is not read; configure CSV"
        )
    columns = [name.strip() for name in manifest.text("fileSchema").split(",")]
    if len(set(columns)) != len(columns) or not {"Key", "Size"} <= set(columns):
        raise ManifestError(f"{manifest.where}: fileSchema must name Key and Size, each once")
    return columns


def _add_row(objects: ObjectList, row: dict[str, str], where: str) -> None:
    if row.get("IsLatest", "true").lower() == "false":
        objects.counts[OLD] += 1
    elif row.get("IsDeleteMarker", "false").lower() == "true":
        objects.counts[DELETED] += 1
    else:
        objects.add(
            unquote_plus(row["Key"], errors="surrogateescape"),
            size_of(row["Size"], where),
            where,
            etag=row.get("ETag"),
            version_id=row.get("VersionId"),
            storage_class=row.get("StorageClass"),
        )


def _rows(source: Source, file: Fields, columns: int) -> Iterator[tuple[str, list[str]]]:
    """(place, values) of each row of one CSV file, whose size and MD5 are compared first."""
    name = _place_of(source, file)
    fd = source.open_below(name)
    if fd is None:
        raise ManifestError(f"{shown(name)}: went away while the inventory was read")
    with os.fdopen(fd, "rb") as raw:
        _require_same(raw, file, shown(name))
        lines = _text_lines(unpacked(raw, shown(name)), shown(name))
        reader = csv.reader(lines, strict=True)
        try:
            for row in reader:
                place = f"{shown(name)} line {reader.line_num}"
                if len(row) != columns:
                    raise ManifestError(
                        f"{place}: {len(row)} values, fileSchema names {columns} columns"
                    )
                yield place, row
        except csv.Error as error:
            raise ManifestError(f"{shown(name)} line {reader.line_num}: {error}") from None


def _place_of(source: Source, file: Fields) -> str:
    """Where the CSV of that key lies: beside manifest.json, or in data/ beside it."""
    key = file.text("key")
    name = os.path.basename(key)
    if name in ("", ".", ".."):
        raise ManifestError(f"{file.where}.key: {key!a:.80} names no file")
    for place in (name, f"data/{name}"):
        if source.holds(place):
            return place
    raise ManifestError(
        f"{file.where}: {shown(name)} is not beside {source.shown} nor in data/ beside it; "
        f"fetch it there: aws s3 cp s3://DESTINATION-BUCKET/{shown(key)} ."
    )


def _require_same(raw: IO[bytes], file: Fields, where: str) -> None:
    stated, found = file.optional_count("size"), os.fstat(raw.fileno()).st_size
    if stated is not None and stated != found:
        raise ManifestError(f"{where}: {found} bytes, manifest.json says {stated}; fetch it again")
    md5 = file.optional_text("MD5checksum")
    if md5 and _md5_of(raw) != md5.lower():
        raise ManifestError(f"{where}: its MD5 is not what manifest.json says; fetch it again")
    raw.seek(0)


def _md5_of(file: IO[bytes]) -> str:
    hasher = hashlib.md5(usedforsecurity=False)
    while block := file.read(1 << 20):
        hasher.update(block)
    return hasher.hexdigest()


def _text_lines(file: IO[bytes], where: str) -> Iterator[str]:
    for _, line in lines_of(file, where):
        yield line.decode("utf-8", "surrogateescape")
