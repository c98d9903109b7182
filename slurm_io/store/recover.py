"""Reads one stream file up to the first damage and says what is missing.

A stream is a chain of messages: four bytes of 0xFF, i32 length of the metadata, metadata
(a flatbuffer that names the body's length), body. Every batch of ours ends in a checksum over the
schema, its metadata and its body (:mod:`slurm_io.store.batch_template`): a batch is accepted whole
or not at all. Nothing is allocated on the word of the file: every length is held against the
bytes that are really there.
"""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from slurm_io.store.batch_template import END_OF_STREAM, TRAILER_MAGIC
from slurm_io.store.files import open_regular
from slurm_io.store.flatbuffer import CONTINUATION, FlatbufferError, FlatTable

MAX_STREAM_BYTES = 512 * 1024 * 1024
MAX_METADATA_BYTES = 1024 * 1024
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3
_BATCH_COMPRESSION = 3
_SCHEMA, _RECORD_BATCH = 1, 3


@dataclass(frozen=True)
class Damage:
    """Where reading had to stop: bytes from `offset_bytes` on are lost, and why."""

    file: str
    offset_bytes: int
    lost_bytes: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """As ``meta.json`` holds it under ``damage``."""
        return asdict(self)


@dataclass(frozen=True)
class Recovered:
    """What a stream file yields. `schema` is None when not even that could be read.

    `ended` tells that the writer closed the stream; a killed one has no end mark, which loses
    nothing that was flushed and is no damage.
    """

    schema: pa.Schema | None
    batches: list[pa.RecordBatch]
    damage: Damage | None
    ended: bool


class _Torn(ValueError):
    """The message at hand is not whole."""


def recover_stream(path: Path, max_bytes: int = MAX_STREAM_BYTES) -> Recovered:
    """All whole batches of a stream file. StoreError only when the file cannot be opened at all."""
    fd, size = open_regular(path, max_bytes)
    with open(fd, "rb", buffering=0) as file:
        return _read(file, size, path.name)


def _read(file: BinaryIO, size: int, name: str) -> Recovered:
    schema: pa.Schema | None = None
    schema_crc = 0
    batches: list[pa.RecordBatch] = []
    offset = 0
    while offset < size:
        try:
            head = _take(file, 8)
            if head == END_OF_STREAM:
                damage = _trailing(name, offset + 8, size)
                return Recovered(schema, batches, damage, ended=True)
            metadata, kind, body_length = _metadata(file, head, size - offset)
            if schema is None:
                schema, schema_crc = _schema(metadata, kind, body_length)
            else:
                body = _take(file, body_length)
                batches.append(_batch(metadata, kind, body, schema, schema_crc))
        except (_Torn, FlatbufferError, OSError) as exc:
            return Recovered(schema, batches, Damage(name, offset, size - offset, str(exc)), False)
        offset += len(metadata) + body_length
    return Recovered(schema, batches, None, ended=False)


def _trailing(name: str, offset: int, size: int) -> Damage | None:
    if offset == size:
        return None
    return Damage(name, offset, size - offset, "bytes after the end of the stream")


def _take(file: BinaryIO, count: int) -> bytes:
    """Exactly `count` bytes; the caller has held `count` against the size of the file."""
    data = file.read(count)
    if len(data) != count:
        raise _Torn("the file ends inside a message")
    return data


def _metadata(file: BinaryIO, head: bytes, left: int) -> tuple[bytes, int, int]:
    """(prefix and metadata, message kind, length of the body that follows)."""
    if head[:4] != CONTINUATION:
        raise _Torn("no message starts here")
    length = int.from_bytes(head[4:], "little", signed=True)
    if not 0 < length <= MAX_METADATA_BYTES or length % 8:
        raise _Torn("a message of impossible length")
    if 8 + length > left:
        raise _Torn("the file ends inside a message")
    metadata = head + _take(file, length)
    message = FlatTable.root(metadata, 8)
    body_length = message.int64(_BODY_LENGTH)
    if body_length < 0 or 8 + length + body_length > left:
        raise _Torn("the file ends inside a message")
    return metadata, message.uint8(_HEADER_TYPE), body_length


def _schema(metadata: bytes, kind: int, body_length: int) -> tuple[pa.Schema, int]:
    if kind != _SCHEMA or body_length:
        raise _Torn("the stream does not start with a schema")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(metadata))
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise _Torn("the schema cannot be read") from exc
    return schema, zlib.crc32(metadata)


def _batch(
    metadata: bytes, kind: int, body: bytes, schema: pa.Schema, schema_crc: int
) -> pa.RecordBatch:
    if kind != _RECORD_BATCH or len(body) < 8:
        raise _Torn("a message that is no batch of rows")
    crc = zlib.crc32(memoryview(body)[:-8], zlib.crc32(metadata, schema_crc))
    if body[-8:] != TRAILER_MAGIC + crc.to_bytes(4, "little"):
        raise _Torn("a batch whose checksum does not match")
    # We never compress a stream: a forged one could unpack to any size.
    if FlatTable.root(metadata, 8).table(_HEADER).find(_BATCH_COMPRESSION) is not None:
        raise _Torn("a compressed batch")
    try:
        message = pa.ipc.read_message(pa.py_buffer(metadata + body))
        batch = pa.ipc.read_record_batch(message, schema)
        batch.validate(full=True)  # a forged file can bear a right checksum
    except (pa.ArrowException, OSError, ValueError) as exc:
        raise _Torn("a batch that cannot be decoded") from exc
    if batch.num_rows > len(body):  # columns without data could claim any number of rows
        raise _Torn("a batch of more rows than bytes")
    return batch
