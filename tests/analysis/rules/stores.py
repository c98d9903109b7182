"""Stores for rule tests: jobs of the stand-in, and rows of the other tables beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rules.base import RULES, Answer, ask
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import (
    EPOCH_NS,
    NS,
    Job,
    Rank,
    StandInNode,
    StandInStore,
    one_rank,
    train,
)

GIB = 2**30
Row = dict[str, Any]


def answer(rule: str, store: StoreView) -> Answer:
    """What the rule called `rule` says of `store`."""
    return ask(RULES.get(rule)(), take_picture(store, Thresholds()))


def text_of(said: Answer) -> str:
    """All that the findings of an answer say, in one string."""
    parts = [said.reason]
    for finding in said.findings:
        parts += [finding.title, finding.remedy, *finding.commands]
        parts += [one.text for one in finding.evidence]
    return " | ".join(parts)


def healthy(steps: int = 1200, **settings: Any) -> Rank:
    """A rank that waits for nothing."""
    return train(one_rank(**settings), steps, 0.05, lambda k: (0.002, "pipe"))


def starved(steps: int = 600, cause: str = "storage", wait_s: float = 0.05) -> Rank:
    """A rank that waits half of its time."""
    return train(one_rank(), steps, 0.05, lambda k: (wait_s, cause))


def stamp(second: float) -> Row:
    """The clocks of a row at `second` of the node's clock, covering the second before."""
    return {"ts_ns": EPOCH_NS + round(second * NS), "mono_ns": round(second * NS)}


