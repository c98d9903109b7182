"""F17: read again in every pass, and memory too small for one; what only looks like it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest

from slurm_io.analysis.rules.base import Answer
from tests.analysis.passes import COLD, MIB, WARM, Pass, passes_job
from tests.analysis.rules.stores import GIB, answer, put, text_of
from tests.analysis.stand_in import StandInStore

RULE = "f17_page_cache_thrash"
BIG = replace(COLD, asked=5 * MIB, read=5 * MIB)  # 100 batches: 0.5 GB a pass


def store_of(
    passes: list[Pass],
    *,
    available: int = GIB // 4,
    limit: int | None = None,
    held: int = 0,
    batches: int = 100,
) -> StandInStore:
    store = passes_job(passes, batches=batches)
    for row in store.nodes["n1"].tables["process"]:
        row["syscr"] = 2  # large and slow reads: a second witness against storage
    store.nodes["n1"].meta |= {"mem_total_bytes": 64 * GIB}
    put(store, "node", lambda second: {"mem_available_bytes": available})
    if limit is not None:
        group = {"path": "job_1", "version": 2, "mem_limit_bytes": limit, "mem_anon_bytes": held}
        put(store, "cgroup", lambda second: group)
    return store


def judged(*passes: Pass, **memory: int) -> Answer:
    return answer(RULE, store_of(list(passes), **memory))


def test_every_pass_reads_again_what_memory_cannot_hold() -> None:
    said = judged(BIG, BIG, BIG)
    [finding] = said.findings
    assert finding.where.mounts == ("/scratch",)
    assert finding.evidence[0].value == pytest.approx(1.0, abs=0.1)
    assert "the node has 268 MB for the page cache" in text_of(said)
    assert all("--mem" not in command for command in finding.commands), "the node has no more"


def test_the_jobs_own_limit_is_named_with_what_to_ask_for() -> None:
    said = judged(BIG, BIG, available=60 * GIB, limit=2 * GIB, held=7 * GIB // 4)
    [finding] = said.findings
    assert "the job's memory limit leaves 268 MB" in text_of(said)
    assert finding.commands[-1] == "#SBATCH --mem=3G"


@pytest.mark.parametrize(
    ("passes", "memory", "why"),
    [
        ([BIG, WARM, WARM], {}, "0% of the first"),
        ([BIG], {}, "one pass"),
        ([COLD, COLD], {}, "from storage"),  # 200 MB: any memory holds it
        ([BIG, BIG], {"available": 8 * GIB}, "could hold"),
        ([BIG, replace(BIG, asked=2 * MIB)], {}, "asked for less"),
    ],
    ids=["warm", "one pass", "small", "memory is enough", "less asked"],
)
def test_what_only_looks_like_it(passes: list[Pass], memory: dict[str, int], why: str) -> None:
    said = answer(RULE, store_of(passes, **memory))
    assert said.state == "quiet"
    assert why in said.reason


def named(store: StandInStore, name: Callable[[int], str]) -> Answer:
    """The n-th sample in storage is of the file `name(n)`."""
    seen = [row for row in store.nodes["n1"].tables["waits"] if row.get("path")]
    for number, row in enumerate(seen):
        row["path"] = name(number)
    return answer(RULE, store)


def with_batches_of(samples: int) -> StandInStore:
    """Three passes of 33 s, 29 batches counted in each: a name a second is seen."""
    passes = [replace(BIG, wait_s=1.0, asked=20 * MIB, read=20 * MIB)] * 3
    store = store_of(passes, batches=30)
    store.nodes["n1"].meta["loaders"] = [{"pid": 1000, "num_workers": 2, "batch_size": samples}]
    return store


def test_passes_over_other_files_are_no_second_reading() -> None:
    said = named(with_batches_of(1), lambda number: f"/scratch/{number}.bin")
    assert (said.state, "other files" in said.reason) == ("quiet", True)


def test_a_few_names_of_many_files_tell_nothing_and_the_finding_is_likely() -> None:
    """They may well be parts of one large set."""
    for store in (with_batches_of(1000), store_of([BIG, BIG, BIG])):
        said = named(store, lambda number: f"/scratch/{number}.bin")
        assert [one.confidence for one in said.findings] == ["likely"]


def test_the_same_files_again_are_a_second_signal() -> None:
    said = named(store_of([BIG, BIG, BIG]), lambda number: f"/scratch/{number % 7}.bin")
    assert said.findings[0].confidence == "proven"
    assert "7 of the 7 files" in text_of(said)


def test_memory_that_nobody_recorded_is_no_answer() -> None:
    said = answer(RULE, passes_job([BIG, BIG]))
    assert said.state == "not enough evidence"


def test_a_file_system_that_counts_no_bytes_is_no_answer() -> None:
    uncounted = replace(BIG, asked=None, read=None)
    said = judged(uncounted, uncounted)
    assert said.state == "not enough evidence"
    assert "came from storage" in said.reason


def on_two_nodes(name: Callable[[int, int, int], str]) -> StandInStore:
    """Two nodes, whose memory holds half a pass; `name(node, pass, number)` of each file."""
    store = store_of([BIG, BIG], available=GIB // 2)
    first = store.nodes["n1"]
    tables = {table: [dict(row) for row in rows] for table, rows in first.tables.items()}
    second = replace(first, node="n2", tables=defaultdict(list, tables), meta=dict(first.meta))
    for number, node in enumerate((first, second)):
        seen = [row for row in node.tables["waits"] if row.get("path")]
        for place, row in enumerate(seen):
            row["path"] = name(number, int(place >= len(seen) // 2), place % 12)
        for table in ("waits", "steps", "process", "events"):
            for row in node.tables[table]:
                row["rank"] = number
    return replace(store, nodes={"n1": first, "n2": second}, nodes_expected=("n1", "n2"))


@pytest.mark.parametrize(
    ("name", "state"),
    [
        (lambda node, epoch, k: f"/scratch/{node}-{k}", "quiet"),
        (lambda node, epoch, k: f"/scratch/{(node + epoch) % 2}-{k}", "fired"),
        (lambda node, epoch, k: "/scratch/a", "not enough evidence"),
    ],
    ids=["its own part", "the other node's part", "one name"],
)
def test_memory_that_holds_a_nodes_part_is_too_small_only_for_a_shuffle_over_nodes(
    name: Callable[[int, int, int], str], state: str
) -> None:
    assert answer(RULE, on_two_nodes(name)).state == state
