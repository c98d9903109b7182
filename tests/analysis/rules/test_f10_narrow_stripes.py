"""F10: size, readers and stripes together, and only where these files are waited for."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.rules.base import Answer
from tests.analysis.rules.stores import GIB, Row, answer, check, healthy, starved, text_of
from tests.analysis.stand_in import Job, Rank, StandInStore, train

RULE = "f10_narrow_stripes"
SHARDS = [f"/scratch/data/shard-{number}.tar" for number in range(3)]  # what the stand-in waits for


def files(osts: int = 1, size: int = 20 * GIB, paths: list[str] | None = None) -> list[Row]:
    return [{"path": path, "size_bytes": size, "osts": osts} for path in paths or SHARDS]


def layout(largest: list[Row], **more: Any) -> Row:
    facts = {"readers": 8, "active_osts": 32, "largest": largest, "spread": {}} | more
    return check("layout", "DEGRADED", "striped badly", facts=facts)


def on_nodes(count: int, cause: str = "storage") -> list[Rank]:
    ranks = [Rank(number, f"n{number + 1}", 1000 + 10 * number) for number in range(count)]
    return [train(rank, 400, 0.05, lambda k: (0.05, cause)) for rank in ranks]


def store_of(ranks: list[Rank], told: Row | None, fstype: str = "lustre") -> StandInStore:
    store = Job(ranks, fstype=fstype).store()
    if told is not None:
        store.nodes["n1"].checks = {"checks": [told]}
    return store


def judged(told: Row | None, nodes: int = 2, fstype: str = "lustre") -> Answer:
    return answer(RULE, store_of(on_nodes(nodes), told, fstype))


def test_large_shared_files_on_one_ost_that_several_nodes_wait_for() -> None:
    said = judged(layout(files()))
    [finding] = said.findings
    assert finding.confidence == "proven"
    assert finding.where.mounts == ("/scratch",)
    assert finding.where.files == tuple(SHARDS)
    assert finding.commands[0] == f"lfs migrate -c 8 {SHARDS[0]}"
    assert "on 2 nodes were seen waiting for 3 of these files" in text_of(said)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (layout(files(osts=8)), "spread"),
        (layout(files(osts=0)), "spread"),
        (layout(files(size=500 * 2**20)), "spread"),
        (layout(files(), readers=4), "too few for one OST"),
        (layout(files(paths=["/scratch/data/other.bin"])), "other files"),
    ],
    ids=["eight stripes", "on the MDT", "small", "few readers", "other files"],
)
def test_one_sign_missing_is_quiet(told: Row, why: str) -> None:
    said = judged(told)
    assert said.state == "quiet"
    assert why in said.reason


def test_a_file_for_each_node_is_not_shared() -> None:
    store = store_of(on_nodes(2), layout(files()))
    for name, view in store.nodes.items():
        for row in view.tables["waits"]:
            if row.get("path"):
                row["path"] = SHARDS[0] if name == "n1" else SHARDS[1]
    said = answer(RULE, store)
    assert (said.state, "on one node only" in said.reason) == ("quiet", True)


def test_files_whose_names_nobody_saw_are_likely_at_most() -> None:
    store = store_of(on_nodes(2), layout(files()))
    for view in store.nodes.values():
        for row in view.tables["waits"]:
            row["path"] = None
    [finding] = answer(RULE, store).findings
    assert finding.confidence == "likely"


def test_one_ost_that_holds_three_times_its_part() -> None:
    spread = {"files": 64, "osts": 16, "fullest": 7, "over_mean": 4.5}
    said = judged(layout(files(osts=4), spread=spread))
    assert "OST 7 holds 4.5 times its part" in text_of(said)
    few = judged(layout(files(osts=4), spread=spread | {"files": 6}))
    assert few.state == "quiet", "a few files lie unevenly by chance"


def test_other_file_systems_and_jobs_that_wait_for_nothing_are_quiet() -> None:
    assert judged(layout(files()), fstype="nfs4").state == "quiet"
    assert answer(RULE, store_of([healthy()], layout(files()))).state == "quiet"
    assert answer(RULE, store_of([starved(cause="cpu")], layout(files()))).state == "quiet"


def test_nobody_looked_at_the_striping() -> None:
    said = judged(None)
    assert said.state == "not enough evidence"
    assert "dataset=NAME" in said.reason
    unknown = check("layout", "UNKNOWN", "no layout could be read")
    assert judged(unknown).reason == "no layout could be read"


@pytest.mark.parametrize("largest", [[None], [{"path": 3}], [{"path": "/a", "size_bytes": "x"}]])
def test_nonsense_in_the_facts_is_as_if_not_there(largest: list[Any]) -> None:
    assert judged(layout(largest, spread={"over_mean": True, "files": "x"})).state == "quiet"


def test_advice_never_asks_for_more_osts_than_there_are() -> None:
    [finding] = judged(layout(files(), active_osts=2)).findings
    assert finding.commands[0].startswith("lfs migrate -c 2 ")
