"""F22: too little CPU for the loader; a busy node alone is no finding."""

from __future__ import annotations

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import Row, answer, healthy, job, put, starved, text_of
from tests.analysis.stand_in import NS, StandInStore

RULE = "f22_cpu_starved"


def with_group(store: StandInStore, **values: object) -> StandInStore:
    row: Row = {"path": "job_42", "version": 2, "cpu_ns": 4 * NS, "throttled_ns": 0,
                "throttled_periods": 0, "psi_cpu_some_ns": NS // 100, **values}  # fmt: skip
    put(store, "cgroup", lambda second: row)
    return store


def with_loaders(store: StandInStore, workers: int, ncpu: int) -> StandInStore:
    store.nodes["n1"].meta |= {"ncpu": ncpu, "loaders": [{"pid": 1000, "num_workers": workers}]}
    return store


def test_a_quota_that_throttles_a_waiting_job() -> None:
    store = with_loaders(job(starved(cause="cpu")), workers=12, ncpu=64)
    said = answer(RULE, with_group(store, throttled_periods=8, throttled_ns=NS // 2))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("warn", "proven")
    assert "at about 4.0 CPUs" in text_of(said)
    assert "DataLoader(..., num_workers=3)  # for 4 CPUs" in finding.commands
    assert any(line.startswith("#SBATCH --cpus-per-task=13") for line in finding.commands)
    assert finding.where.ranks == (0,)


def test_tasks_that_queue_for_a_cpu() -> None:
    said = answer(RULE, with_group(job(starved(cause="cpu")), psi_cpu_some_ns=NS // 2))
    [finding] = said.findings
    assert finding.confidence == "likely"
    assert "tasks of the job" in text_of(said)


def test_without_a_group_the_node_speaks_and_says_so() -> None:
    store = job(starved(cause="cpu"))
    put(store, "node", lambda second: {"psi_cpu_some_ns": NS // 2})
    said = answer(RULE, store)
    assert "other jobs' included" in text_of(said)
    assert said.findings[0].commands == ("#SBATCH --exclusive",)


def test_the_jobs_own_crowd_is_not_laid_on_others() -> None:
    store = with_loaders(job(starved(cause="cpu")), workers=12, ncpu=8)
    put(store, "node", lambda second: {"psi_cpu_some_ns": NS // 2})
    said = answer(RULE, store)
    assert "1 rank and 12 workers on n1 share 8 CPUs" in text_of(said)
    assert "DataLoader(..., num_workers=7)  # for 8 CPUs" in said.findings[0].commands


def test_a_busy_node_whose_job_waits_for_nothing_is_well_used() -> None:
    store = job(healthy())
    put(store, "node", lambda second: {"psi_cpu_some_ns": NS // 2})
    assert answer(RULE, with_group(store, psi_cpu_some_ns=NS // 2)).state == "quiet"


def test_a_job_that_waits_for_storage_is_not_starved_of_cpu() -> None:
    store = with_group(job(starved(cause="storage")), psi_cpu_some_ns=NS // 2)
    assert answer(RULE, store).state == "quiet"


def test_expensive_preparation_on_free_cpus_is_not_starvation() -> None:
    said = answer(RULE, with_group(job(starved(cause="cpu"))))
    assert said.state == "quiet"
    assert "neither a quota" in said.reason


def test_throttling_without_a_loss_is_told_as_information() -> None:
    said = answer(RULE, with_group(job(healthy()), throttled_periods=8))
    [finding] = said.findings
    assert finding.severity == "info"
    assert finding.title == "a CPU quota throttles the job"


def test_throttling_while_workers_start_is_none() -> None:
    store = job(healthy())
    row = {"path": "job_42", "version": 2, "cpu_ns": NS}
    put(store, "cgroup", lambda second: {**row, "throttled_periods": 9 if second < 103 else 0})
    assert answer(RULE, store).state == "quiet"


def test_a_loss_without_any_counter_is_not_enough_evidence() -> None:
    said = answer(RULE, job(starved(cause="cpu")))
    assert said.state == "not enough evidence"
    assert "cgroup" in said.reason


def test_counters_that_are_null_are_no_zero_and_no_alarm() -> None:
    store = with_group(job(starved(cause="cpu")), throttled_periods=None, psi_cpu_some_ns=None)
    assert answer(RULE, store).state == "not enough evidence"


def test_storage_is_not_blamed() -> None:
    store = with_group(job(starved(cause="cpu")), throttled_periods=8, psi_cpu_some_ns=NS // 2)
    report = analyse_store(store)
    assert report["verdict"] == "cpu-prep"
    assert {one["rule"] for one in report["findings"]} == {"F01", "F22"}
