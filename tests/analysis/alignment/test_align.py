"""SmolLM3's two causes, and jobs on which nothing can be said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_io.analysis.alignment.align import Alignment
from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.reports.text import render
from slurm_io.analysis.thresholds import Alignment as Limits
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.witness import Witness
from tests.analysis.alignment.stories import (
    BEGIN,
    Story,
    alignment_of,
    moments,
    picture_of,
    told,
    with_client,
)
from tests.analysis.report_shape import problems
from tests.analysis.rules.stores import GIB, put
from tests.analysis.stand_in import EPOCH_NS, NS, StandInStore

DROPS = moments(1, 1200)
OTHERS = moments(2, 1200)
LATER = {second + late for second in OTHERS for late in range(3)}


def heard(store: StandInStore) -> Witness:
    return next(one for one in picture_of(store).witnesses if one.name == "alignment")


def growing(store: StandInStore) -> StandInStore:
    """Shared memory of the job grows all through it."""
    seconds = (store.nodes["n1"].meta["end_ts_ns"] - EPOCH_NS) // NS - 100
    put(store, "cgroup", lambda second: {
        "path": "job_42", "version": 2, "mem_anon_bytes": 10 * GIB,
        "mem_shmem_bytes": int((4 + 8 * (second - 100) / seconds) * GIB),
    })  # fmt: skip
    return store


class TestEviction:
    """The first read of a shard is slow, and drops line up with the client's latency."""

    STORE = told(Story(evicted=DROPS))

    def test_drops_line_up_with_the_mount(self) -> None:
        found = alignment_of(self.STORE)
        assert found.state == "aligned"
        assert found.p is not None
        assert found.p <= 0.01
        assert found.best is not None
        assert found.best.latencies.mount == "/scratch"
        assert found.best.met >= 0.9 * found.best.drops
        assert found.best.lift is None or found.best.lift > 10

    def test_it_is_a_witness(self) -> None:
        assert heard(self.STORE).agrees is True

    def test_the_verdict_is_storage_and_growth_is_not_named(self) -> None:
        report = analyse_store(growing_not(self.STORE))
        assert report["verdict"] == "storage"
        assert "F09" not in {one["rule"] for one in report["findings"]}

    def test_a_second_between_sampler_and_hook_changes_nothing(self) -> None:
        story = Story(seconds=1800, evicted=moments(1, 1800))
        for late_s in (-1, 1):
            store = with_client(story.store(), story.slow_seconds(), late_s=late_s)
            assert alignment_of(store).state == "aligned", late_s

    def test_the_same_store_gives_the_same_answer(self) -> None:
        assert alignment_of(self.STORE) == alignment_of(told(Story(evicted=DROPS)))


def growing_not(store: StandInStore) -> StandInStore:
    put(
        store,
        "cgroup",
        lambda second: {
            "path": "job_42",
            "version": 2,
            "mem_anon_bytes": 10 * GIB,
            "mem_shmem_bytes": 4 * GIB,
        },
    )
    return store  # fmt: skip


class TestIndexGrowth:
    """Memory and steps grow, steps drop at times of their own; storage spikes elsewhere or not."""

    def test_without_any_spike_the_drops_stand_apart(self) -> None:
        store = told(Story(index=DROPS, slow=(), growing=0.3))
        assert alignment_of(store).state == "apart"
        assert heard(store).agrees is False

    def test_spikes_at_other_times_do_not_change_that(self) -> None:
        assert alignment_of(told(Story(index=DROPS, slow=LATER, growing=0.3))).state == "apart"

    def test_growth_is_named_and_storage_is_not(self) -> None:
        report = analyse_store(growing(told(Story(index=DROPS, slow=LATER, growing=0.3))))
        assert report["verdict"] != "storage"
        [finding] = [one for one in report["findings"] if one["rule"] == "F09"]
        assert finding["confidence"] == "proven"
        assert any("do not line up" in one["text"] for one in finding["evidence"])
        assert not [one for one in report["findings"] if "reads from" in one["title"]]


class TestBoth:
    STORY = Story(evicted=DROPS, index=OTHERS, growing=0.3)

    def test_storage_explains_a_part_of_the_drops(self) -> None:
        found = alignment_of(told(self.STORY))
        assert found.state == "aligned"
        assert found.best is not None
        assert 0.3 < found.best.explained < 0.8

    def test_both_are_named(self) -> None:
        report = analyse_store(growing(told(self.STORY)))
        sure = {(one["rule"], one["title"]): one["confidence"] for one in report["findings"]}
        assert sure["F01", "training waits for reads from /scratch"] == "proven"
        assert sure["F09", "memory grows with the steps on 1 node"] == "likely"


class TestNeither:
    def test_a_steady_job_has_no_drops(self) -> None:
        found = alignment_of(told(Story(slow=LATER)))
        assert (found.state, found.drops, found.p) == ("untested", 0, None)
        assert "never fell" in found.reason
        assert heard(told(Story(slow=LATER))).agrees is None

    def test_a_steady_decline_is_no_drop(self) -> None:
        assert alignment_of(told(Story(slow=LATER, growing=0.6))).drops == 0


