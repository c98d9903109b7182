"""Recorded: what a network file system's client counted while training waited for it."""

from __future__ import annotations

from collections.abc import Callable

from tests.analysis.rules.stores import GIB, Row, check
from tests.analysis.stand_in import Rank, StandInStore
from tests.grid.model import F01, STORAGE, Recorded
from tests.grid.recordings import (
    Cost,
    ranks_on,
    replace_rows,
    second_of,
    store_of,
    train_in_lockstep,
)

FAST: Cost = (0.001, "cpu")


def client(fstype: str, **values: object) -> Row:
    """Reads of one second, a thousand of them."""
    usual = {"ops": 1000, "bytes": 10**8, "retrans": 0, "errors": 0, "rtt_ms": 0.8, "exe_ms": 0.9,
             "queue_ms": 0.05, "inflight": 1}  # fmt: skip
    source = {"lustre": "llite"}.get(fstype, "mountstats")
    return {"mount": "/scratch", "fstype": fstype, "source": source, "op_class": "read",
            **usual, **values}  # fmt: skip


def stalls(
    nodes: int, slow_nodes: frozenset[str], every: int, stall_s: float
) -> tuple[list[Rank], float, set[int]]:
    """Eight ranks a stall; the seconds in which one was under way, and the truth."""
    ranks, seconds = ranks_on(nodes, 2), set[int]()

    def wait(rank: Rank, k: int) -> Cost:
        if rank.node not in slow_nodes or k % every:
            return FAST
        seconds.update(range(second_of(rank), second_of(rank) + int(stall_s) + 1))
        return (stall_s, "storage")

    truth = train_in_lockstep(ranks, 600, lambda k: 0.1, wait)
    return ranks, truth, seconds


def retransmissions() -> tuple[StandInStore, float]:
    """Node 2's link loses packets; what is lost is sent again after 1.2 s."""
    ranks, truth, seconds = stalls(4, frozenset({"n2"}), 30, 1.2)
    store = store_of(ranks)

    def row(second: int) -> Row:
        hit = second in seconds
        return client("nfs4", retrans=40, exe_ms=60.0, rtt_ms=55.0) if hit else client("nfs4")

    replace_rows(store, "fsclient", row, "n2")
    return store, truth


def slots() -> tuple[StandInStore, float]:
    """All nodes wait for a free slot: 12 ms on the client, 0.8 ms for the server."""
    ranks = ranks_on(2, 2)
    truth = train_in_lockstep(ranks, 600, lambda k: 0.08, lambda rank, k: (0.06, "storage"))
    store = store_of(ranks)
    for node in ("n1", "n2"):
        replace_rows(store, "fsclient", lambda s: client("nfs4", queue_ms=12.0, exe_ms=13.0), node)
    return store, truth


def hanging_server() -> tuple[StandInStore, float]:
    """The server of all nodes answers nothing for 20 s, twice."""
    ranks, truth, seconds = stalls(2, frozenset({"n1", "n2"}), 250, 20.0)
    store = store_of(ranks, calls_per_storage_s=0.0)

    def row(second: int) -> Row:
        hangs = {"ops": 0, "bytes": 0, "rtt_ms": None, "exe_ms": None, "queue_ms": None}
        return client("nfs4", **hangs, inflight=8) if second in seconds else client("nfs4")

    for node in ("n1", "n2"):
        replace_rows(store, "fsclient", row, node)
    return store, truth


def hot_target() -> tuple[StandInStore, float]:
    """Every 16th shard has one stripe, and its target serves all nodes at once."""
    ranks, truth, seconds = stalls(4, frozenset({"n1", "n2", "n3", "n4"}), 16, 1.5)
    store = store_of(ranks, fstype="lustre", mount="/scratch")
    shards = [f"/scratch/data/shard-{number}.tar" for number in range(3)]
    largest = [{"path": path, "size_bytes": 20 * GIB, "osts": 1} for path in shards]
    facts = {"readers": 8, "active_osts": 32, "largest": largest, "spread": {}}
    told = check("layout", "DEGRADED", "striped badly", facts=facts)
    store.nodes["n1"].checks = {"request": {}, "checks": [told]}

    def row(second: int) -> Row:
        slow = client("lustre", rtt_ms=None, queue_ms=None, exe_ms=400.0, ops=40)
        usual = client("lustre", rtt_ms=None, queue_ms=None)
        return slow if second in seconds else usual

    for node in store.nodes:
        replace_rows(store, "fsclient", row, node)
    return store, truth


def released_files() -> tuple[StandInStore, float]:
    """A sixth of the dataset lies in the archive; each of its files takes 2 s to come back."""
    ranks, truth, _ = stalls(2, frozenset({"n1", "n2"}), 40, 2.0)
    store = store_of(ranks, fstype="lustre")
    facts = {"counts": {"resident": 2000, "released": 400}, "files": 2400,
             "missing_bytes": 4 * 10**12, "source": "lustre.lov",
             "not_resident": [{"path": "data/shard-1.tar", "state": "released"}]}  # fmt: skip
    told = check("residency", "FAIL", "400 files away", facts=facts)
    store.nodes["n1"].checks = {"request": {}, "checks": [told]}
    for node in store.nodes.values():
        node.meta["mounts"] = [{"mount": "/scratch", "fstype": "lustre"}]
        del node.tables["fsclient"]
    return store, truth


def recorded(
    name: str, make: Callable[[], tuple[StandInStore, float]], *more: str, **named: object
) -> Recorded:
    """One of this family: storage, and F01 says so."""
    return Recorded(
        name=name,
        why=(make.__doc__ or "").strip(),
        make=make,
        verdicts=STORAGE,
        fired=F01 | set(more),
        quiet=frozenset({"F04"} if "nodes" in named else {"F04", "F15"}),
        named=named,
    )


SCENARIOS = (
    recorded("recorded-nfs-retransmissions", retransmissions, "F18", "F02", nodes="n2"),
    recorded("recorded-nfs-slots", slots, "F18", mounts="/scratch"),
    recorded("recorded-hanging-server", hanging_server),
    recorded("recorded-hot-target", hot_target, "F02", "F10", mounts="/scratch"),
    recorded("recorded-released-files", released_files, "F08", files="shard-1.tar"),
)
