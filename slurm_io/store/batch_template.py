"""The metadata of one table's IPC record batch, made once by nanoarrow and then filled in.

Building a batch through nanoarrow's Python constructors costs 1.2 ms for 27 columns (measured,
bench/store_cost.py); the sampler has 3 ms a second for everything. All batches of one table differ
only in numbers: row count, null counts, buffer places. So nanoarrow writes one sample batch,
this module finds where those numbers lie in its flatbuffer, and every later batch is a copy
with the numbers replaced.

Each body ends with a trailer that no buffer refers to (readers skip it as padding): four bytes
``SIOC`` and the CRC-32 of the stream's schema message, the batch's metadata and its buffers. It
tells a torn or flipped batch from a whole one (:mod:`slurm_io.store.recover`).

Formats: Arrow IPC, https://arrow.apache.org/docs/format/Columnar.html ; FlatBuffers binary.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from slurm_io.store.encode import Encoded
from slurm_io.store.flatbuffer import FlatTable, message_length, vector_start
from slurm_io.store.schema import Table

TRAILER_MAGIC = b"SIOC"
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_MESSAGE_HEADER, _MESSAGE_BODY_LENGTH = 2, 3
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS = 0, 1, 2
_PADDING = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0" * 2, b"\0")


class BatchTemplate:
    """Makes whole IPC messages for one table: :attr:`schema_message`, then :meth:`message`.

    `sample`: what :func:`.sample_stream.sample_stream` gave for this table, made here when None.
    """

    def __init__(self, table: Table, sample: bytes | None = None) -> None:
        if sample is None:
            from slurm_io.store.sample_stream import sample_stream  # brings 3 MiB of nanoarrow

            sample = sample_stream(table)
        schema_length = message_length(sample, 0)
        self.schema_message = sample[:schema_length]
        self._schema_crc = zlib.crc32(self.schema_message)
        batch = sample[schema_length:]
        self._metadata = bytearray(batch[: message_length(batch, 0)])
        self._find_numbers(len(table.columns))

    def _find_numbers(self, n_columns: int) -> None:
        message = FlatTable.root(self._metadata, 8)
        header = message.table(_MESSAGE_HEADER)
        self._body_length_at = message.place(_MESSAGE_BODY_LENGTH)
        self._length_at = header.place(_BATCH_LENGTH)
        self._nodes_at, n_nodes = vector_start(header, _BATCH_NODES)
        self._buffers_at, n_buffers = vector_start(header, _BATCH_BUFFERS)
        assert n_nodes == n_columns, "nanoarrow wrote another number of columns"
        self._nodes = struct.Struct(f"<{2 * n_nodes}q")
        self._buffers = struct.Struct(f"<{2 * n_buffers}q")

    def message(self, n_rows: int, columns: Sequence[Encoded]) -> bytes:
        """One whole record-batch message of `n_rows` rows, ready to be appended to the stream."""
        nodes: list[int] = []
        places: list[int] = []
        parts: list[bytes] = []
        offset = 0
        for nulls, buffers in columns:
            nodes += (n_rows, nulls)
            for buffer in buffers:
                length = len(buffer)
                places += (offset, length)
                if length:
                    parts += (buffer, _PADDING[length & 7])
                    offset += (length + 7) & ~7
        metadata = self._filled_in(n_rows, nodes, places, offset + 8)
        body = b"".join(parts)
        crc = zlib.crc32(body, zlib.crc32(metadata, self._schema_crc))
        return b"".join((metadata, body, TRAILER_MAGIC, crc.to_bytes(4, "little")))

    def _filled_in(
        self, n_rows: int, nodes: list[int], places: list[int], body_bytes: int
    ) -> bytearray:
        metadata = self._metadata
        struct.pack_into("<q", metadata, self._length_at, n_rows)
        struct.pack_into("<q", metadata, self._body_length_at, body_bytes)
        self._nodes.pack_into(metadata, self._nodes_at, *nodes)
        self._buffers.pack_into(metadata, self._buffers_at, *places)
        return metadata
