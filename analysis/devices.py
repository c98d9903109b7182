"""Which rows of the ``block`` table are about a mount, every byte once.

The same bytes show on partition, disk, md, dm and loop device; the collector notes for each mount
the devices at the bottom (``leaves``, in meta.json). A store without them, or a mount that is none
of those, leaves only the role: then every layer but partitions is looked at, and nothing is summed.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from slurm_io.analysis.facts import mapping, sources_of, whole
from slurm_io.analysis.inputs import NodeView, StoreView

LAYERS = ("disk", "md", "dm", "mpath", "loop")
_MOST_NAMED = 8


def leaves_of(view: NodeView) -> dict[str, tuple[str, ...]]:
    """Mount point -> devices whose counters add up to its I/O."""
    told = mapping(mapping(sources_of(view).get("block")).get("leaves"))
    return {
        mount: tuple(name for name in names if isinstance(name, str))
        for mount, names in told.items()
        if isinstance(names, list)
    }


def leaf_rows(
    rows: pl.DataFrame, store: StoreView, stalled: Iterable[tuple[str, str]]
) -> pl.DataFrame:
    """Of `rows` of the block table (node, device, role, …) those that bear the `stalled` (node,
    mount): their leaves, and on nodes where those are not known all layers."""
    wanted: dict[str, set[str]] = {}
    for where, mount in stalled:
        view = store.nodes.get(where)
        names = leaves_of(view).get(mount, ()) if view is not None else ()
        wanted.setdefault(where, set()).update(names)
    known = pl.DataFrame(
        [(where, name) for where, names in wanted.items() for name in names],
        schema={"node": pl.String, "device": pl.String},
        orient="row",
    )
    node = pl.col("node").cast(pl.String)
    leaves = rows.with_columns(node).join(known, on=["node", "device"], how="semi")
    others = rows.with_columns(node).filter(
        ~node.is_in(known["node"].unique().to_list()) & pl.col("role").is_in(LAYERS)
    )
    return pl.concat([leaves, others])


def went_back(store: StoreView) -> list[tuple[str, str]]:
    """(source, reason) of devices whose counters started again, for the report's ``missing``."""
    found: dict[str, int] = {}
    for name, view in sorted(store.nodes.items()):
        told = mapping(mapping(sources_of(view).get("block")).get("restarts"))
        for device, count in sorted(told.items()):
            number = whole(count)
            if number is not None and number > 0:
                found[f"{device} on {name}"] = number
    if not found:
        return []
    more = len(found) - _MOST_NAMED
    named = ", ".join(list(found)[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    total = sum(found.values())
    intervals = "1 interval has" if total == 1 else f"{total} intervals have"
    why = "counters went back (taken out and put in again, or a slip of the kernel)"
    return [("block", f"{why}: {intervals} no figures, of {named}")]
