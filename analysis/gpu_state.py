"""How fast the job's GPUs were allowed to run: clocks, reasons for lowering them, the PCIe link.

Only looks at a busy GPU count: an idle one lowers clocks and link by itself. MIG instances have no
figures of their own for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from slurm_io.analysis.facts import mapping, sources_of, whole
from slurm_io.analysis.host_rows import rows_between
from slurm_io.analysis.inputs import NodeView, StoreView, Tables
from slurm_io.analysis.rule_limits import GpuSlowed

# nvmlClocksEventReasons (nvml.h). 0x4, the software power cap, is what a GPU that works at full
# power shows, and 0x1, 0x2, 0x10, 0x100 are settings: none of them is a fault.
HEAT = 0x20 | 0x40  # SW thermal slowdown, HW thermal slowdown
BRAKE = 0x8 | 0x80  # HW slowdown, HW power brake slowdown (external signal: power supply, chassis)
_COLUMNS = (
    "gpu", "mig", "util_share", "sm_clock_mhz", "throttle_reasons", "temperature_c", "power_w",
    "pcie_gen", "pcie_width", "pcie_gen_max", "pcie_width_max",
)  # fmt: skip


@dataclass(frozen=True)
class GpuState:
    """One GPU over its busy looks in training. Shares are of those looks; None = not told.

    `clock_mhz`: median SM clock; `peers_clock_mhz`: median of that of other GPUs of its model.
    `narrow_share`, `old_gen_share`: looks with fewer PCIe lanes, or an older generation, than both
    ends can do.
    """

    node: str
    gpu: int
    model: str | None
    looks: int
    heat_share: float | None
    brake_share: float | None
    clock_mhz: float | None
    peers_clock_mhz: float | None
    temperature_c: float | None
    narrow_share: float | None
    old_gen_share: float | None
    link: str | None


@dataclass(frozen=True)
class GpuStates:
    """`recorded`: the table has rows of the training; `are_ours`: it is known that they are the
    job's."""

    gpus: tuple[GpuState, ...]
    recorded: bool
    are_ours: bool


def find_gpu_states(tables: Tables, spans: pl.DataFrame, limits: GpuSlowed) -> GpuStates:
    """One entry for each whole GPU that was busy long enough in `spans` (node, opens, closes)."""
    read = rows_between(tables, spans, "gpu", _COLUMNS)
    ours = all(_is_known(view) for view in tables.store.nodes.values())
    busy = read.rows.filter(pl.col("mig").is_null() & (pl.col("util_share") >= limits.busy))
    models = _models(tables.store)
    nvidia = [key for key, (vendor, _) in models.items() if vendor == "nvidia"]
    marks = pl.DataFrame(
        [(*key, True) for key in nvidia],
        schema={"node": pl.String, "gpu": pl.Int32, "has_reasons": pl.Boolean},
        orient="row",
    )
    found = (
        busy.join(marks, on=["node", "gpu"], how="left")
        .with_columns(
            pl.when(pl.col("has_reasons").fill_null(False)).then("throttle_reasons").alias("why")
        )
        .group_by("node", "gpu")
        .agg(
            pl.len().alias("looks"),
            _share_of_bits("why", HEAT).alias("heat"),
            _share_of_bits("why", BRAKE).alias("brake"),
            pl.col("sm_clock_mhz").median().alias("clock"),
            pl.col("temperature_c").max().alias("temperature"),
            (pl.col("pcie_width") < pl.col("pcie_width_max")).mean().alias("narrow"),
            (pl.col("pcie_gen") < pl.col("pcie_gen_max")).mean().alias("old_gen"),
            pl.col("pcie_gen", "pcie_width", "pcie_gen_max", "pcie_width_max").drop_nulls().last(),
        )
        .filter(pl.col("looks") >= limits.least_looks)
        .sort("node", "gpu")
    )
    rows = list(found.iter_rows(named=True))
    gpus = tuple(_state(row, models, _peers_clock(row, rows, models, limits)) for row in rows)
    return GpuStates(gpus, not read.is_empty, ours)


def _share_of_bits(column: str, bits: int) -> pl.Expr:
    """Of the looks that told the reasons, those with one of `bits`; null when none did."""
    return ((pl.col(column) & bits) != 0).mean()


def _state(
    row: dict[str, Any], models: dict[tuple[str, int], tuple[str, str]], peers: float | None
) -> GpuState:
    link = None
    if None not in (row["pcie_gen"], row["pcie_width"]):
        link = (
            f"PCIe {row['pcie_gen']} x{row['pcie_width']}, could be {row['pcie_gen_max']} "
            f"x{row['pcie_width_max']}"
        )
    model = models.get((row["node"], row["gpu"]))
    return GpuState(
        node=row["node"], gpu=row["gpu"], model=model[1] if model else None, looks=row["looks"],
        heat_share=row["heat"], brake_share=row["brake"], clock_mhz=row["clock"],
        peers_clock_mhz=peers, temperature_c=row["temperature"], narrow_share=row["narrow"],
        old_gen_share=row["old_gen"], link=link,
    )  # fmt: skip


def _peers_clock(
    row: dict[str, Any],
    rows: list[dict[str, Any]],
    models: dict[tuple[str, int], tuple[str, str]],
    limits: GpuSlowed,
) -> float | None:
    """Median clock of the others of the same model; None when they are too few."""
    mine = models.get((row["node"], row["gpu"]))
    others = [
        other["clock"]
        for other in rows
        if other is not row
        and other["clock"] is not None
        and models.get((other["node"], other["gpu"])) == mine
    ]
    if len(others) < limits.least_peers:
        return None
    middle = pl.Series(others).median()
    return float(middle) if isinstance(middle, (int, float)) else None


def _models(store: StoreView) -> dict[tuple[str, int], tuple[str, str]]:
    """(node, gpu) -> (vendor, model), from meta.json."""
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for name, view in store.nodes.items():
        listed = mapping(sources_of(view).get("gpu")).get("gpus")
        for one in listed if isinstance(listed, list) else ():
            number = whole(mapping(one).get("gpu"))
            if number is not None:
                found[name, number] = (str(one.get("vendor")), str(one.get("name")))
    return found


def _is_known(view: NodeView) -> bool:
    return mapping(mapping(sources_of(view).get("gpu")).get("whose")).get("known") is not False