class TestWhatCannotBeSaid:
    def test_a_short_job(self) -> None:
        found = alignment_of(told(Story(seconds=200, evicted=moments(1, 200))))
        assert found.state == "untested"
        assert "from 300 s on" in found.reason

    def test_one_drop(self) -> None:
        found = alignment_of(told(Story(evicted=DROPS[15:16])))
        assert (found.state, found.drops) == ("untested", 1)

    def test_no_latencies(self) -> None:
        found = alignment_of(Story(evicted=DROPS, calls=None).store())
        assert (found.state, found.reason) == ("untested", "no read latencies were recorded")

    def test_a_client_that_tells_no_times(self) -> None:
        store = with_client(Story(evicted=DROPS, calls=None).store(), (), null=True)
        assert alignment_of(store).state == "untested"

    def test_only_one_node_was_sampled_and_the_other_is_slow(self) -> None:
        story = Story(evicted=DROPS, nodes=("n1", "n2"), slow_node="n2", calls=None)
        found = alignment_of(with_client(story.store(), LATER, node="n1"))
        assert found.state == "open"
        assert "n2 has no read latencies" in found.reason

    def test_only_the_slow_node_was_sampled(self) -> None:
        story = Story(evicted=DROPS, nodes=("n1", "n2"), slow_node="n2", calls=None)
        found = alignment_of(told(story))
        assert found.state == "aligned"
        assert found.best is not None
        assert found.best.latencies.node == "n2"

    def test_rows_missing_where_the_drops_are(self) -> None:
        holes = {second + late for second in DROPS for late in range(-1, 5)}
        story = Story(index=DROPS, calls=None)
        found = alignment_of(with_client(story.store(), LATER, without=holes))
        assert found.state == "open"
        assert "missing" in found.reason

    def test_rows_missing_elsewhere_do_no_harm(self) -> None:
        holes = set(range(BEGIN + 300, BEGIN + 420))
        story = Story(evicted=DROPS)
        store = with_client(story.store(), story.slow_seconds(), without=holes)
        assert alignment_of(store).state == "aligned"

    def test_the_client_of_another_mount_says_nothing(self) -> None:
        story = Story(evicted=DROPS, calls=None)
        found = alignment_of(with_client(story.store(), LATER, mount="/home", fstype="lustre"))
        assert found.state == "untested"

    def test_always_slow_is_no_spike(self) -> None:
        everywhere = set(range(BEGIN, BEGIN + 1400))
        found = alignment_of(told(Story(evicted=DROPS, slow=everywhere)))
        assert found.state != "aligned"


class TestClocks:
    def test_nodes_whose_clocks_differ_by_seconds(self) -> None:
        story = Story(evicted=DROPS, nodes=("n1", "n2"), slow_node="n2")
        plain = told(story)
        shifted = told(story)
        for rows in shifted.nodes["n2"].tables.values():
            for row in rows:
                row["ts_ns"] += 1_300_000_000
        assert alignment_of(plain).state == "aligned"
        assert alignment_of(shifted) == alignment_of(plain)


class TestEffectiveLatency:
    """No client tells times: the readers' own latency stands in."""

    STORE = Story(evicted=DROPS).store()

    def test_it_lines_up_but_is_no_second_signal(self) -> None:
        found = alignment_of(self.STORE)
        assert found.state == "aligned"
        assert found.best is not None
        assert not found.best.latencies.is_counter
        assert heard(self.STORE).agrees is None

    def test_drops_without_it_stand_apart(self) -> None:
        assert alignment_of(Story(index=DROPS).store()).state == "apart"


def test_a_local_disk_speaks_for_a_local_mount() -> None:
    story = Story(evicted=DROPS)
    store = story.store()
    for row in store.nodes["n1"].tables["waits"]:
        row["fstype"] = "ext4" if row.get("fstype") else None
    slow = story.slow_seconds()
    put(
        store,
        "block",
        lambda second: {
            "device": "nvme0n1",
            "role": "disk",
            "r_await": 60.0 if second - 1 in slow else 0.2,
        },
    )
    found = alignment_of(store)
    assert found.state == "aligned"
    assert found.best is not None
    assert found.best.latencies.name == "nvme0n1"


class TestReport:
    def test_json_has_the_shape_and_names_the_mount(self) -> None:
        report = analyse_store(told(Story(evicted=DROPS)))
        assert problems(report) == []
        told_of = report["alignment"]
        assert told_of["state"] == "aligned"
        assert told_of["series"][0]["mount"] == "/scratch"
        assert told_of["false_alarm_rate"] == 0.01

    def test_text_says_it_in_one_place(self) -> None:
        text = render(analyse_store(told(Story(evicted=DROPS))))
        [line] = [one for one in text.splitlines() if one.startswith("drops ")]
        assert "drops of throughput met slow reads" in line

    def test_untested_is_null_with_a_reason_and_no_line(self) -> None:
        report = analyse_store(told(Story(seconds=60)))
        assert problems(report) == []
        assert report["alignment"]["p"] is None
        assert report["alignment"]["reason"]
        assert "\ndrops " not in render(report)


class TestLongJobs:
    """Bins get wider where a job is long or has many nodes; the answer stays."""

    def with_limits(self, **limits: int) -> Alignment:
        story = Story(seconds=2400, evicted=moments(3, 2400))
        wide = replace(Thresholds(), alignment=replace(Limits(), **limits))
        return take_picture(told(story), wide).alignment

    def test_few_bins(self) -> None:
        found = self.with_limits(most_bins=1300)
        assert found.tested_s == pytest.approx(2400, rel=0.1)
        assert found.state == "aligned"

    def test_few_rows(self) -> None:
        found = self.with_limits(most_seconds=1300)
        assert found.state == "aligned"
        assert found.best is not None
        assert found.best.latencies.known.bit_count() < 1400


def test_rare_slow_reads_name_the_mount_they_line_up_with() -> None:
    report = analyse_store(told(Story(evicted=DROPS)))
    [finding] = [one for one in report["findings"] if one["rule"] == "F02"]
    assert any("drops of throughput met slow reads" in one["text"] for one in finding["evidence"])
