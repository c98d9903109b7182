"""Listings of S3 and its kin: ``list-objects-v2`` JSON and the text of ``aws s3 ls``.

Samples::

    {"Contents": [{"Key": "c4/0.tar", "Size": 7, "ETag": "\\"9b2c…-3\\"",
      "ChecksumAlgorithm": ["CRC64NVME"], "ChecksumType": "FULL_OBJECT"}], "Prefix": "c4/"}
    2026-05-04 16:48:31       1234 c4/train 0.tar

An ETag is kept as what it is, a name of that upload, never taken for an MD5: of a multipart or an
encrypted object it is none. A checksum counts as a digest only when it covers the full object.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from urllib.parse import unquote_plus

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import digest_of
from slurm_io.staging.manifest.foreign_json import Fields
from slurm_io.staging.manifest.foreign_objects import DELETED, OLD, ObjectList, size_of
from slurm_io.staging.manifest.foreign_source import Source, lines_of, looks_like_json
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions

_STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +"
_ROW = re.compile(_STAMP + r"([0-9]{1,19}) (.+)", re.DOTALL)
_ROUNDED = re.compile(_STAMP + r"[\d.]+ (?:Bytes|[KMGTPE]iB) .*", re.DOTALL)
_SUMMARY = re.compile(r"\s*Total (Objects|Size): (.+)")
_CHECKSUMS = {
    "ChecksumSHA256": "sha256",
    "ChecksumSHA1": "sha1",
    "ChecksumCRC64NVME": "crc64nvme",
    "ChecksumCRC32C": "crc32c",
    "ChecksumCRC32": "crc32",
}
_NOT_FULL = "checksums not of the full object, not kept"


@IMPORTERS.register("s3_listing")
class S3Listing:
    """A listing as JSON or text."""

    title = "s3_listing: list-objects-v2 (or object-versions) JSON, aws s3 ls --recursive"

    def recognise(self, source: Source) -> bool:
        """By the JSON's keys, or by the first line of text."""
        if source.is_folder:
            return False
        if looks_like_json(source.head):
            return any(map(_is_listing, _pages(source.document)))
        lines = source.head.decode("utf-8", "surrogateescape").split("\n")
        first = next((line for line in lines if line.strip()), "").rstrip("\r")
        return bool(_ROW.fullmatch(first) or _ROUNDED.fullmatch(first)) or _is_folder_row(first)

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read the objects; markers, old versions and deleted objects are left out and counted."""
        objects = ObjectList(options.prefix)
        if looks_like_json(source.head):
            bucket = _read_json(objects, source)
        else:
            bucket = None
            _read_text(objects, source)
        sources = [source.path, *([f"s3://{bucket}/{options.prefix}"] if bucket else [])]
        return Imported(objects.entries(source.shown), objects.notes(), tuple(sources))


def _read_json(objects: ObjectList, source: Source) -> str | None:
    """One page or a list of pages; the bucket's name where one says it."""
    bucket = None
    pages = _pages(source.document)
    for index, page in enumerate(pages):
        where = source.shown + (f"[{index}]" if len(pages) > 1 else "")
        fields = Fields(page, where)
        _require_whole(fields, last=index == len(pages) - 1)
        encoded = fields.optional_text("EncodingType") == "url"
        objects.counts[DELETED] += len(fields.list_of("DeleteMarkers"))
        bucket = fields.optional_text("Name") or bucket
        for row in (*fields.objects("Contents"), *fields.objects("Versions")):
            _add_row(objects, row, encoded)
    return bucket


def _add_row(objects: ObjectList, row: Fields, encoded: bool) -> None:
    if "IsLatest" in row and not row.flag("IsLatest"):
        objects.counts[OLD] += 1
        return
    key = row.text("Key")
    objects.add(
        unquote_plus(key, errors="surrogateescape") if encoded else key,
        row.count("Size"),
        row.where,
        etag=row.optional_text("ETag"),
        version_id=row.optional_text("VersionId"),
        storage_class=row.optional_text("StorageClass"),
        digests=_digests(objects, row),
    )


def _digests(objects: ObjectList, row: Fields) -> tuple[str, ...]:
    """Checksums of the full object. COMPOSITE ones, and those that end in -PARTS, are not."""
    found = []
    for name, algorithm in _CHECKSUMS.items():
        value = row.optional_text(name)
        if value is None:
            continue
        if row.optional_text("ChecksumType") != "FULL_OBJECT" or "-" in value:
            objects.counts[_NOT_FULL] += 1
            continue
        try:
            digits = base64.b64decode(value, validate=True).hex()
        except (binascii.Error, ValueError):
            raise ManifestError(f"{row.where}.{name}: is not base64") from None
        found.append(digest_of(algorithm, digits, f"{row.where}.{name}"))
    return tuple(found)


def _read_text(objects: ObjectList, source: Source) -> None:
    """``aws s3 ls --recursive``, with or without --summarize."""
    total_bytes = count = 0
    with os.fdopen(source.open(), "rb") as file:
        for number, raw in lines_of(file, source.shown):
            where = f"{source.shown} line {number}"
            line = raw.decode("utf-8", "surrogateescape").removesuffix("\n").removesuffix("\r")
            summary = _SUMMARY.fullmatch(line)
            if summary:
                _check_summary(summary, count, total_bytes, where)
            elif line.strip():
                key, size_bytes = _text_row(line, where)
                count, total_bytes = count + 1, total_bytes + size_bytes
                objects.add(key, size_bytes, where)


def _text_row(line: str, where: str) -> tuple[str, int]:
    """(key, size) of one line of ``aws s3 ls``."""
    found = _ROW.fullmatch(line)
    if found:
        return found[2], size_of(found[1], where)
    if _is_folder_row(line):
        raise ManifestError(f"{where}: shows a folder; list with aws s3 ls --recursive")
    if _ROUNDED.fullmatch(line):
        raise ManifestError(f"{where}: sizes are rounded; list without --human-readable")
    raise ManifestError(f"{where}: must be DATE TIME SIZE KEY, as aws s3 ls --recursive writes it")


def _check_summary(summary: re.Match[str], count: int, total_bytes: int, where: str) -> None:
    seen = count if summary[1] == "Objects" else total_bytes
    if summary[2].strip() != str(seen):
        raise ManifestError(
            f"{where}: says {summary[2].strip()!a:.30}, the lines above make {seen}; list it again"
        )


def _pages(document: object) -> list[object]:
    return document if isinstance(document, list) else [document]


def _is_listing(page: object) -> bool:
    if not isinstance(page, dict):
        return False
    rows = page.get("Contents", page.get("Versions"))
    if not isinstance(rows, list):
        return False
    return not rows or (isinstance(rows[0], dict) and "Key" in rows[0])


def _is_folder_row(line: str) -> bool:
    return line.startswith("  ") and line.lstrip().startswith("PRE ")


def _require_whole(page: Fields, last: bool) -> None:
    """Raises ManifestError when there are more objects than the listing shows."""
    if page.list_of("CommonPrefixes"):
        raise ManifestError(f"{page.where}: was listed with --delimiter; list it without")
    cut = page.flag("IsTruncated") or "NextToken" in page or "NextContinuationToken" in page
    if last and cut:
        raise ManifestError(
            f"{page.where}: the listing is cut (IsTruncated or NextToken); fetch every page"
        )
