"""The driver's list of GPUs below /proc."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.gpus.nvml.seen import parse_information, seen_by_driver
from tests.labs.gpu.stand_in import bus, uuid, write_proc


def test_gpus_stand_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    write_proc(tmp_path, {"0.minor": 3, "1.minor": 0}, 2)
    (tmp_path / "driver/nvidia/gpus/0001:01:00.0").mkdir()  # another domain, nothing in it
    (tmp_path / "driver/nvidia/gpus/README").mkdir()
    seen = seen_by_driver(tmp_path)
    assert [(each.gpu, each.uuid, each.minor, each.bus) for each in seen] == [
        (0, uuid(0), 3, bus(0)),
        (1, uuid(1), 0, bus(1)),
        (2, None, None, "0001:01:00.0"),
    ]
    assert seen[0].name == "NVIDIA H100 80GB HBM3"


def test_without_the_driver_there_are_none(tmp_path: Path) -> None:
    assert seen_by_driver(tmp_path) == []


def test_a_uuid_is_not_known_before_the_gpu_was_used() -> None:
    text = "GPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 1\n"
    assert parse_information(text, "0000:01:00.0", 0)[:3] == (0, None, 1)


@given(st.text(max_size=400))
def test_no_information_raises(text: str) -> None:
    assert parse_information(text, "0000:01:00.0", 4).gpu == 4
