"""gpu_metrics, by the layouts of the kernel's kgd_pp_interface.h."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.gpus.amd.metrics import parse_metrics, pcie_generation
from tests.gpus.amd.card_folder import v1_3, v1_4, v1_6


def test_1_3() -> None:
    metrics = parse_metrics(v1_3(throttle=0x8000000000000004))
    assert metrics.values == {
        "util_share": 0.87, "mem_util_share": 0.3, "power_w": 412, "temperature_c": 63,
        "sm_clock_mhz": 1700, "mem_clock_mhz": 1600, "throttle_reasons": 4, "pcie_width": 16,
        "pcie_gen": 4,
    }  # fmt: skip
    assert (metrics.energy_j, metrics.trouble) == (None, "")  # its unit is each chip's own


def test_1_4_has_energy_in_a_documented_unit() -> None:
    metrics = parse_metrics(v1_4(energy=3 << 16, throttle=8))
    assert metrics.energy_j == 3.0
    assert metrics.values["throttle_reasons"] == 8
    assert metrics.values["pcie_gen"] == 5
    assert (metrics.values["sm_clock_mhz"], metrics.values["mem_clock_mhz"]) == (2100, 1300)


def test_1_6_tells_no_throttling() -> None:
    metrics = parse_metrics(v1_6(energy=1 << 15))
    assert metrics.energy_j == 0.5
    assert "throttle_reasons" not in metrics.values
    assert metrics.values["sm_clock_mhz"] == 2100


@pytest.mark.parametrize(("revision", "size"), [(1, 96), (2, 104)])
def test_older_ones_share_the_beginning(revision: int, size: int) -> None:
    content = struct.pack("<HBB", size, 1, revision) + v1_3()[4:size]
    assert parse_metrics(content).values["throttle_reasons"] == 0xDEAD
    assert parse_metrics(content).values["power_w"] == 412


def test_all_bits_set_is_nothing_filled_in() -> None:
    metrics = parse_metrics(v1_3(hotspot=0xFFFF, power=0xFFFF, gfx=0xFFFF))
    assert {"temperature_c", "power_w", "util_share"}.isdisjoint(metrics.values)


def test_a_busy_share_in_another_unit_is_not_believed() -> None:
    assert "util_share" not in parse_metrics(v1_3(gfx=8700)).values


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "too short"),
        (struct.pack("<HBB", 8, 1, 9) + bytes(8), "1.9 is of a layout not known"),
        (struct.pack("<HBB", 152, 2, 4) + bytes(200), "2.4 is of a layout not known"),
        (struct.pack("<HBB", 128, 1, 3) + bytes(200), "of 128 bytes is not as known"),
        (v1_3()[:100], "of 120 bytes is not as known"),
    ],
)
def test_what_is_not_known_is_not_guessed(content: bytes, words: str) -> None:
    metrics = parse_metrics(content)
    assert (metrics.values, metrics.energy_j) == ({}, None)
    assert words in metrics.trouble


@given(st.binary(max_size=400), st.sampled_from(range(9)))
def test_no_bytes_raise_or_give_what_no_column_holds(content: bytes, revision: int) -> None:
    for body in (content, struct.pack("<HBB", len(content) + 4, 1, revision) + content):
        for value in parse_metrics(body).values.values():
            assert isinstance(value, (int, float)) and 0 <= value < 2**63


def test_generations() -> None:
    speeds = (25, 50, 80, 160, 320, 640, 0, None)
    assert [pcie_generation(speed) for speed in speeds] == [1, 2, 3, 4, 5, 6, None, None]
