"""AMD GPUs from files of a made-up /sys."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import HostError
from slurm_io.gpus.amd.driver import AmdDriver
from slurm_io.gpus.model import PARENT_COLUMNS, VALUE_COLUMNS, Files, Mark, Wish
from tests.gpus.amd.card_folder import GIB, address, make_card, v1_3, v1_4

ALL = Wish("all", is_known=False)


def driver(
    root: Path, wish: Wish = ALL, first: int = 0, without: frozenset[int] = frozenset()
) -> AmdDriver:
    return AmdDriver(wish, root, Mark(), first, without)


def read(one: AmdDriver) -> list[dict[str, Any]]:
    rows, xids = one.read(0)
    assert xids == []
    return [dict(zip((*PARENT_COLUMNS, *VALUE_COLUMNS), row, strict=True)) for row in rows]


def test_every_value_of_a_card(tmp_path: Path) -> None:
    (make_card(tmp_path) / "gpu_metrics").write_bytes(v1_3(throttle=2))
    (row,) = read(driver(tmp_path))
    assert {name: value for name, value in row.items() if value is not None} == {
        "gpu": 0, "uuid": "GPU-7d3a5c1e0f2b4a69", "util_share": 0.87, "mem_util_share": 0.3,
        "mem_used_bytes": 48 * GIB, "mem_total_bytes": 64 * GIB, "power_w": 412.0,
        "sm_clock_mhz": 1700, "mem_clock_mhz": 1600, "throttle_reasons": 2, "temperature_c": 63,
        "pcie_gen": 4, "pcie_width": 16, "pcie_gen_max": 4, "pcie_width_max": 16,
    }  # fmt: skip


def test_a_chip_that_tells_power_of_the_moment_and_energy(tmp_path: Path) -> None:
    folder = make_card(
        tmp_path,
        hwmon__hwmon4__power1_average=None,
        hwmon__hwmon4__power1_input="690500000\n",
        hwmon__hwmon4__freq1_input=None,
    )
    (folder / "gpu_metrics").write_bytes(v1_4(energy=100 << 16))
    one = driver(tmp_path)
    (row,) = read(one)
    assert (row["power_w"], row["energy_j"], row["sm_clock_mhz"]) == (690.5, None, 2100)
    (folder / "gpu_metrics").write_bytes(v1_4(energy=790 << 16))
    assert read(one)[0]["energy_j"] == 690.0
    (folder / "gpu_metrics").write_bytes(v1_4(energy=1))
    assert read(one)[0]["energy_j"] is None


def test_clocks_of_a_chip_that_marks_its_level(tmp_path: Path) -> None:
    make_card(
        tmp_path,
        hwmon__hwmon4__freq1_input=None,
        hwmon__hwmon4__freq2_input=None,
        pp_dpm_sclk="0: 500Mhz\n1: 1502Mhz *\n2: 1700Mhz\n",
        pp_dpm_mclk="0: 400Mhz\n1: 1600Mhz *\n",
    )
    (row,) = read(driver(tmp_path))
    assert (row["sm_clock_mhz"], row["mem_clock_mhz"]) == (1502, 1600)


def test_what_is_missing_is_null_with_a_reason(tmp_path: Path) -> None:
    make_card(tmp_path, mem_busy_percent=None, hwmon__hwmon4__power1_average=None)
    one = driver(tmp_path)
    (row,) = read(one)
    assert row["mem_util_share"] is None and row["power_w"] is None
    unknown = one.facts()["unknown"]
    assert set(unknown) == {"mem_util_share", "power_w", "energy_j", "throttle_reasons", "xid"}
    assert "no file for it" in unknown["power_w"] and "too short" in unknown["power_w"]


def test_nonsense_in_a_file_is_no_number(tmp_path: Path) -> None:
    make_card(tmp_path, gpu_busy_percent="-5\n", mem_info_vram_used="many\n", unique_id="../x\n")
    (row,) = read(driver(tmp_path))
    assert row["util_share"] is None and row["mem_used_bytes"] is None and row["uuid"] is None


def test_whose_by_number_render_node_and_uuid(tmp_path: Path) -> None:
    for number in range(3):
        make_card(tmp_path, number, unique_id=f"{number}d3a5c1e0f2b4a69\n")
    for words, expected in (
        (("1",), [1]),
        (("130",), [2]),
        (("GPU-2d3a5c1e0f2b4a69", "0"), [0, 2]),
    ):
        cards = driver(tmp_path, Wish("x", words)).identities()
        assert [card.gpu for card in cards] == expected
    files = driver(tmp_path, Wish("x", files=Files(render=frozenset({129}))))
    assert [card.bus for card in files.identities()] == [address(1)]


def test_beside_nvidia_gpus_they_are_numbered_on(tmp_path: Path) -> None:
    make_card(tmp_path)
    assert [card.gpu for card in driver(tmp_path, first=4).identities()] == [4]


def test_none_of_the_jobs_is_said(tmp_path: Path) -> None:
    make_card(tmp_path)
    with pytest.raises(HostError, match="none of the job's GPUs is an AMD GPU"):
        driver(tmp_path, Wish("x", ("7", "8")))
    with pytest.raises(HostError):
        driver(tmp_path, without=frozenset({0}))


def test_a_device_that_goes_away_is_lost(tmp_path: Path) -> None:
    folder = make_card(tmp_path)
    make_card(tmp_path, 1, unique_id="1d3a5c1e0f2b4a69\n")
    one = driver(tmp_path)
    assert len(read(one)) == 2
    shutil.rmtree(folder)
    for _ in range(10):
        rows = read(one)
    assert [row["gpu"] for row in rows] == [1]
    assert one.facts()["lost"] == {"GPU-7d3a5c1e0f2b4a69": "the device is gone from /sys"}
