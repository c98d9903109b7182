"""The gpu collector with a real helper on a library that stands in for NVIDIA's, and on made-up
files of amdgpu."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors import gpu as module
from slurm_io.collectors.base import Availability, Member
from slurm_io.collectors.gpu import Gpu
from slurm_io.gpus import attendant, kernel_log
from slurm_io.gpus.nvml import library
from slurm_io.host.kernel_log import read_kernel_log
from slurm_io.sampler.collecting import CollectorRunner
from slurm_io.store.schema import TABLES
from tests.collectors.fake_host import SECOND_NS, context, tick, write_tree
from tests.gpus.amd.card_folder import make_card
from tests.gpus.device_files import device_file
from tests.labs.gpu.stand_in import StandIn, uuid

COLUMNS = TABLES["gpu"].column_names()


class Node:
    """A node with the stand-in, and the collector opened on it. Each tick comes when the answer to
    the last one is there."""

    def __init__(self, root: Path, given: str | None, members: tuple[Member, ...] = (), **how: Any):
        self.root = root
        self.lab = StandIn(root, **how) if how.get("gpus", 2) else None
        self.members = members
        self.context = replace(context(root), gpus=given, members=lambda: self.members)
        self.gpu = Gpu()
        self.second = 0.0

    def open(self) -> Availability:
        self.availability = self.gpu.open(self.context)
        return self.availability

    def tick(self, seconds: float = 1.0) -> list[dict[str, Any]]:
        self.second += seconds
        rows = self.gpu.collect(tick(self.second))
        return [dict(zip(COLUMNS, row, strict=True)) for row in rows]

    def rows(self, ticks: int = 400) -> list[dict[str, Any]]:
        """Those of the next answer that has some; made-up time stands still meanwhile."""
        for _ in range(ticks):
            found = self.tick(0.0)
            if found:
                return found
            time.sleep(0.01)
        raise AssertionError(f"no rows: {self.facts()}")

    def until(self, is_so: Callable[[], Any], seconds: float = 0.0) -> None:
        end_s = time.monotonic() + 20
        while not is_so():
            assert time.monotonic() < end_s, self.facts()
            self.tick(seconds)
            time.sleep(0.005)

    def facts(self) -> Any:
        return self.gpu.facts()

    def helper(self) -> int:
        """Pid of the helper at work."""
        assert self.gpu._attendant is not None and self.gpu._attendant._helper is not None
        return self.gpu._attendant._helper.pid


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Node]]:
    made: list[Node] = []
    monkeypatch.setattr(library, "PATHS", (str(tmp_path / "lib" / library.SONAME),))

    def make(given: str | None = "all", tell: dict[str, object] | None = None, **how: Any) -> Node:
        one = Node(tmp_path, given, **how)
        made.append(one)
        if one.lab is not None:
            one.lab.tell(tell or {})
        one.open()
        return one

    yield make
    for each in made:
        each.gpu.close()


class TestWhatIsHere:
    def test_no_driver_is_nothing_to_miss(self, node: Callable[..., Node]) -> None:
        one = node(gpus=0)
        assert one.availability == Availability(
            "absent", "no driver of NVIDIA or AMD GPUs is loaded"
        )
        assert one.tick() == []

    def test_intel_is_said(self, node: Callable[..., Node], tmp_path: Path) -> None:
        write_tree(tmp_path, {"sys/bus/pci/drivers/xe/0000:03:00.0/vendor": "0x8086\n"})
        assert "only Intel GPUs are here" in node(gpus=0).availability.reason

    def test_a_job_without_gpus_starts_no_helper(self, node: Callable[..., Node]) -> None:
        one = node(None)
        assert one.availability.state == "absent"
        assert "given no GPU, and none of its processes has one open" in one.availability.reason
        assert one.tick() == [] and one.gpu._attendant is None

    def test_a_job_that_hides_its_gpus_has_none(self, node: Callable[..., Node]) -> None:
        one = node("CUDA_VISIBLE_DEVICES=")
        assert one.availability == Availability(
            "absent", "the job has no GPU: CUDA_VISIBLE_DEVICES="
        )

    def test_words_that_are_none_switch_it_off_with_the_reason(self, tmp_path: Path) -> None:
        node = Node(tmp_path, "SLURM_JOB_GPUS=all of them")
        runner = CollectorRunner(Gpu())
        runner.open(node.context)
        assert runner.availability.state == "off"
        assert "neither a GPU's number nor its UUID" in runner.availability.reason

    def test_the_library_is_missing(self, node: Callable[..., Node], tmp_path: Path) -> None:
        one = node()
        assert one.lab is not None
        one.gpu.close()
        one.lab.library.unlink()
        one.open()
        one.until(lambda: "libnvidia-ml" in one.facts()["reason"])
        facts = one.facts()
        assert facts["state"] == "off"


class TestRows:
    def test_a_second_of_two_gpus(self, node: Callable[..., Node]) -> None:
        one = node()
        assert one.availability == Availability("on")
        first, second = one.rows()
        assert (first["gpu"], first["uuid"], first["util_share"]) == (0, uuid(0), 0.97)
        assert (second["gpu"], second["uuid"], second["power_w"]) == (1, uuid(1), 655.25)
        # Stamped by the helper's own clock, on the same offset as every other table.
        assert first["ts_ns"] - first["mono_ns"] == tick(0).ts_ns - tick(0).mono_ns
        assert abs(first["mono_ns"] - time.monotonic_ns()) < 20 * SECOND_NS
        assert 0 < first["interval_ns"] < 20 * SECOND_NS
        assert one.facts()["state"] == "on"

    def test_intervals_join_up(self, node: Callable[..., Node]) -> None:
        one = node(gpus=1)
        rows = [one.rows()[0] for _ in range(4)]
        for before, after in itertools.pairwise(rows):
            assert after["mono_ns"] - before["mono_ns"] == after["interval_ns"]

    def test_gpm_and_energy_come_through(self, node: Callable[..., Node]) -> None:
        one = node(gpus=1)
        one.rows()
        assert one.lab is not None
        one.lab.tell({"0.energy_mj": 1_000_500})
        time.sleep(0.12)
        rows = [one.rows()[0] for _ in range(3) if time.sleep(0.12) is None]
        assert 0.5 in [row["energy_j"] for row in rows]
        assert [row["sm_active_share"] for row in rows][-1] == 0.825

    def test_amd(self, node: Callable[..., Node], tmp_path: Path) -> None:
        make_card(tmp_path / "sys")
        one = node(gpus=0)
        (row,) = one.rows()
        assert (row["util_share"], row["power_w"]) == (0.87, 412.0)
        assert one.facts()["vendors"] == ["amd"]

    def test_both_on_one_node(self, node: Callable[..., Node], tmp_path: Path) -> None:
        make_card(tmp_path / "sys")
        one = node()
        assert [row["gpu"] for row in one.rows()] == [0, 1, 2]
        assert one.facts()["vendors"] == ["nvidia", "amd"]

    def test_a_job_on_such_a_node_with_gpus_of_one_vendor(
        self, node: Callable[..., Node], tmp_path: Path
    ) -> None:
        make_card(tmp_path / "sys")
        one = node("ROCR_VISIBLE_DEVICES=GPU-7d3a5c1e0f2b4a69")
        assert [row["uuid"] for row in one.rows()] == ["GPU-7d3a5c1e0f2b4a69"]
        assert one.facts()["state"] == "on" and one.facts()["vendors"] == ["amd"]


class TestFacts:
    def test_who_the_gpus_are_and_whose(self, node: Callable[..., Node]) -> None:
        one = node("SLURM_JOB_GPUS=1,2", gpus=4)
        assert [row["gpu"] for row in one.rows()] == [1, 2]
        facts = one.facts()
        assert [each["uuid"] for each in facts["gpus"]] == [uuid(1), uuid(2)]
        assert facts["whose"] == {"known": True, "from": "SLURM_JOB_GPUS=1,2", "doubt": ""}
        assert (facts["driver"], facts["nvml"]) == ("550.54.15", "12.550")

    def test_all_that_can_be_seen_are_not_known_whose(self, node: Callable[..., Node]) -> None:
        one = node("all")
        one.rows()
        whose = one.facts()["whose"]
        assert whose == {
            "known": False, "from": "all that can be seen here", "doubt": "not known whose",
        }  # fmt: skip

    def test_columns_without_values_have_reasons(self, node: Callable[..., Node]) -> None:
        one = node(tell={"0.gpm": 0, "1.gpm": 0})
        one.rows()
        assert "does not support it" in one.facts()["unknown"]["sm_active_share"]
        assert one.facts()["state"] == "on"

    def test_xids_are_counted(self, node: Callable[..., Node]) -> None:
        one = node()
        one.rows()
        assert one.lab is not None
        for _ in range(2):
            one.lab.report_xid(1, 31)
        one.until(lambda: one.facts()["xids"])
        (xid,) = one.facts()["xids"]
        assert (xid["uuid"], xid["xid"], xid["count"]) == (uuid(1), 31, 2)

    def test_which_rank_uses_which(self, node: Callable[..., Node], tmp_path: Path) -> None:
        ranks = tuple(Member(500 + rank, 1, 1, "python", rank, "rank") for rank in range(2))
        (tmp_path / "proc/self/ns").mkdir(parents=True)
        (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
        one = node(members=ranks, tell={"0.pids": "501", "1.pids": "500"})
        one.rows()
        assert one.facts()["ranks"] == {
            "0": {"gpus": [uuid(1)], "by": "compute process"},
            "1": {"gpus": [uuid(0)], "by": "compute process"},
        }
        one.members = ()  # the job is over: what was seen stays known
        one.rows()
        one.gpu.close()
        assert one.facts()["ranks"]["0"]["gpus"] == [uuid(1)]


class TestByOpenFiles:
    """A root sampler whose Prolog was told of no GPU believes what the kernel says."""

    def open_gpu(self, root: Path, pid: int, *gpus: int) -> Member:
        folder = root / "proc" / str(pid) / "fd"
        folder.mkdir(parents=True, exist_ok=True)
        for gpu in gpus:
            (folder / str(10 + gpu)).symlink_to(device_file(root, f"nvidia{gpu}"))
        return Member(pid, 1, 1, "python", 0, "rank")

    def test_gpus_that_its_processes_have_open(
        self, node: Callable[..., Node], tmp_path: Path
    ) -> None:
        one = node(None, gpus=4, members=(self.open_gpu(tmp_path, 700, 2),))
        assert one.availability == Availability("on")
        assert [row["gpu"] for row in one.rows()] == [2]
        assert one.facts()["whose"]["from"] == "device files that the job's processes have open"

    def test_more_that_are_opened_later_are_taken_in(
        self, node: Callable[..., Node], tmp_path: Path
    ) -> None:
        one = node(None, gpus=4, members=(self.open_gpu(tmp_path, 700, 2),))
        one.rows()
        self.open_gpu(tmp_path, 700, 3)
        one.tick(31)
        assert [row["gpu"] for row in one.rows()] == [2, 3]

    def test_what_a_v1_control_group_allows(
        self, node: Callable[..., Node], tmp_path: Path
    ) -> None:
        group = "sys/fs/cgroup/devices/slurm/uid_1/job_5"
        write_tree(tmp_path, {f"{group}/devices.list": "c 195:1 rwm\nc 195:255 rw\n"})
        one = node(None, gpus=4)
        one.context = replace(one.context, cgroup_paths=lambda: ("/slurm/uid_1/job_5",))
        assert one.open() == Availability("on")
        assert [row["gpu"] for row in one.rows()] == [1]
        assert "control group" in one.facts()["whose"]["from"]


class TestTrouble:
    def test_a_lost_gpu(self, node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        one = node(gpus=3)
        one.rows()
        assert one.lab is not None
        one.lab.tell({"1.error": 15})
        one.until(lambda: one.facts()["lost"])
        assert [row["gpu"] for row in one.rows()] == [0, 2]
        facts = one.facts()
        assert facts["lost"][0]["gpu"] == uuid(1)
        assert facts["state"] == "partial"
        assert facts["reason"].startswith("1 GPU(s) lost: the GPU is lost: it fell off the bus")

    def test_when_all_are_lost_the_driver_is_let_go(
        self, node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        one = node()
        one.rows()
        assert one.lab is not None
        one.lab.tell({"0.error": 15, "1.error": 16})
        one.until(lambda: one.gpu._attendant and one.gpu._attendant._helper is None)
        assert one.facts()["reason"] == "all GPUs of the job are lost"
        assert one.facts()["state"] == "partial" and len(one.facts()["lost"]) == 2

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            (18, "driver and libnvidia-ml.so.1 are of different versions"),
            (9, "the NVIDIA driver is not loaded"),
        ],
    )
    def test_a_driver_that_cannot_be_opened(
        self, node: Callable[..., Node], code: int, words: str
    ) -> None:
        one = node(tell={"error.nvmlInit_v2": code})
        one.until(lambda: one.facts()["reason"].startswith(words))
        assert one.facts()["state"] == "off"

    def test_a_driver_that_goes_away_and_comes_back(self, node: Callable[..., Node]) -> None:
        one = node(tell={})
        one.rows()
        assert one.lab is not None
        one.lab.tell({"error": 1})
        one.until(lambda: "NVML was closed" in one.facts()["reason"])
        assert one.facts()["state"] == "partial"
        one.until(lambda: one.gpu._attendant and one.gpu._attendant._helper is None)
        one.lab.tell({"error": None})
        one.tick(61)
        assert len(one.rows()) == 2
        assert one.facts()["state"] == "on" and one.facts()["helper_starts"] == 2

    def test_a_call_that_hangs_costs_its_gpu_and_no_tick(
        self, node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        one = node(gpus=3)
        one.rows()
        assert one.lab is not None
        first = one.helper()
        one.lab.tell({"1.hang.nvmlDeviceGetPowerUsage": 1})
        began_s = time.monotonic()
        for _ in range(12):
            one.tick(1.0)
            time.sleep(0.02)
        assert time.monotonic() - began_s < 5.0
        one.until(lambda: one.facts()["hangs"], seconds=1.0)
        (hang,) = one.facts()["hangs"]
        assert (hang["gpu"], hang["function"], hang["pid"]) == (1, "nvmlDeviceGetPowerUsage", first)
        one.tick(6)
        one.until(lambda: one.gpu._attendant and one.gpu._attendant.trouble == "", seconds=0.1)
        assert [row["gpu"] for row in one.rows()] == [0, 2]
        assert one.facts()["state"] == "partial"
        assert not one.facts()["hangs"][0]["left_behind"]

    def test_a_hang_while_opening_is_named_too(
        self, node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        one = node(tell={"hang.nvmlInit_v2": 1})
        one.tick()
        time.sleep(0.3)
        for _ in range(3):
            one.tick(21)
        (hang,) = one.facts()["hangs"]
        assert (hang["gpu"], hang["function"]) == (None, "nvmlInit_v2")
        assert one.facts()["state"] == "off"
        assert "no answer within 60 s from nvmlInit_v2" in one.facts()["reason"]

    def test_the_kernel_log_says_why_a_gpu_is_gone(
        self, node: Callable[..., Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "kmsg"
        monkeypatch.setattr(
            kernel_log, "read_kernel_log", lambda starts: read_kernel_log(str(log), starts)
        )
        monkeypatch.setattr(module.os, "geteuid", lambda: 0)
        one = node(gpus=2)
        one.rows()
        now_us = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6)
        log.write_text(f"3,2,{now_us},-;NVRM: Xid (PCI:0000:11:00): 79, GPU has fallen off\n")
        assert one.lab is not None
        one.lab.tell({"1.error": 15})
        one.until(lambda: one.facts()["kernel_log"])
        (found,) = one.facts()["kernel_log"]
        assert (found["bus"], found["xid"]) == ("0000:11:00", 79)

    def test_the_admin_ends_the_helper_to_unload_the_driver(
        self, node: Callable[..., Node]
    ) -> None:
        one = node()
        one.rows()
        assert Path(f"/proc/{one.helper()}/comm").read_text() == "slurm_io_gpu\n"
        os.kill(one.helper(), signal.SIGTERM)
        one.until(lambda: "somebody ended the GPU helper" in one.facts()["reason"])
        for _ in range(20):
            one.tick(1000)
        assert one.facts()["helper_starts"] == 1


class TestLifeOfTheHelper:
    def test_closing_ends_it(self, node: Callable[..., Node]) -> None:
        one = node()
        one.rows()
        pid = one.helper()
        one.gpu.close()
        assert not Path(f"/proc/{pid}").exists()
        assert one.tick() == []

    def test_its_cpu_time_counts_while_it_lives_and_not_twice_afterwards(
        self, node: Callable[..., Node]
    ) -> None:
        one = node(tell={"cpu_us": 300})
        runner = CollectorRunner(one.gpu)
        runner.availability = one.availability
        second = 0
        while runner.usage.helper_cpu_s < 0.05:
            second += 1
            assert second < 2000
            runner.rows(tick(second).ts_ns, tick(second).mono_ns, 0)
            time.sleep(0.005)
        alive = runner.usage.helper_cpu_s
        # Children that earlier tests left behind may have been waited for meanwhile.
        others = runner.usage.all_children_cpu_s - alive
        time.sleep(0.2)
        runner.close()
        assert runner.usage.helper_cpu_s == 0.0
        assert alive <= runner.usage.all_children_cpu_s - others < 3 * alive + 0.5


PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
from slurm_io.collectors.base import COLLECTORS
from tests.collectors.fake_host import context
one = COLLECTORS.get("gpu")()
print(one.open(replace(context(Path(sys.argv[1])), gpus="all")).state)
one.close()
print(*sys.modules)
"""


def test_without_a_driver_nothing_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    state, modules = done.stdout.splitlines()
    assert state == "absent"
    loaded = set(modules.split())
    assert not {
        name for name in loaded if name.startswith(("slurm_io.gpus", "slurm_io.host.helper"))
    }


def test_the_sampler_itself_never_loads_the_library(node: Callable[..., Node]) -> None:
    one = node()
    one.rows()
    assert one.lab is not None
    assert str(one.lab.library) not in Path("/proc/self/maps").read_text()
    assert str(one.lab.library) in Path(f"/proc/{one.helper()}/maps").read_text()


def test_limits_are_longer_than_a_driver_needs() -> None:
    assert attendant._OPENING_LIMIT_S >= 60 and attendant._ANSWER_LIMIT_S >= 10
