"""Rounds over GPUs, against a library that stands in for NVIDIA's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import HostError
from slurm_io.gpus.model import (
    PARENT_COLUMNS,
    VALUE_COLUMNS,
    Files,
    Mark,
    NoneOfTheJobs,
    Wish,
    Xid,
)
from slurm_io.gpus.nvml.driver import SELDOM, NvmlDriver
from slurm_io.gpus.nvml.errors import NvmlError, reason_of
from tests.labs.gpu.stand_in import (
    BEFORE_GPM,
    BEFORE_MIG,
    BEFORE_R510,
    GIB,
    StandIn,
    bus,
    uuid,
)

ALL = Wish("all", is_known=False)
GPM = ("sm_active_share", "tensor_active_share", "dram_active_share", "pcie_rx_mib_s")
Rows = list[dict[str, Any]]


class Lab:
    """A stand-in and the driver opened on it; each round comes a made-up second after the last."""

    def __init__(
        self, root: Path, wish: Wish = ALL, left_out: frozenset[int] = frozenset(), **how: Any
    ):
        self.lab = StandIn(root, **how)
        self.mark = Mark()
        self._open = lambda: NvmlDriver(
            str(self.lab.library), wish, root / "proc", self.mark, left_out
        )
        self.mono_ns = 0

    def open(self) -> NvmlDriver:
        self.driver = self._open()
        return self.driver

    def read(self) -> Rows:
        self.mono_ns += 10**9
        rows, self.xids = self.driver.read(self.mono_ns)
        return [dict(zip((*PARENT_COLUMNS, *VALUE_COLUMNS), row, strict=True)) for row in rows]

    def read_rounds(self, number: int) -> Rows:
        for _ in range(number):
            rows = self.read()
        return rows


def gpm_of(one: Lab) -> list[Any]:
    """GPM's figures of the first GPU in the next round."""
    row = one.read()[0]
    return [row[name] for name in GPM]


@pytest.fixture
def lab(tmp_path: Path) -> Callable[..., Lab]:
    def make(tell: dict[str, object] | None = None, **how: Any) -> Lab:
        made = Lab(tmp_path, **how)
        made.lab.tell(tell or {})
        made.open()
        return made

    return make


def test_every_value_of_a_gpu(lab: Callable[..., Lab]) -> None:
    one = lab()
    first, second = one.read()
    assert {name: first[name] for name in first if name not in GPM} == {
        "gpu": 0, "mig": None, "uuid": uuid(0), "parent_uuid": None, "util_share": 0.97,
        "mem_util_share": 0.41, "mem_used_bytes": 61 * GIB, "mem_total_bytes": 80 * GIB,
        "mem_reserved_bytes": GIB // 2, "power_w": 655.25, "energy_j": None, "sm_clock_mhz": 1755,
        "mem_clock_mhz": 2619, "throttle_reasons": 4, "temperature_c": 61, "pcie_gen": 5,
        "pcie_width": 16, "pcie_gen_max": 5, "pcie_width_max": 16, "ecc_uncorrected": 0,
        "remapped_rows": 0, "remap_pending": False, "xid": None,
    }  # fmt: skip
    assert (second["gpu"], second["util_share"]) == (1, 0.96)
    assert one.driver.versions()["driver"] == "550.54.15"
    assert one.driver.facts()["unknown"] == {}


def test_energy_is_told_for_the_time_between_two_readings(lab: Callable[..., Lab]) -> None:
    one = lab()
    one.read()
    one.lab.tell({"0.energy_mj": 1_655_250})
    first, second = one.read()
    assert (first["energy_j"], second["energy_j"]) == (655.25, 0.0)
    one.lab.tell({"0.energy_mj": 5})  # the driver was loaded anew
    assert one.read()[0]["energy_j"] is None


