"""F03: one node's bytes are nearly all; small saves, sharded ones, and single nodes are fine."""

from __future__ import annotations

from collections.abc import Callable

from tests.analysis.rules.stores import answer, job, several, text_of
from tests.analysis.stand_in import Rank, StandInStore
from tests.analysis.test_by_stacks import Seen
from tests.analysis.test_by_stacks import node as unhooked_node

RULE = "f03_single_node_checkpoint"
GB = 10**9


def saving(sizes: Callable[[int], int | None], seconds: float = 1.0, nodes: int = 4) -> list[Rank]:
    """Four ranks; `sizes(rank)`: bytes that rank writes in a save, None: it does not save."""
    ranks = several(4, nodes=nodes)
    for k in range(300):
        for rank in ranks:
            rank.batch(0.002, "pipe", index=k)
            rank.compute(0.05, step=False)
        if k % 50 == 49:
            for rank in ranks:
                assert rank.number is not None
                size = sizes(rank.number)
                if size is not None:
                    rank.event("ckpt_save", seconds, bytes=size, path=f"/scratch/{k}.pt")
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)
    return ranks


def written(store: StandInStore, by_node: dict[str, int]) -> StandInStore:
    """Bytes written a second, by the processes of each node."""
    for node, number in by_node.items():
        for row in store.nodes[node].tables["process"]:
            row |= {"wchar_bytes": number, "write_bytes": 0}
    return store


def from_rank_0(rank: int) -> int | None:
    return 2 * GB if rank == 0 else None


def test_all_bytes_from_one_of_four_nodes() -> None:
    said = answer(RULE, job(*saving(from_rank_0)))
    [finding] = said.findings
    assert finding.confidence == "likely"
    assert (finding.where.nodes, finding.where.ranks) == (("n1",), (0,))
    assert "3 other nodes waited" in text_of(said)
    assert "2000 MB/s" in text_of(said)


def test_the_processes_own_counters_are_the_second_signal() -> None:
    store = written(job(*saving(from_rank_0)), {"n1": GB, "n2": 1000, "n3": 1000, "n4": 1000})
    assert answer(RULE, store).findings[0].confidence == "proven"


def test_counters_that_say_otherwise_keep_it_quiet() -> None:
    store = written(job(*saving(from_rank_0)), dict.fromkeys(("n1", "n2", "n3", "n4"), GB))
    assert answer(RULE, store).state == "quiet"


def test_sharded_saves_that_are_slow_are_the_file_systems_fault() -> None:
    said = answer(RULE, job(*saving(lambda rank: GB, seconds=3.0)))
    assert said.state == "quiet"
    assert "25%" in said.reason


def test_a_small_save_from_rank_0_is_how_data_parallel_training_saves() -> None:
    assert answer(RULE, job(*saving(from_rank_0, seconds=0.02))).state == "quiet"
    assert answer(RULE, job(*saving(lambda rank: 10**6 if rank == 0 else None))).state == "quiet"


def test_one_node_has_no_others() -> None:
    said = answer(RULE, job(*saving(from_rank_0, nodes=1)))
    assert (said.state, said.reason) == ("quiet", "the job trained on one node")


def test_folders_of_shards_without_sizes_need_the_processes_counters() -> None:
    ranks = saving(lambda rank: 0)
    for rank in ranks:
        for event in rank.events:
            event["bytes"] = None
    assert answer(RULE, job(*ranks)).state == "not enough evidence"
    store = written(job(*ranks), {"n1": GB, "n2": 0, "n3": 0, "n4": 0})
    [finding] = answer(RULE, store).findings
    assert finding.confidence == "likely"


def _state(at: float) -> str:
    return "ckpt" if at % 10 < 2 else "collective" if at % 1 < 0.3 else "compute"


def unhooked(second_writes: int) -> StandInStore:
    """Two nodes without a hook whose ranks stand in a save for a fifth of the time, by stacks."""
    nodes = [unhooked_node("n1"), unhooked_node("n2")]
    for number, (one, moved) in enumerate(zip(nodes, (10**8, second_writes), strict=True)):
        seen = Seen(one, number, 1000 + number, 300)
        seen.stacks(_state)
        for second in range(300):
            one.tables["process"].append({
                **seen._clock(second), "pid": 1000 + number, "starttime": 1, "rank": number,
                "role": "rank", "comm": "python", "wchar_bytes": moved, "write_bytes": moved,
            })  # fmt: skip
    return StandInStore(None, {one.node: one for one in nodes}, ("n1", "n2"))


def test_by_stacks_one_node_that_writes_all_is_likely() -> None:
    said = answer(RULE, unhooked(10**6))
    [finding] = said.findings
    assert (finding.confidence, finding.where.nodes) == ("likely", ("n1",))
    assert "seen by stacks, no hook" in text_of(said)


def test_by_stacks_nodes_that_write_alike_are_quiet() -> None:
    assert answer(RULE, unhooked(10**8)).state == "quiet"
