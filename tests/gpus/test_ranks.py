"""Which rank uses which GPU, and when that is not provable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Member
from slurm_io.gpus.ranks import gpus_of_ranks
from tests.gpus.device_files import device_file

GPUS = [
    {"uuid": f"GPU-{number}", "minor": number, "vendor": "nvidia", "gpu": number}
    for number in range(4)
]


def member(pid: int, rank: int | None, role: Any = "rank") -> Member:
    return Member(pid, 1, 1, "python", rank, role)


def proc(root: Path, files: dict[int, list[str]], namespace: str = "pid:[4026531836]") -> Path:
    (root / "self" / "ns").mkdir(parents=True)
    (root / "self" / "ns" / "pid").symlink_to(namespace)
    for pid, targets in files.items():
        (root / str(pid) / "fd").mkdir(parents=True)
        for number, target in enumerate(targets):
            name = target.rpartition("/")[2]
            real = device_file(root, name) if name[-1].isdigit() else target
            (root / str(pid) / "fd" / str(number)).symlink_to(real)
    return root


def test_the_drivers_list_of_processes_proves_it(tmp_path: Path) -> None:
    found = gpus_of_ranks(
        [member(10, 0), member(11, 1), member(12, 1, "worker"), member(13, None)],
        {"GPU-0": [11, 999], "GPU-1": [10], "GPU-2": [12, 13]},
        GPUS,
        proc(tmp_path, {}),
    )
    assert found == {
        "0": {"gpus": ["GPU-1"], "by": "compute process"},
        "1": {"gpus": ["GPU-0"], "by": "compute process"},
    }


def test_in_a_pid_namespace_the_drivers_pids_are_strangers(tmp_path: Path) -> None:
    root = proc(tmp_path, {10: ["/dev/nvidia2"]}, "pid:[4026532777]")
    assert gpus_of_ranks([member(10, 0)], {"GPU-1": [10]}, GPUS, root) == {
        "0": {"gpus": ["GPU-2"], "by": "open device file"}
    }


def test_one_open_device_file_is_taken_and_several_prove_nothing(tmp_path: Path) -> None:
    root = proc(
        tmp_path, {10: ["/dev/nvidia3", "/dev/nvidiactl"], 11: ["/dev/nvidia0", "/dev/nvidia1"]}
    )
    assert gpus_of_ranks([member(10, 0), member(11, 1)], {}, GPUS, root) == {
        "0": {"gpus": ["GPU-3"], "by": "open device file"}
    }
