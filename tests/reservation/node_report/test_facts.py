"""Facts, strays and checks of a node, from recorded trees and from this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.reservation.node_report.facts import free_bytes, gpu_names, software
from slurm_io.reservation.node_report.health import parse_checks
from slurm_io.reservation.node_report.strays import strays_beside

NVIDIA = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build
GCC version:  gcc version 12.3.0
"""


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_software_of_a_gpu_node(tmp_path: Path) -> None:
    put(tmp_path, "proc/driver/nvidia/version", NVIDIA)
    put(tmp_path, "etc/os-release", 'PRETTY_NAME="Ubuntu 22.04"\nBUILD_ID="41"\n')
    for number in range(4):
        put(tmp_path, f"sys/class/infiniband/mlx5_{number}/fw_ver", "28.39.1002\n")
    put(tmp_path, "sys/class/infiniband/mlx5_bond_0/fw_ver", "26.1\n")
    found = software("", str(tmp_path))
    assert found["driver"] == "nvidia 570.86.10"
    assert found["nic_firmware"] == "1x26.1, 4x28.39.1002"
    assert found["image"] == "41 Ubuntu 22.04"
    assert found["kernel"] == os.uname().release


def test_other_drivers_and_none(tmp_path: Path) -> None:
    found = software("", str(tmp_path))
    assert (found["driver"], found["nic_firmware"], found["image"]) == (None, None, None)
    put(tmp_path, "sys/module/amdgpu/version", "6.10.5\n")
    assert software("", str(tmp_path))["driver"] == "amdgpu 6.10.5"
    proprietary = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug\n"
    put(tmp_path, "proc/driver/nvidia/version", proprietary)
    assert software("", str(tmp_path))["driver"] == "nvidia 535.104.05"


def test_a_site_s_own_file_names_the_image(tmp_path: Path) -> None:
    put(tmp_path, "image", "gpu-image 41\nbuilt somewhere\n")
    assert software(str(tmp_path / "image"))["image"] == "gpu-image 41"
    assert software(str(tmp_path / "none"))["image"] is None


def test_gpus_of_both_vendors_and_those_without_a_name(tmp_path: Path) -> None:
    folder = "proc/driver/nvidia/gpus/0000:1{}:00.0/information"
    put(tmp_path, folder.format(0), "GPU UUID: GPU-aaaa\nDevice Minor: 0\n")
    put(tmp_path, folder.format(1), "GPU UUID: GPU-????????\nDevice Minor: 1\n")
    assert gpu_names(str(tmp_path)) == ["GPU-aaaa"]


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    most = found.f_blocks * found.f_frsize
    assert 0 < free_bytes(str(tmp_path / "a" / "b")) <= most


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of others are made up by chown")
def test_strays_are_processes_of_users_without_a_job(tmp_path: Path) -> None:
    put(tmp_path, "etc/login.defs", "# comment\nUID_MIN 2000\n")
    owners = {1: 0, 10: 1001, 20: 2001, 21: 2001, 30: 2002, 31: 2002, 40: 65534}
    for pid, uid in owners.items():
        put(tmp_path, f"proc/{pid}/comm", "evil\x1b[31m\n" if pid == 21 else "python\n")
        os.chown(tmp_path / "proc" / str(pid), uid, uid)
    put(tmp_path, "proc/self/comm", "x")
    found = strays_beside([30], str(tmp_path))  # user 2002 has a job, 1001 is of the system
    assert found == ["2001 20 python", "2001 21 evil?[31m"]


def test_strays_are_counted_out_at_twenty(tmp_path: Path) -> None:
    put(tmp_path, "etc/login.defs", "UID_MIN 0\n")
    for pid in range(1, 41):
        put(tmp_path, f"proc/{pid}/comm", "python\n")
    assert len(strays_beside([], str(tmp_path))) == 20


def entry(check: str, answer: str, kind: str = "node", **values: object) -> dict[str, object]:
    usual = {"text": f"{check} says", "not_looked_at": [], "record_only": False}
    return {"check": check, "answer": answer, "kind": kind, **usual, **values}


def checked(*entries: dict[str, object], not_run: tuple[dict[str, str], ...] = ()) -> str:
    return json.dumps({"checks": list(entries), "not_run": list(not_run)})


def test_the_worst_answer_of_each_check_counts() -> None:
    found = parse_checks(checked(entry("mounts", "OK"), entry("mounts", "FAIL", text="/x hangs")))
    assert found.health == {"mounts": ("FAIL", "/x hangs")}


def test_what_is_only_recorded_is_fine() -> None:
    found = parse_checks(checked(entry("kernel_log", "FAIL", record_only=True)))
    assert found.health["kernel_log"][0] == "OK"


def test_a_bad_dataset_is_no_fault_of_the_node() -> None:
    found = parse_checks(checked(entry("dataset", "FAIL", "job", text="3 files missing")))
    assert found.health == {}
    assert found.data_problem == "3 files missing"
    absent = parse_checks(checked(entry("dataset", "FAIL", "node", text="its mount is absent")))
    assert absent.health["dataset"][0] == "FAIL"
    assert absent.data_problem is None


def test_skipped_checks_are_named_and_those_with_nothing_to_do_are_not() -> None:
    not_run = (
        {"check": "pcie_links", "reason": "nothing to check"},
        {"check": "mounts", "reason": "left behind by an earlier check"},
    )
    found = parse_checks(
        checked(entry("arrays", "UNKNOWN", not_looked_at=["md0"]), not_run=not_run)
    )
    assert found.skipped == ("arrays: md0", "mounts: left behind by an earlier check")


@pytest.mark.parametrize("text", ["", "null", "{}", '{"checks": 1}', '{"checks": [1]}', "[" * 9999])
def test_what_is_no_answer_of_the_checks_is_an_error(text: str) -> None:
    with pytest.raises(HostError, match="unreadable answer"):
        parse_checks(text)
