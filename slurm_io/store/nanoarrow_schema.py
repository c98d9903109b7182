"""A table of :mod:`slurm_io.store.schema` as nanoarrow sees it: for writers that stay resident.

The twin for readers is :mod:`slurm_io.store.arrow_schema` (pyarrow); a test holds them equal.
"""

from __future__ import annotations

import nanoarrow

from slurm_io.store.schema import SCHEMA_VERSION, Column, Table

_TYPES = {
    "int64": nanoarrow.int64,
    "int32": nanoarrow.int32,
    "float64": nanoarrow.float64,
    "float32": nanoarrow.float32,
    "string": nanoarrow.string,
    "bool": nanoarrow.bool_,
}


def nanoarrow_type(column: Column) -> nanoarrow.Schema:
    """The nanoarrow type of one column, nullability included."""
    return _TYPES[column.type](nullable=column.nullable)


def nanoarrow_schema(table: Table) -> nanoarrow.c_schema.CSchema:
    """The struct of a table's columns, marked with table name and schema version."""
    fields = {column.name: nanoarrow_type(column) for column in table.columns}
    struct = nanoarrow.c_schema(nanoarrow.struct(fields, nullable=False))
    return struct.modify(metadata=schema_metadata(table))


def schema_metadata(table: Table) -> dict[bytes, bytes]:
    """What every stream and Parquet file of ours says about itself."""
    return {
        b"slurm_io.table": table.name.encode(),
        b"slurm_io.schema": str(SCHEMA_VERSION).encode(),
    }
