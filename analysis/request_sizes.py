"""How large the reads were that reached the awaited file systems, as their own counters have it.

A process's read calls count those on pipes and queues too: a loader's worker makes a dozen of them
for each batch. What the client or the device was asked for is about the data alone.
"""

from __future__ import annotations

import polars as pl

from slurm_io.analysis.devices import leaf_rows
from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.inputs import Tables

_LEAST_READS = 100


def mean_request_bytes(
    tables: Tables,
    spans: pl.DataFrame,
    awaited: list[tuple[str, str]],
    local: list[tuple[str, str]],
) -> float | None:
    """Bytes of a read request of the `awaited` (node, mount) between `spans`.

    By the clients of network file systems, else by the devices of those that are `local`; None
    where neither was recorded, or fewer than 100 requests were. What a node's disks were asked for
    says nothing of a mount that is on none of them.
    """
    by_client = _of_clients(tables, spans, awaited)
    if by_client is not None or not local:
        return by_client
    return _of_devices(tables, spans, local)


def _of_clients(
    tables: Tables, spans: pl.DataFrame, awaited: list[tuple[str, str]]
) -> float | None:
    read = rows_between(tables, spans, "fsclient", ("mount", "op_class", "ops", "bytes"))
    places = pl.DataFrame(awaited, schema={"node": pl.String, "mount": pl.String}, orient="row")
    mine = read.rows.filter(pl.col("op_class") == "read").drop_nulls(["ops", "bytes"])
    mine = mine.join(places, on=["node", "mount"], how="semi")
    return _mean(float(mine["bytes"].sum()), float(mine["ops"].sum()), read.every)


def _of_devices(
    tables: Tables, spans: pl.DataFrame, awaited: list[tuple[str, str]]
) -> float | None:
    read = rows_between(tables, spans, "block", ("device", "role", "r_s", "rkB_s"))
    rows = leaf_rows(read.rows, tables.store, awaited).drop_nulls(["r_s", "rkB_s"])
    moved = float((rows["rkB_s"] * rows["seconds"]).sum()) * 1024
    return _mean(moved, float((rows["r_s"] * rows["seconds"]).sum()), read.every)


def _mean(n_bytes: float, requests: float, every: int) -> float | None:
    """`every`: how many rows each of those looked at stands for."""
    return n_bytes / requests if requests * every >= _LEAST_READS and n_bytes > 0 else None
