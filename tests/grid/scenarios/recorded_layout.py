"""Recorded: slow storage whose layout or residency only looks like the reason."""

from __future__ import annotations

from tests.analysis.rules.stores import GIB, Row, check
from tests.analysis.stand_in import StandInStore
from tests.grid.model import F01, STORAGE, Recorded
from tests.grid.recordings import ranks_on, store_of, train_in_lockstep


def slow_lustre(told: Row) -> tuple[StandInStore, float]:
    """Four nodes that wait for each batch; `told` is what a check of the prolog said."""
    ranks = ranks_on(4, 2)
    truth = train_in_lockstep(ranks, 400, lambda k: 0.08, lambda rank, k: (0.06, "storage"))
    store = store_of(ranks, fstype="lustre")
    store.nodes["n1"].checks = {"request": {}, "checks": [told]}
    for node in store.nodes.values():
        node.meta["mounts"] = [{"mount": "/scratch", "fstype": "lustre"}]
        del node.tables["fsclient"]
    return store, truth


def file_for_each_node() -> tuple[StandInStore, float]:
    """Large files with one stripe each, but every node reads its own."""
    paths = [f"/scratch/data/node-{number}.bin" for number in range(1, 5)]
    largest = [{"path": path, "size_bytes": 20 * GIB, "osts": 1} for path in paths]
    facts = {"readers": 8, "active_osts": 32, "largest": largest, "spread": {}}
    store, truth = slow_lustre(check("layout", "DEGRADED", "striped badly", facts=facts))
    for path, node in zip(paths, store.nodes.values(), strict=True):
        for row in node.tables["waits"]:
            row["path"] = path if row.get("path") else None
    return store, truth


def sparse_files() -> tuple[StandInStore, float]:
    """Files with few blocks for their size: sparse ones, not released."""
    facts = {"counts": {"suspect": 2400}, "files": 2400, "source": "blocks"}
    return slow_lustre(check("residency", "DEGRADED", "look at them", facts=facts))


SCENARIOS = tuple(
    Recorded(
        name=name,
        why=(make.__doc__ or "").strip(),
        make=make,
        verdicts=STORAGE,
        fired=F01,
        quiet=frozenset({"F04", "F08", "F10", "F15", "F17"}),
        named={"mounts": "/scratch"},
    )
    for name, make in (
        ("recorded-file-for-each-node", file_for_each_node),
        ("recorded-sparse-files", sparse_files),
    )
)
