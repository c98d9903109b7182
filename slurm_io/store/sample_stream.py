"""One stream of each table as nanoarrow writes it: what :mod:`.batch_template` copies from."""

from __future__ import annotations

import io
import struct

import nanoarrow
from nanoarrow.ipc import StreamWriter as NanoarrowWriter

from slurm_io.store.nanoarrow_schema import nanoarrow_schema, nanoarrow_type
from slurm_io.store.schema import Column, Table


def sample_stream(table: Table) -> bytes:
    """Schema message and one batch of one row, as nanoarrow writes them."""
    children = [_sample_column(column) for column in table.columns]
    batch = nanoarrow.c_array_from_buffers(
        nanoarrow_schema(table), 1, [None], null_count=0, children=children, move=True
    )
    out = io.BytesIO()
    writer = NanoarrowWriter.from_writable(out)
    writer.write_array(batch)
    writer.release()
    return out.getvalue()


def _sample_column(column: Column) -> nanoarrow.c_array.CArray:
    buffers: list[bytes | None] = [None, b"\1\0\0\0\0\0\0\0"]
    if column.type == "string":
        buffers = [None, struct.pack("<ii", 0, 1), b"x"]
    return nanoarrow.c_array_from_buffers(nanoarrow_type(column), 1, buffers, null_count=0)