def put(
    store: StandInStore,
    table: str,
    row: Callable[[int], Row | list[Row]],
    *,
    node: str = "n1",
    every_s: int = 1,
    interval: bool = True,
) -> None:
    """Rows of `table` for each `every_s`-th second from 101 to the end of the store's ranks."""
    end_ns = store.nodes[node].meta["end_ts_ns"] - EPOCH_NS
    for second in range(101, end_ns // NS + 1, every_s):
        found = row(second)
        for one in found if isinstance(found, list) else [found]:
            covered = {"interval_ns": every_s * NS} if interval else {}
            store.nodes[node].tables[table].append({**stamp(second), **covered, **one})


def with_healthy_tables(store: StandInStore) -> StandInStore:
    """`store` with rows of every other table, of nodes on which nothing is wrong."""
    for node in store.nodes:
        store.nodes[node].meta |= {
            "ncpu": 64,
            "mem_total_bytes": 512 * GIB,
            "mounts": [{"mount": "/scratch", "fstype": "nfs4"}, {"mount": "/", "fstype": "ext4"}],
        }
        store.nodes[node].checks = {"request": {}, "checks": [dict(one) for one in HEALTHY_CHECKS]}
        store.nodes[node].tables["events"] += padding_events(store.nodes[node].tables["steps"])
        for table, row in HEALTHY.items():
            has_interval = table != "capacity"
            put(store, table, row, node=node, interval=has_interval,
                every_s=30 if table == "capacity" else 1)  # fmt: skip
    return store


def _capacity(second: int) -> Row:
    return {"mount": "/scratch", "fstype": "nfs4", "size_bytes": 10**14, "used_bytes": 8 * 10**13,
            "avail_bytes": 2 * 10**13, "inodes": 10**9, "inodes_avail": 10**8}  # fmt: skip


def _fsclient(second: int) -> list[Row]:
    base = {"mount": "/scratch", "fstype": "nfs4", "source": "mountstats", "retrans": 0,
            "errors": 0, "rtt_ms": 0.8, "exe_ms": 0.9, "queue_ms": 0.05}  # fmt: skip
    return [
        {**base, "op_class": "read", "ops": 500, "bytes": 500 * 2**20},
        {**base, "op_class": "meta", "ops": 20, "bytes": None},
    ]


def _gpu(second: int) -> list[Row]:
    return [healthy_gpu(number) for number in range(8)]


def healthy_gpu(number: int) -> Row:
    """A busy GPU at its power limit, as training GPUs are."""
    return {"gpu": number, "mig": None, "uuid": f"GPU-{number}", "util_share": 0.97,
            "power_w": 690.0, "sm_clock_mhz": 1700, "throttle_reasons": 0x4, "temperature_c": 62,
            "pcie_gen": 5, "pcie_width": 16, "pcie_gen_max": 5, "pcie_width_max": 16}  # fmt: skip


def _node(second: int) -> Row:
    return {"cpu_user_share": 0.2, "procs_running": 12, "mem_total_bytes": 512 * GIB,
            "mem_available_bytes": 400 * GIB, "shmem_bytes": 4 * GIB,
            "psi_cpu_some_ns": 10**7, "psi_io_some_ns": 10**6}  # fmt: skip


def _cgroup(second: int) -> Row:
    return {"path": "job_42", "version": 2, "cpu_ns": 8 * 10**9, "throttled_ns": 0,
            "throttled_periods": 0, "mem_current_bytes": 40 * GIB, "mem_limit_bytes": 400 * GIB,
            "mem_anon_bytes": 20 * GIB, "mem_shmem_bytes": 4 * GIB,
            "psi_cpu_some_ns": 10**7}  # fmt: skip


def _block(second: int) -> Row:
    return {"device": "nvme0n1", "role": "disk", "r_s": 100.0, "rkB_s": 10_000.0, "r_await": 0.1,
            "w_s": 1.0, "wkB_s": 10.0, "aqu_sz": 0.1, "util": 2.0}  # fmt: skip


def _stacks(second: int) -> list[Row]:
    base = {"pid": 1000, "rank": 0, "role": "rank", "certain": 8, "sub": None}
    return [{**base, "state": "compute", "samples": 8}, {**base, "state": "other", "samples": 2}]


def check(name: str, answer: str = "OK", text: str = "all is well", **more: Any) -> Row:
    """One entry of checks.json."""
    return {"check": name, "answer": answer, "kind": "job", "subject": "c4", "text": text,
            "facts": {}, "policy": "warn", "action": None, "commands": [], **more}  # fmt: skip


CONTENT_ID = "c1-" + "a" * 32


def dataset(answer: str = "OK", text: str = "2400 files, none bad", **facts: Any) -> Row:
    """The answer of a node whose copy is local and recorded; `facts` beside these."""
    record = {"content_id": CONTENT_ID, "state": "ready", "level": 4, "age_s": 3600.0}
    known = {"tier": "local", "content_id": CONTENT_ID, "level": 2, "files": 2400, "counts": {},
             "used_record": True, "record_problem": None, "wrong_version": None, "described": None,
             "folder_missing": False, "absent_mount": None, "record": record}  # fmt: skip
    return check("dataset", answer, text, facts=known | facts)


HEALTHY_CHECKS = (
    dataset(),
    check("residency", facts={"counts": {"resident": 2400}, "files": 2400}),
    check("layout", facts={"readers": 8, "active_osts": 32, "largest": [
        {"path": "/scratch/c4/0", "size_bytes": 20 * GIB, "osts": 8}], "spread": {}}),
)  # fmt: skip


def checked(by_node: Mapping[str, list[Row]], request: Row | None = None) -> StandInStore:
    """A job of which only the answers of its prologs are known."""
    nodes = {name: StandInNode(name, {}) for name in by_node}
    for name, listed in by_node.items():
        nodes[name].checks = {"request": request or {}, "checks": listed}
    return StandInStore(None, nodes, tuple(by_node))


def padding_events(steps: list[Row], share: float = 0.05, each: int = 8) -> list[Row]:
    """What the hook says of each so many-th batch: 4096 tokens, `share` of them padding."""
    return [
        {
            "ts_ns": row["ts_ns"], "mono_ns": row["mono_ns"], "end_mono_ns": row["mono_ns"],
            "pid": row["pid"], "rank": row["rank"], "kind": "padding", "blocking": False,
            "failed": False, "step": row["step"],
            "detail": json.dumps({"padding": round(4096 * share), "tokens": 4096}),
        }
        for row in steps[::each]
    ]  # fmt: skip


HEALTHY: dict[str, Callable[[int], Row | list[Row]]] = {
    "capacity": _capacity,
    "fsclient": _fsclient,
    "gpu": _gpu,
    "node": _node,
    "cgroup": _cgroup,
    "block": _block,
    "stacks": _stacks,
}


def several(count: int, nodes: int = 1) -> list[Rank]:
    """Ranks that train together."""
    return [Rank(number, f"n{number % nodes + 1}", 1000 + 10 * number) for number in range(count)]


def job(*ranks: Rank, **settings: Any) -> StandInStore:
    """The store of these ranks."""
    return Job(list(ranks), **settings).store()
