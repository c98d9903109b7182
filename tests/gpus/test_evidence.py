"""What the kernel says of a job's GPUs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.gpus import evidence
from slurm_io.gpus.evidence import allowed_by, open_files, open_files_of_all, sees_all_pids
from slurm_io.gpus.model import Files
from tests.gpus.device_files import device_file


def make_process(proc: Path, pid: int, targets: list[str]) -> None:
    folder = proc / str(pid) / "fd"
    folder.mkdir(parents=True)
    for number, target in enumerate(targets):
        is_gpu = re.fullmatch(r"/dev/nvidia[0-9]+|/dev/dri/renderD[0-9]+", target)
        real = device_file(proc, target.rpartition("/")[2]) if is_gpu else target
        (folder / str(number)).symlink_to(real)


def test_open_device_files_are_those_of_gpus_only(tmp_path: Path) -> None:
    make_process(
        tmp_path,
        7,
        [
            "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/nvidia0", "pipe:[1]",
            "/dev/dri/renderD129", "/dev/dri/card1", "/data/dev/nvidia5", "/dev/nvidia3",
            "/dev/nvidia-caps/nvidia-cap12", "/dev/kfd",
        ],
    )  # fmt: skip
    assert open_files(tmp_path, 7) == Files(frozenset({0, 3}), frozenset({129}))


def test_only_the_first_descriptors_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_MOST_DESCRIPTORS", 2)
    make_process(tmp_path, 7, [f"/dev/nvidia{number}" for number in range(9)])
    assert len(open_files(tmp_path, 7).nvidia) == 2


def test_several_processes_together_and_some_that_are_gone(tmp_path: Path) -> None:
    make_process(tmp_path, 7, ["/dev/nvidia0"])
    make_process(tmp_path, 8, ["/dev/nvidia2"])
    found = open_files_of_all(tmp_path, [7, 8, 99])
    assert found.nvidia == {0, 2}


@pytest.mark.skipif(
    os.geteuid() != 0 or subprocess.call(["unshare", "-Urm", "true"]) != 0,
    reason="needs root, and user namespaces for a user",
)
def test_a_file_that_a_user_calls_as_a_gpu_is_none() -> None:
    script = "mount -t tmpfs x /dev && touch /dev/nvidia3 && exec 7</dev/nvidia3 && echo && cat"
    with subprocess.Popen(
        ["unshare", "-Urm", "sh", "-c", script],
        user=65534,
        group=65534,
        extra_groups=[],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        assert Path(f"/proc/{process.pid}/fd/7").readlink() == Path("/dev/nvidia3")
        assert open_files(Path("/proc"), process.pid) == Files()
        process.kill()


def test_a_real_process_without_a_gpu_has_none() -> None:
    assert open_files(Path("/proc"), os.getpid()) == Files()


@pytest.mark.parametrize(
    ("text", "minors"),
    [
        ("a *:* rwm\n", set()),
        ("c 1:3 rwm\nc 195:0 rw\nc 195:2 rwm\nc 195:255 rw\nc 195:254 rw\n", {0, 2}),
        ("c 195:* rwm\nc 195:1 rwm\n", set()),
        ("b 195:1 rwm\nc 196:1 rwm\n", set()),
        ("", set()),
    ],
)
def test_what_a_control_group_allows(text: str, minors: set[int]) -> None:
    assert allowed_by(text) == minors


@given(st.text(max_size=300))
def test_no_list_of_devices_raises(text: str) -> None:
    assert all(0 <= minor < 254 for minor in allowed_by(text))


@pytest.mark.parametrize(
    ("link", "is_so"), [("pid:[4026531836]", True), ("pid:[4026532999]", False), (None, False)]
)
def test_pids_count_only_in_the_first_namespace(
    tmp_path: Path, link: str | None, is_so: bool
) -> None:
    if link is not None:
        (tmp_path / "self" / "ns").mkdir(parents=True)
        (tmp_path / "self" / "ns" / "pid").symlink_to(link)
    assert sees_all_pids(tmp_path) is is_so
