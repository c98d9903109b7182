"""F20: GPUs slowed by heat, power, or a poor link; idle ones and power caps are no fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm_io.analysis.api import analyse_store
from tests.analysis.rules.stores import Row, answer, healthy, healthy_gpu, job, put, text_of
from tests.analysis.stand_in import StandInStore

RULE = "f20_gpu_slowed"


def store_of(row: Callable[[int, int], Row], *, vendor: str = "nvidia", known: bool = True,
             gpus: int = 8) -> StandInStore:  # fmt: skip
    """`row(gpu, second)` says in what it differs from a healthy one."""
    store = job(healthy())
    store.nodes["n1"].meta["sources"]["gpu"] = {
        "state": "on",
        "gpus": [{"gpu": n, "vendor": vendor, "name": "H100"} for n in range(gpus)],
        "whose": {"known": known},
    }
    put(store, "gpu", lambda second: [healthy_gpu(n) | row(n, second) for n in range(gpus)])
    return store


def of(number: int, **values: object) -> Callable[[int, int], Row]:
    return lambda gpu, second: values if gpu == number else {}


def test_the_power_cap_of_a_hard_working_gpu_is_no_fault() -> None:
    said = answer(RULE, store_of(of(9)))
    assert (said.state, said.findings) == ("quiet", ())


@pytest.mark.parametrize("bit", [0x20, 0x40])
def test_heat_and_a_lower_clock_are_proof(bit: int) -> None:
    row = of(3, throttle_reasons=0x4 | bit, sm_clock_mhz=1200, temperature_c=91)
    said = answer(RULE, store_of(row))
    [finding] = said.findings
    assert finding.confidence == "proven"
    assert finding.where.nodes == ("n1",)
    assert "GPU 3 of n1" in text_of(said)
    assert "91 °C" in text_of(said)
    assert "cooling" in finding.remedy


def test_heat_without_a_lower_clock_is_likely() -> None:
    [finding] = answer(RULE, store_of(of(3, throttle_reasons=0x20))).findings
    assert finding.confidence == "likely"


def test_power_brake_is_told_from_heat() -> None:
    [finding] = answer(RULE, store_of(of(2, throttle_reasons=0x80))).findings
    assert "power supplies" in finding.remedy
    assert "cooling" not in finding.remedy


def test_a_short_peak_of_heat_passes() -> None:
    def row(gpu: int, second: int) -> Row:
        return {"throttle_reasons": 0x20} if gpu == 3 and second % 20 == 0 else {}

    assert answer(RULE, store_of(row)).state == "quiet"


def test_an_idle_gpu_lowers_clock_and_link_by_itself() -> None:
    idle = {"util_share": 0.0, "sm_clock_mhz": 345, "pcie_gen": 1, "throttle_reasons": 0x1}
    assert answer(RULE, store_of(of(5, **idle))).state == "quiet"


def test_a_clock_below_all_others_needs_others() -> None:
    slow = of(0, sm_clock_mhz=1200)
    [finding] = answer(RULE, store_of(slow)).findings
    assert "1200 MHz" in text_of(answer(RULE, store_of(slow)))
    assert finding.confidence == "likely"
    assert answer(RULE, store_of(slow, gpus=3)).state == "quiet"


def test_clocks_that_the_admin_locked_for_all_are_quiet() -> None:
    assert answer(RULE, store_of(lambda gpu, second: {"sm_clock_mhz": 1200})).state == "quiet"


@pytest.mark.parametrize("poor", [{"pcie_width": 8}, {"pcie_gen": 3}])
def test_a_poor_link_is_named(poor: Row) -> None:
    said = answer(RULE, store_of(of(6, **poor)))
    [finding] = said.findings
    assert finding.severity == "warn"
    assert "GPU 6 of n1: PCIe" in text_of(said)


def test_the_same_link_everywhere_may_be_the_platform() -> None:
    [finding] = answer(RULE, store_of(lambda gpu, second: {"pcie_width": 8})).findings
    assert finding.severity == "info"


def test_another_vendors_mask_is_not_read() -> None:
    assert answer(RULE, store_of(of(3, throttle_reasons=0x20), vendor="amd")).state == "quiet"


def test_gpus_that_may_be_another_jobs_prove_nothing() -> None:
    row = of(3, throttle_reasons=0x20, sm_clock_mhz=1200)
    [finding] = answer(RULE, store_of(row, known=False)).findings
    assert finding.confidence == "not-proven"


def test_without_rows_it_says_so() -> None:
    said = answer(RULE, job(healthy()))
    assert said.state == "not enough evidence"
    assert "table gpu" in said.reason


def test_null_columns_are_not_zero() -> None:
    nothing = dict.fromkeys(
        ("throttle_reasons", "sm_clock_mhz", "pcie_gen", "pcie_width", "temperature_c")
    )
    assert answer(RULE, store_of(lambda gpu, second: nothing)).state == "quiet"


def test_storage_is_not_blamed() -> None:
    report = analyse_store(store_of(of(3, throttle_reasons=0x40, sm_clock_mhz=900)))
    assert report["verdict"] in ("healthy", "not-storage")
    assert report["idle"]["storage"]["value"] < 0.01