def test_gpm_needs_two_samples_a_tenth_of_a_second_apart(lab: Callable[..., Lab]) -> None:
    one = lab(gpus=1)
    assert gpm_of(one) == [None] * 4
    one.mono_ns -= 10**9 - 50_000_000  # the next round comes after 50 ms
    assert gpm_of(one) == [None] * 4
    assert gpm_of(one) == [0.825, 0.3325, 0.4, 1500.5]
    assert one.driver.facts()["unknown"] == {}


def test_a_gpm_metric_the_gpu_does_not_have_is_null_alone(lab: Callable[..., Lab]) -> None:
    one = lab(gpus=1, tell={"0.gpm.5": None})
    one.read()
    assert gpm_of(one) == [0.825, None, 0.4, 1500.5]


def test_without_gpm_the_reason_stands_in_the_facts(lab: Callable[..., Lab]) -> None:
    one = lab(tell={"1.gpm": 0})
    one.read()
    unknown = one.driver.facts()["unknown"]
    assert set(unknown) == set(GPM)
    assert unknown["sm_active_share"].startswith("GPU 1: this GPU does not support it")


@pytest.mark.parametrize(
    ("without", "unknown"),
    [
        (BEFORE_GPM, set(GPM)),
        (BEFORE_R510, set(GPM)),
        (BEFORE_MIG, {*GPM, "energy_j", "remapped_rows", "remap_pending", "processes"}),
    ],
)
def test_an_old_driver_costs_its_columns_and_nothing_else(
    lab: Callable[..., Lab], without: tuple[str, ...], unknown: set[str]
) -> None:
    one = lab(without=without)
    one.read()
    (row, _) = one.read()
    reasons = one.driver.facts()["unknown"]
    assert set(reasons) == unknown
    assert all("this driver is too old" in reason for reason in reasons.values())
    given = {name for name, value in row.items() if value is not None}
    assert {"util_share", "mem_used_bytes", "power_w", "throttle_reasons", "temperature_c"} <= given
    if without is not BEFORE_GPM:
        # Then what the driver reserves is counted as used.
        assert (row["mem_used_bytes"], row["mem_reserved_bytes"]) == (61 * GIB + GIB // 2, None)


def test_a_driver_of_tomorrow_without_the_old_names(lab: Callable[..., Lab]) -> None:
    gone = (
        "nvmlDeviceGetTemperature",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    )
    (row,) = lab(gpus=1, without=gone).read()
    assert (row["temperature_c"], row["mem_used_bytes"], row["throttle_reasons"]) == (
        61,
        61 * GIB,
        4,
    )


@pytest.mark.parametrize("code", [2, 3, 4, 6, 17, 21, 25, 26, 27, 999, 4711])
def test_a_refused_question_is_null_with_its_reason(lab: Callable[..., Lab], code: int) -> None:
    one = lab(tell={"0.error.nvmlDeviceGetPowerUsage": code})
    first, second = one.read()
    assert (first["power_w"], second["power_w"]) == (None, 655.25)
    assert first["sm_clock_mhz"] == 1755
    reason = one.driver.facts()["unknown"]["power_w"]
    assert reason == f"GPU 0: {reason_of(code)} (nvmlDeviceGetPowerUsage: NVML error {code})"


def test_a_refused_question_is_asked_again_when_everything_is(lab: Callable[..., Lab]) -> None:
    one = lab(gpus=1, tell={"0.error.nvmlDeviceGetPowerUsage": 3})
    one.read()
    one.lab.tell({"0.error.nvmlDeviceGetPowerUsage": None})
    assert one.read()[0]["power_w"] is None  # not asked
    assert one.read_rounds(SELDOM - 1)[0]["power_w"] == 655.25
    assert one.driver.facts()["unknown"] == {}


def test_what_is_looked_at_seldom_is_repeated_between(lab: Callable[..., Lab]) -> None:
    one = lab(gpus=1)
    one.read()
    one.lab.tell({"0.temp": 90, "0.gen": 1, "0.ecc": 2})
    row = one.read_rounds(SELDOM - 1)[0]
    assert (row["temperature_c"], row["pcie_gen"], row["ecc_uncorrected"]) == (61, 5, 0)
    row = one.read()[0]
    assert (row["temperature_c"], row["pcie_gen"], row["ecc_uncorrected"]) == (90, 1, 2)


@pytest.mark.parametrize("code", [15, 16])
def test_a_gpu_lost_on_the_way_takes_no_other_with_it(lab: Callable[..., Lab], code: int) -> None:
    one = lab(gpus=3)
    one.read()
    one.lab.tell({"1.error": code})
    assert [row["gpu"] for row in one.read()] == [0, 2]
    one.lab.tell({"1.error": None})
    assert [row["gpu"] for row in one.read()] == [0, 2], "it was asked again"
    (lost,) = one.driver.facts()["lost"].items()
    assert lost[0] == uuid(1) and lost[1].startswith(reason_of(code))


def test_a_gpu_lost_before_the_start_is_named(lab: Callable[..., Lab]) -> None:
    one = lab(gpus=2, tell={"0.error": 15})
    assert [row["gpu"] for row in one.read()] == [1]
    assert uuid(0) in one.driver.facts()["lost"]


@pytest.mark.parametrize("code", [1, 9, 12, 18])
def test_a_driver_lost_on_the_way_ends_the_session(lab: Callable[..., Lab], code: int) -> None:
    one = lab()
    one.read()
    one.lab.tell({"error": code})
    with pytest.raises(NvmlError) as caught:
        one.read()
    assert str(caught.value).startswith(reason_of(code))


@pytest.mark.parametrize("code", [9, 12, 18, 4, 999])
def test_why_it_cannot_be_opened_is_one_line(tmp_path: Path, code: int) -> None:
    one = Lab(tmp_path)
    one.lab.tell({"error.nvmlInit_v2": code})
    with pytest.raises(HostError) as caught:
        one.open()
    assert str(caught.value) == f"{reason_of(code)} (nvmlInit_v2: NVML error {code})"


def test_xids_stand_in_the_row_of_their_gpu_once(lab: Callable[..., Lab]) -> None:
    one = lab()
    one.lab.report_xid(1, 31)
    one.lab.report_xid(1, 43)
    assert [row["xid"] for row in one.read()] == [None, 43]
    assert one.xids == [Xid(uuid(1), 31), Xid(uuid(1), 43)]
    assert [row["xid"] for row in one.read()] == [None, None]


def test_a_storm_of_xids_is_taken_in_pieces(lab: Callable[..., Lab]) -> None:
    one = lab(gpus=1)
    for _ in range(100):
        one.lab.report_xid(0, 31)
    one.read()
    assert len(one.xids) == 64
    one.read()
    assert len(one.xids) == 36


def test_without_events_the_reason_stands_in_the_facts(lab: Callable[..., Lab]) -> None:
    one = lab(tell={"1.error.nvmlDeviceRegisterEvents": 3})
    one.lab.report_xid(0, 31)
    assert [row["xid"] for row in one.read()] == [31, None]
    assert one.driver.facts()["unknown"]["xid"].startswith("GPU 1: this GPU does not support it")


def test_events_that_a_lost_gpu_took_along_are_not_asked_for_for_ever(
    lab: Callable[..., Lab],
) -> None:
    one = lab(tell={"error.nvmlEventSetWait_v2": 15})
    assert len(one.read()) == 2
    assert "the GPU is lost" in one.driver.facts()["unknown"]["xid"]


class TestWhoseGpus:
    def numbers(self, one: Lab) -> list[int]:
        return [identity.gpu for identity in one.driver.identities()]

    def test_only_the_jobs_are_touched(self, tmp_path: Path) -> None:
        # The others would hang whoever opens them.
        one = Lab(tmp_path, wish=Wish("SLURM_JOB_GPUS=1,3", ("1", "3")), gpus=4)
        one.lab.tell({"0.error": 15, "2.error": 15})
        one.open()
        assert self.numbers(one) == [1, 3]
        assert one.driver.facts()["lost"] == {}

    def test_by_uuid(self, lab: Callable[..., Lab]) -> None:
        one = lab(gpus=4, wish=Wish("CUDA_VISIBLE_DEVICES", (uuid(2), uuid(0))))
        assert self.numbers(one) == [0, 2]

    def test_by_uuid_where_the_driver_does_not_list_them(self, lab: Callable[..., Lab]) -> None:
        one = lab(gpus=4, in_proc=False, wish=Wish("CUDA_VISIBLE_DEVICES", (uuid(2),)))
        assert self.numbers(one) == [2]
        assert one.driver.identities()[0].bus == bus(2)

    def test_by_device_file(self, tmp_path: Path) -> None:
        wish = Wish("open", files=Files(nvidia=frozenset({1})))
        one = Lab(tmp_path, wish=wish, gpus=4)
        one.open()
        assert self.numbers(one) == [1]

    def test_gpus_of_others_in_a_control_group_are_no_loss(self, lab: Callable[..., Lab]) -> None:
        closed = {f"{gpu}.error.nvmlDeviceGetHandleByPciBusId_v2": 4 for gpu in (0, 2, 3)}
        one = lab(gpus=4, tell=closed)
        assert self.numbers(one) == [1]
        assert one.driver.facts()["lost"] == {}

    def test_none_that_can_be_opened_is_an_error_with_the_reasons(self, tmp_path: Path) -> None:
        one = Lab(tmp_path, wish=Wish("SLURM_JOB_GPUS=0", ("0",)))
        one.lab.tell({"0.error": 15})
        with pytest.raises(
            HostError, match="none of the job's GPUs can be opened: the GPU is lost"
        ):
            one.open()

    def test_one_that_hung_before_is_left_alone(self, lab: Callable[..., Lab]) -> None:
        one = lab(gpus=3, left_out=frozenset({1}))
        assert self.numbers(one) == [0, 2]

    @pytest.mark.parametrize("in_proc", [True, False])
    def test_leaving_one_out_does_not_change_what_numbers_mean(
        self, tmp_path: Path, in_proc: bool
    ) -> None:
        wish = Wish("SLURM_JOB_GPUS=1,2,3", ("1", "2", "3"))
        one = Lab(tmp_path, wish=wish, left_out=frozenset({1}), gpus=4, in_proc=in_proc)
        one.lab.tell({"1.error": 999})  # who touches it is told so
        one.open()
        assert self.numbers(one) == [2, 3]
        assert one.driver.facts()["lost"] == {}

    def test_a_gpu_lost_while_instances_are_looked_for(self, tmp_path: Path) -> None:
        one = Lab(tmp_path, wish=Wish("CUDA_VISIBLE_DEVICES=MIG-a", ("MIG-aaaa1111",)), gpus=2)
        one.lab.cut_into(1, [(3, 0, "MIG-aaaa1111")])
        one.lab.tell({"0.error.nvmlDeviceGetMigMode": 15})
        one.open()
        assert self.numbers(one) == [1]
        assert uuid(0) in one.driver.facts()["lost"]

    def test_none_of_the_jobs_is_no_loss(self, tmp_path: Path) -> None:
        one = Lab(tmp_path, wish=Wish("SLURM_JOB_GPUS=7,8,9", ("7", "8", "9")))
        with pytest.raises(NoneOfTheJobs):
            one.open()

    def test_numbers_on_a_node_with_mig_may_be_slices(self, tmp_path: Path) -> None:
        one = Lab(tmp_path, wish=Wish("SLURM_JOB_GPUS=0", ("0",)), gpus=2)
        one.lab.cut_into(0, [(7, 0, "MIG-a"), (8, 0, "MIG-b")])
        one.open()
        assert self.numbers(one) == [0, 1]
        assert "may count slices" in one.driver.doubt


class TestMig:
    INSTANCES = ((3, 0, "MIG-aaaa1111"), (5, 0, "MIG-bbbb2222"), (5, 1, "MIG-cccc3333"))

    def cut(self, root: Path, wish: Wish = ALL) -> Lab:
        one = Lab(root, wish=wish, gpus=2)
        one.lab.cut_into(1, self.INSTANCES)
        one.open()
        return one

    def test_instances_are_rows_of_their_own(self, tmp_path: Path) -> None:
        one = self.cut(tmp_path)
        one.read()
        rows = {row["uuid"]: row for row in one.read()}
        assert list(rows) == [uuid(0), uuid(1), *(each[2] for each in self.INSTANCES)]
        parent, instance = rows[uuid(1)], rows["MIG-bbbb2222"]
        assert (instance["gpu"], instance["mig"], instance["parent_uuid"]) == (1, "5/0", uuid(1))
        assert (instance["mem_used_bytes"], instance["sm_active_share"]) == (2 * GIB, 0.5)
        assert instance["util_share"] is None and instance["power_w"] is None
        # The board's own: NVML does not tell utilisation in MIG mode, but power and clocks.
        assert (parent["util_share"], parent["power_w"]) == (None, 655.25)
        # Compute instances of one GPU instance share its GPM figures.
        assert rows["MIG-cccc3333"]["sm_active_share"] == 0.5
        assert one.driver.facts()["unknown"]["util_share"].startswith("GPU 1: this GPU does not")

    def test_only_the_jobs_instances(self, tmp_path: Path) -> None:
        one = self.cut(tmp_path, Wish("CUDA_VISIBLE_DEVICES=MIG-bbbb2222", ("MIG-bbbb2222",)))
        assert [row["uuid"] for row in one.read()] == [uuid(1), "MIG-bbbb2222"]
        assert one.driver.facts()["instances"] == [{"gpu": 1, "mig": "5/0", "uuid": "MIG-bbbb2222"}]

    def test_by_their_old_name(self, tmp_path: Path) -> None:
        one = self.cut(tmp_path, Wish("x", (f"MIG-{uuid(1)}/3/0",)))
        assert [row["uuid"] for row in one.read()] == [uuid(1), "MIG-aaaa1111"]

    def test_instances_made_anew_are_found(self, tmp_path: Path) -> None:
        one = self.cut(tmp_path)
        one.read()
        for place in range(3):
            one.lab.tell({f"1.mig.{place}.gi": None})
        one.lab.cut_into(1, [(9, 0, "MIG-dddd4444")])
        uuids = {row["uuid"] for row in one.read_rounds(2 * SELDOM)}
        assert uuids == {uuid(0), uuid(1), "MIG-dddd4444"}

    def test_an_xid_of_an_instance(self, tmp_path: Path) -> None:
        one = self.cut(tmp_path)
        one.lab.report_xid(1, 94, instance=5)
        xids = {row["uuid"]: row["xid"] for row in one.read()}
        assert xids == {
            uuid(0): None, uuid(1): 94,
            "MIG-aaaa1111": None, "MIG-bbbb2222": 94, "MIG-cccc3333": 94,
        }  # fmt: skip


class TestProcesses:
    def test_those_with_a_compute_context(self, lab: Callable[..., Lab]) -> None:
        one = lab(tell={"0.pids": "30,20,20", "1.pids": ""})
        one.read()
        assert one.driver.facts()["processes"] == {uuid(0): [20, 30], uuid(1): []}

    def test_more_than_there_was_room_for(self, lab: Callable[..., Lab]) -> None:
        pids = list(range(100, 130))
        one = lab(gpus=1, tell={"0.pids": ",".join(map(str, pids))})
        one.read()
        assert one.driver.facts()["processes"] == {uuid(0): pids}

    def test_when_the_driver_does_not_tell(self, lab: Callable[..., Lab]) -> None:
        one = lab(gpus=1, tell={"0.pids": None})
        one.read()
        assert one.driver.facts()["processes"] == {}
