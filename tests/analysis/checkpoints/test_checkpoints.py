"""What is told of saves: parts, writers, rate, interval; on stores with known saves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.text import render
from slurm_io.analysis.rules.base import Answer
from slurm_io.analysis.thresholds import Saves, Thresholds
from tests.analysis.report_shape import problems
from tests.analysis.rules.stores import answer, put, text_of
from tests.analysis.stand_in import NS, Job, Rank, StandInStore, one_rank

GB = 10**9


def saving(
    every: int = 50,
    steps: int = 400,
    cost_s: float = 1.0,
    size: int | None = GB,
    background_s: float | None = None,
    kind: str = "ckpt_save",
) -> Rank:
    """A rank that saves every so many steps of 50 ms."""
    rank = one_rank()
    for k in range(steps):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.05)
        if k % every == every // 2:
            rank.event(kind, cost_s, bytes=None if background_s else size, path="/scratch/ck/a.pt")
            if background_s is not None:
                rank.event("ckpt_background", background_s, blocking=False, bytes=size,
                           path="/scratch/ck/a.pt")  # fmt: skip
    return rank


def of_store(store: StandInStore, **known: Any) -> dict[str, Any]:
    report = analyse_store(store, replace(Thresholds(), saves=replace(Saves(), **known)))
    assert problems(report) == []
    found: dict[str, Any] = report["checkpoints"]
    return found


def told(rank: Rank, **known: Any) -> dict[str, Any]:
    return of_store(Job([rank]).store(), **known)


def together(ranks: list[Rank], savers: dict[int, tuple[float, int | None]]) -> StandInStore:
    """Ranks in lockstep; every 50 steps those in `savers` save (seconds, bytes), others wait."""
    for k in range(0, 400, 50):
        train_from(ranks, k)
        for place, (cost_s, size) in savers.items():
            ranks[place].event("ckpt_save", cost_s, bytes=size, path=f"/scratch/ck/{place}.pt")
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
    return Job(ranks).store()


def train_from(ranks: list[Rank], first: int) -> None:
    for k in range(first, first + 50):
        for rank in ranks:
            rank.batch(0.5 if k == 0 else 0.002, "pipe", index=k)
            rank.compute(0.05, step=False)
        last = max(rank.now for rank in ranks)
        for rank in ranks:
            rank.idle_until(last)
            rank.compute(0.001)


class TestParts:
    def test_a_blocking_save_has_no_background(self) -> None:
        found = told(saving())
        assert found["count"] == 8
        assert found["blocking"]["median_s"] == 1.0
        assert found["background"]["median_s"] is None
        assert found["background"]["reason"]

    def test_an_asynchronous_save_is_both(self) -> None:
        found = told(saving(cost_s=0.1, background_s=1.5, kind="ckpt_async"))
        assert found["blocking"]["median_s"] == 0.1
        assert found["background"]["median_s"] == 1.5
        assert found["background"]["saves"] == 8
        assert found["background"]["late"] == 0

    def test_a_background_part_that_meets_the_next_save_is_late(self) -> None:
        found = told(saving(cost_s=0.1, background_s=4.0, kind="ckpt_async"))
        assert found["background"]["late"] == 7  # all but the last

    def test_a_background_part_without_a_blocking_one(self) -> None:
        rank = one_rank()
        for k in range(400):
            rank.batch(0.002, "pipe", index=k)
            rank.compute(0.05)
            if k % 50 == 25:
                rank.event("ckpt_background", 1.0, blocking=False, bytes=GB, path="/scratch/a")
        found = told(rank)
        assert (found["count"], found["blocking"]["median_s"]) == (8, 0.0)
        assert found["rate"]["achieved_bytes_per_s"] == GB
        assert found["lines"][0] == ("8 saves: nothing held training up, 1.0 s written beside it")

    def test_several_files_of_one_step_are_one_checkpoint(self) -> None:
        rank = one_rank()
        for k in range(400):
            rank.batch(0.002, "pipe", index=k)
            rank.compute(0.05)
            if k % 50 == 25:
                rank.event("ckpt_save", 0.5, bytes=GB, path="/scratch/model.pt")
                rank.event("ckpt_save", 1.0, bytes=2 * GB, path="/scratch/optimizer.pt")
        found = told(rank)
        assert (found["count"], found["blocking"]["median_s"]) == (8, 1.5)
        assert found["bytes"] == 3 * GB
        assert found["rate"]["achieved_bytes_per_s"] == 2 * GB

    def test_a_job_without_saves_has_no_section(self) -> None:
        assert "checkpoints" not in analyse_store(Job([saving(every=10_000)]).store())


class TestWriters:
    def ranks(self) -> list[Rank]:
        return [Rank(place, f"n{place // 2 + 1}", 1000 + 10 * place) for place in range(4)]

    def test_one_rank_for_all(self) -> None:
        found = of_store(together(self.ranks(), {0: (2.0, 4 * GB)}))
        writers = found["writers"]
        assert (writers["kind"], writers["ranks_writing"], writers["ranks"]) == (
            "single rank",
            1,
            4,
        )
        assert writers["by_rank"] == [{"rank": 0, "node": "n1", "bytes": 32 * GB}]

    def test_every_rank_its_part(self) -> None:
        found = of_store(together(self.ranks(), dict.fromkeys(range(4), (0.5, GB))))
        assert found["count"] == 8
        assert found["writers"]["kind"] == "sharded"
        assert {each["bytes"] for each in found["writers"]["by_rank"]} == {8 * GB}
        assert found["rate"]["achieved_bytes_per_s"] == 8 * GB  # four parts at a time
        assert found["bytes"] == 4 * GB

    def test_one_replica_group(self) -> None:
        found = of_store(together(self.ranks(), {0: (0.5, GB), 1: (0.5, GB)}))
        assert found["writers"]["kind"] == "some ranks"

    def test_a_little_metadata_is_no_part(self) -> None:
        found = of_store(together(self.ranks(), {0: (2.0, 4 * GB), 1: (0.01, 1000)}))
        assert found["writers"]["kind"] == "single rank"

    def test_a_folder_of_shards_is_counted_by_what_the_processes_wrote(self) -> None:
        store = together(self.ranks(), dict.fromkeys(range(4), (1.0, None)))
        for node in store.nodes.values():
            ends = {
                (one["rank"], -(-one["end_mono_ns"] // NS))
                for one in node.tables["events"]
                if one["kind"] == "ckpt_save"
            }
            for row in node.tables["process"]:
                at = row["rank"], row["mono_ns"] // NS
                row["write_bytes"] = GB if at in ends else 1000
        found = of_store(store)
        assert found["writers"]["kind"] == "sharded"
        assert "counted by the kernel" in found["writers"]["source"]
        assert found["writers"]["bytes"] == pytest.approx(32 * GB, rel=0.01)

    def test_nobody_told_and_nobody_counted(self) -> None:
        found = of_store(together(self.ranks(), dict.fromkeys(range(4), (1.0, None))))
        assert found["writers"]["kind"] is None
        assert found["writers"]["reason"]
        assert found["rate"]["achieved_bytes_per_s"] is None

    def test_one_process_is_no_single_rank(self) -> None:
        assert told(saving())["writers"]["kind"] == "one process"


def with_client_writes(store: StandInStore, best: float) -> StandInStore:
    """The client of /scratch writes 1 MB/s, and `best` for some seconds."""
    put(store, "fsclient", lambda second: {
        "mount": "/scratch", "fstype": "nfs4", "source": "mountstats", "op_class": "write",
        "ops": 5, "bytes": int(best) if 110 <= second < 114 else 10**6, "rtt_ms": 1.0,
    })  # fmt: skip
    return store


class TestRate:
    def test_the_mounts_best_is_what_is_possible(self) -> None:
        found = of_store(with_client_writes(Job([saving()]).store(), 8 * GB))
        assert found["rate"]["achieved_bytes_per_s"] == GB
        assert found["rate"]["possible_bytes_per_s"] == 8 * GB
        assert found["rate"]["share"] == 0.125
        assert "client's writes to /scratch" in found["rate"]["possible_base"]

    def test_far_below_it_is_said_where_saves_cost(self) -> None:
        report = analyse_store(with_client_writes(Job([saving()]).store(), 8 * GB))
        [finding] = [one for one in report["findings"] if one["rule"] == "F04"]
        texts = [one["text"] for one in finding["evidence"]]
        assert any("12% of 8.0 GB/s" in text for text in texts)

    def test_near_it_is_not(self) -> None:
        report = analyse_store(with_client_writes(Job([saving()]).store(), 1.1 * GB))
        [finding] = [one for one in report["findings"] if one["rule"] == "F04"]
        assert not any("the best 3 s" in one["text"] for one in finding["evidence"])

    def test_the_sites_figure_goes_before(self) -> None:
        store = with_client_writes(Job([saving()]).store(), 8 * GB)
        found = of_store(store, possible_bytes_per_s=2.0 * GB)
        assert found["rate"]["share"] == 0.5
        assert found["rate"]["possible_base"] == "the site's configuration"

    def test_one_second_is_no_best(self) -> None:
        store = Job([saving()]).store()
        put(store, "fsclient", lambda second: {
            "mount": "/scratch", "fstype": "nfs4", "source": "mountstats", "op_class": "write",
            "bytes": 9 * GB if second == 112 else 0,
        })  # fmt: skip
        assert of_store(store)["rate"]["possible_bytes_per_s"] == 3 * GB

    def test_devices_stand_in_for_a_local_mount(self) -> None:
        store = Job([saving()]).store()
        store.nodes["n1"].meta["sources"]["block"] = {"leaves": {"/scratch": ["nvme0n1"]}}
        put(store, "block", lambda second: {"device": "nvme0n1", "role": "disk",
                                            "wkB_s": 2 * GB / 1024})  # fmt: skip
        found = of_store(store)
        assert found["rate"]["share"] == pytest.approx(0.5)
        assert "devices of /scratch" in found["rate"]["possible_base"]

    def test_unknown_is_null_with_a_reason(self) -> None:
        found = told(saving())
        assert found["rate"]["possible_bytes_per_s"] is None
        assert "/scratch" in found["rate"]["reason"]


class TestInterval:
    def test_the_present_one_and_what_it_costs(self) -> None:
        found = told(saving())["interval"]
        assert found["now_s"] == pytest.approx(50 * 0.052, rel=0.01)
        assert found["now_steps"] == 50
        assert found["saving_share"] == pytest.approx(1 / 3.6, rel=0.01)

    def test_without_a_failure_rate_there_is_a_table_and_no_advice(self) -> None:
        found = told(saving())["interval"]
        assert [one["mtbf_s"] for one in found["options"]] == [6 * 3600, 86_400, 7 * 86_400]
        assert found["change_to_s"] is None
        assert "node_mtbf_h" in found["reason"]

    def test_with_one_there_is_advice_with_its_base(self) -> None:
        found = told(saving(), node_mtbf_s=5600 * 3600.0)["interval"]
        [option] = found["options"]
        assert found["change_to_s"] == option["interval_s"]
        assert option["young_s"] == pytest.approx((2 * 1.0 * 5600 * 3600) ** 0.5, rel=1e-3)
        assert found["mtbf_base"] == "5600 h a node (thresholds.node_mtbf_h), 1 node"
        assert option["lost_share"] < option["now_lost_share"]

    def test_a_good_interval_stays(self) -> None:
        mtbf_s = (50 * 0.052) ** 2 / 2 * 10  # Young's interval is about the present one
        found = told(saving(cost_s=0.1), node_mtbf_s=mtbf_s)["interval"]
        assert found["change_to_s"] is None
        assert "about the best" in found["reason"]

    def test_what_gains_little_is_not_advised(self) -> None:
        found = told(saving(cost_s=0.004, size=10**6), node_mtbf_s=1e7)["interval"]
        assert found["change_to_s"] is None
        assert "less than 0.5%" in found["reason"]

    def test_two_saves_are_noise(self) -> None:
        found = told(saving(every=200), node_mtbf_s=1e7)["interval"]
        assert found["options"] == []
        assert "2 saves" in found["reason"]

    def test_saves_whose_cost_swings_advise_no_change_within_their_spread(self) -> None:
        rank = one_rank()
        for k in range(400):
            rank.batch(0.002, "pipe", index=k)
            rank.compute(0.05)
            if k % 50 == 25:
                rank.event("ckpt_save", 0.05 if k % 100 == 25 else 4.0, bytes=GB, path="/scratch/a")
        young_low = (2 * 0.05 * 300) ** 0.5
        found = told(rank, node_mtbf_s=300.0)["interval"]
        assert found["cost_low_s"] < 0.1
        assert found["cost_high_s"] == pytest.approx(4.0)
        assert young_low > found["now_s"]
        assert found["change_to_s"] is not None or "about the best" in found["reason"]

    def test_a_save_that_drains_long_cannot_come_sooner(self) -> None:
        found = told(saving(cost_s=0.3, background_s=2.0, kind="ckpt_async"), node_mtbf_s=2.0)[
            "interval"
        ]
        assert found["options"][0]["interval_s"] == 2.0

    def test_failed_saves_are_counted_apart(self) -> None:
        rank = saving()
        rank.events[0]["failed"] = True
        found = told(rank)
        assert (found["count"], found["failed"]) == (8, 1)


class TestText:
    def test_a_few_lines_where_no_finding_tells(self) -> None:
        rank = saving(every=200, steps=1200, cost_s=0.01, background_s=1.0, kind="ckpt_async")
        text = render(analyse_store(Job([rank]).store()))
        assert "saves     6 saves: training stood 10 ms for each, 1.0 s written beside it" in text

    def test_the_finding_tells_where_there_is_one(self) -> None:
        text = render(analyse_store(Job([saving()]).store()))
        assert "\nsaves " not in text
        assert "a save every" in text


def disturbing(extra_s: float, cycles: int = 10) -> StandInStore:
    """Saves in the background for 8 s every 30 s; batches wait `extra_s` longer meanwhile."""
    rank, busy_until, k = one_rank(), 0.0, 0
    for cycle in range(cycles):
        rank.event("ckpt_async", 0.05, bytes=None, path="/scratch/ck/a.pt")
        rank.event("ckpt_background", 8.0, blocking=False, bytes=GB, path="/scratch/ck/a.pt")
        busy_until = rank.now + 8.0
        end = rank.now + 30 + cycle % 3
        while rank.now < end:
            waiting = rank.now < busy_until
            rank.batch(0.01 + k % 5 * 0.004 + (extra_s if waiting else 0.0), "storage", index=k)
            rank.compute(0.1)
            k += 1
    return Job([rank]).store()


class TestInterference:
    def test_reads_that_wait_while_a_checkpoint_is_written(self) -> None:
        found = of_store(disturbing(0.05))["interference"]
        assert found["p"] <= 0.01
        assert found["wait_share_during"] > found["wait_share_outside"]
        assert found["disturbance"] > 0.02
        assert found["cycles"] == 10

    def test_the_finding_says_so(self) -> None:
        report = analyse_store(disturbing(0.05))
        assert "F25" in {each["rule"] for each in report["findings"]}

    def test_reads_that_do_not_care(self) -> None:
        found = of_store(disturbing(0.0))["interference"]
        assert found["p"] > 0.01
        assert found["disturbance"] is None

    def test_few_saves_show_nothing(self) -> None:
        found = of_store(disturbing(0.05, cycles=4))["interference"]
        assert found["p"] is None
        assert found["cycles"] == 4
        assert "at least 6" in found["reason"]

    def test_without_a_background_part_there_is_nothing_to_disturb(self) -> None:
        found = told(saving())["interference"]
        assert found["p"] is None
        assert "beside training" in found["reason"]


class TestRule:
    """F25 beside the figures it rests on."""

    def said(self, store: StandInStore) -> Answer:
        return answer("f25_background_write", store)

    def test_fires_where_writing_makes_reads_late(self) -> None:
        said = self.said(disturbing(0.05))
        [finding] = said.findings
        assert (finding.rule, finding.confidence) == ("F25", "likely")
        assert finding.where.mounts == ("/scratch",)
        assert "while a checkpoint is written beside it" in text_of(said)

    def test_is_quiet_where_it_does_not(self) -> None:
        assert self.said(disturbing(0.0)).state == "quiet"

    def test_is_quiet_on_few_saves_and_says_so(self) -> None:
        assert "at least 6" in self.said(disturbing(0.05, cycles=4)).reason

    def test_is_quiet_without_background_writes(self) -> None:
        assert self.said(Job([saving()]).store()).state == "quiet"

    def test_is_quiet_where_it_costs_little(self) -> None:
        assert "cost 0." in self.said(disturbing(0.004)).reason


def test_a_single_batch_and_a_save_beside_it_are_no_error() -> None:
    rank = one_rank()
    rank.batch(0.1, "storage", index=0)
    rank.event("ckpt_background", 2.0, blocking=False, bytes=GB, path="/scratch/a")
    rank.compute(1.0)
    report = analyse_store(Job([rank]).store())
    assert problems(report) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ckpt_save", "ckpt_async", "ckpt_background"]),
            st.floats(0, 3),
            st.one_of(st.none(), st.integers(0, 10**12)),
            st.booleans(),
        ),
        max_size=12,
    )
)
@settings(max_examples=25)
def test_any_order_of_saves_is_told_in_the_reports_shape(
    saves: list[tuple[str, float, int | None, bool]],
) -> None:
    rank = one_rank()
    for k in range(60):
        rank.batch(0.002, "pipe", index=k)
        rank.compute(0.1)
        if k % 4 == 3 and k // 4 < len(saves):
            kind, seconds, size, failed = saves[k // 4]
            rank.event(kind, seconds, blocking=kind != "ckpt_background", bytes=size,
                       path="/scratch/a", failed=failed)  # fmt: skip
    report = analyse_store(Job([rank]).store())
    assert problems(report) == []
    if "checkpoints" in report:
        assert report["checkpoints"]["count"] >= 1
        assert report["checkpoints"]["failed"] <= report["checkpoints"]["count"]
