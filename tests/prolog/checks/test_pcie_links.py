"""The check of PCIe links: narrow, slow, limited by the slot, resting, unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.config import Config
from slurm_io.errors import ConfigError
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext
from slurm_io.spec import JobSpec
from tests.filesystems.node_trees import NodeTree

SPEEDS = {"8": "8.0 GT/s PCIe", "16": "16.0 GT/s PCIe", "2.5": "2.5 GT/s PCIe"}


def run(tree: NodeTree, *expected: str) -> list[CheckResult]:
    context = CheckContext(
        "node1", Config(), JobSpec(), 2.0, "user1", os.getuid(), os.getgid(),
        own={"expected": list(expected)}, proc_root=str(tree.proc), sys_root=str(tree.sys),
    )  # fmt: skip
    return CHECKS.get("pcie_links").run(context)


def device(
    tree: NodeTree, driver: str, number: int, width: str, width_max: str, speed: str = "16"
) -> None:
    tree.pci(
        driver, f"0000:0{number}:00.0", nvme=f"nvme{number}" if driver == "nvme" else "",
        port=f"0000:00:0{number}.0",
        current_link_width=width, max_link_width=width_max,
        current_link_speed=SPEEDS[speed], max_link_speed=SPEEDS["16"],
    )  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    return NodeTree(tmp_path)


def test_all_as_good_as_they_can_be(tree: NodeTree) -> None:
    device(tree, "nvme", 1, "4", "4")
    device(tree, "nvidia", 2, "16", "16")
    (result,) = run(tree)
    assert (result.answer, result.facts) == ("OK", {"nvme": 1, "gpu": 1})


def test_a_narrow_and_a_slow_drive(tree: NodeTree) -> None:
    device(tree, "nvme", 1, "2", "4")
    device(tree, "nvme", 2, "4", "4", speed="2.5")
    device(tree, "nvme", 3, "4", "4")
    narrow, slow = run(tree)
    assert (narrow.subject, narrow.answer) == ("nvme1", "DEGRADED")
    assert "runs x2, could x4" in narrow.text and narrow.commands == ("lspci -vv -s 0000:01:00.0",)
    assert slow.subject == "nvme2" and "runs at 2.5 GT/s, could at 16" in slow.text


def test_a_resting_gpu_is_slow_and_no_fault_but_a_narrow_one_is(tree: NodeTree) -> None:
    device(tree, "nvidia", 1, "16", "16", speed="2.5")
    assert [result.answer for result in run(tree)] == ["OK"]
    device(tree, "nvidia", 2, "8", "16", speed="2.5")
    (result,) = run(tree)
    assert result.subject == "0000:02:00.0" and result.answer == "DEGRADED"


def test_a_card_in_a_narrow_slot_is_as_wide_as_it_can_be(tree: NodeTree) -> None:
    tree.port("0000:00:01.0", max_link_width="8", max_link_speed="8.0 GT/s PCIe")
    device(tree, "nvidia", 1, "8", "16")
    assert [result.answer for result in run(tree)] == ["OK"]


def test_a_dead_link(tree: NodeTree) -> None:
    device(tree, "nvme", 1, "0", "4")
    (result,) = run(tree)
    assert result.answer == "DEGRADED" and "is down" in result.text


def test_what_the_admin_expects_wins(tree: NodeTree) -> None:
    device(tree, "nvme", 1, "2", "4", speed="8")
    assert [result.answer for result in run(tree, "nvme width=2 speed=8")] == ["OK"]
    assert [result.answer for result in run(tree, "0000:01:00.0 width=2 speed=8")] == ["OK"]
    (result,) = run(tree, "nvme width=2")
    assert "GT/s" in result.text and "runs x" not in result.text


def test_unreadable_links_are_unknown_and_some_are_left_out(tree: NodeTree) -> None:
    tree.pci("nvme", "0000:05:00.0", nvme="nvme5")
    assert [result.answer for result in run(tree)] == ["UNKNOWN"]
    device(tree, "nvme", 1, "4", "4")
    (result,) = run(tree)
    assert result.answer == "OK" and "nvme5" in result.not_looked_at[0]


def test_no_such_devices_is_nothing(tree: NodeTree) -> None:
    assert run(tree) == []


@pytest.mark.parametrize("line", ["", "sda width=4", "nvme width=3", "nvme speed=9", "gpu lanes=4"])
def test_a_bad_setting_names_itself(tree: NodeTree, line: str) -> None:
    with pytest.raises(ConfigError, match=r"check\.pcie_links\.expected"):
        run(tree, line)
