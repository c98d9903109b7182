"""Every rule: its page, its answers, and one case where it is quiet and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rule_pages import main, page, stale
from slurm_io.analysis.rules.base import HEADINGS, RULES, Answer, ask
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.rules.stores import with_healthy_tables
from tests.analysis.stand_in import Job, Rank, StandInStore, one_rank, train

DOCS = Path(__file__).parents[2] / "docs" / "rules"


def answer(rule: str, store: StoreView) -> Answer:
    return ask(RULES.get(rule)(), take_picture(store, Thresholds()))


def healthy() -> Rank:
    return train(one_rank(), 1200, 0.05, lambda k: (0.002, "pipe"))


@pytest.mark.parametrize("name", sorted(RULES.discover()))
def test_every_rule_has_its_code_in_its_name_and_a_full_page(name: str) -> None:
    rule = RULES.get(name)
    assert name.startswith(rule.code.lower() + "_")
    text = page(name)
    assert text.startswith(f"# {rule.code}: ")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == list(HEADINGS)


@pytest.mark.parametrize("name", sorted(RULES.discover()))
def test_an_empty_store_says_nothing_and_each_rule_says_what_it_lacks(name: str) -> None:
    said = answer(name, StandInStore(None, {}, ()))
    assert said.state == "not enough evidence"
    assert "hook" in said.reason or RULES.get(name).needs == "nothing"


@pytest.mark.parametrize("name", sorted(RULES.discover()))
def test_every_rule_is_quiet_on_a_healthy_job_with_a_reason(name: str) -> None:
    said = answer(name, with_healthy_tables(Job([healthy()]).store()))
    assert (said.state, said.findings) == ("quiet", ())
    assert said.reason


def test_pages_are_fresh() -> None:
    assert stale(DOCS) == [], "run python -m slurm_io.analysis.rule_pages"


def test_check_tells_stale_missing_and_orphaned_pages(tmp_path: Path) -> None:
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    (tmp_path / "f01_loader_bound.md").write_text("old")
    (tmp_path / "f99_gone.md").write_text("orphan")
    assert stale(tmp_path) == ["f01_loader_bound.md", "f99_gone.md"]
    assert main(["--check", str(tmp_path)]) == 1
    assert main([str(tmp_path)]) == 0
    assert stale(tmp_path) == []


def test_variance_from_collections_is_told_from_storage() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 25:
            rank.event("gc", 1.5, cause="cpu")
    said = answer("f02_step_variance", Job([rank]).store())
    assert said.state == "quiet"
    assert "garbage collections" in said.reason


def test_variance_from_preparation_is_told_from_storage() -> None:
    rank = train(one_rank(), 300, 0.05, lambda k: (1.5 if k % 50 == 25 else 0.002, "cpu"))
    said = answer("f02_step_variance", Job([rank]).store())
    assert said.state == "quiet"
    assert "prepared" in said.reason


@pytest.mark.parametrize("kind", ["ckpt_save", "load"])
def test_periodic_events_are_no_slow_steps(kind: str) -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 25:
            rank.event(kind, 2.0)
    said = answer("f02_step_variance", Job([rank]).store())
    assert said.state == "quiet"
    assert "P99 0.05 s" in said.reason


@pytest.mark.parametrize(("spike_s", "fires"), [(0.9, False), (1.2, True)])
def test_a_second_of_excess_separates(spike_s: float, fires: bool) -> None:
    def wait(k: int) -> tuple[float, str]:
        return (spike_s, "storage") if k % 50 == 25 else (0.0, "cpu")

    said = answer("f02_step_variance", Job([train(one_rank(0), 300, 0.05, wait)]).store())
    assert (said.state == "fired") is fires


def test_blocking_saves_say_where_how_large_and_how_often() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 25:
            rank.event("ckpt_save", 1.0, bytes=10**9, path="/scratch/ckpt/a.pt")
    said = answer("f04_blocking_checkpoint", Job([rank]).store())
    [finding] = said.findings
    assert finding.where.files == ("/scratch/ckpt/a.pt",)
    assert finding.where.mounts == ("/scratch",)
    assert finding.confidence == "proven"
    texts = " ".join(one.text for one in finding.evidence)
    assert "6 saves, 1.00 s each" in texts
    assert "1000 MB/s" in texts
    assert "3 min, 7 min or 18 min" in finding.remedy
    assert "one failure in 6 h, 24 h or 7 days" in finding.remedy


def test_saves_that_only_compute_are_not_proven_to_be_storage() -> None:
    rank = one_rank()
    for k in range(300):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % 50 == 25:
            rank.event("ckpt_save", 1.0, cause="cpu")
    [finding] = answer("f04_blocking_checkpoint", Job([rank]).store()).findings
    assert finding.confidence == "likely"


@pytest.mark.parametrize(
    ("ncpu", "workers"), [(None, 8), ("x", 8), (0, 8), (2, 1), (8, 7), (64, 16)]
)
def test_advice_on_workers_fits_the_nodes_cpus(ncpu: object, workers: int) -> None:
    store = Job([train(one_rank(), 300, 0.05, lambda k: (0.05, "cpu"))]).store()
    store.nodes["n1"].meta["ncpu"] = ncpu
    [finding] = answer("f01_loader_bound", store).findings
    assert f"num_workers={workers}," in finding.commands[0]
    assert finding.commands[1] == f"#SBATCH --cpus-per-task={workers + 1}"


def test_ranks_of_a_node_share_its_cpus() -> None:
    ranks = [Rank(n, "n1", 1000 + 10 * n) for n in range(4)]
    store = Job([train(r, 300, 0.05, lambda k: (0.05, "cpu")) for r in ranks]).store()
    store.nodes["n1"].meta["ncpu"] = 16
    [finding] = answer("f01_loader_bound", store).findings
    assert "num_workers=3," in finding.commands[0]
