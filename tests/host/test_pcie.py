"""PCIe links from /sys: drivers' lists, ports that limit, words for unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.host.pcie import Link, parse_speed, parse_width, read_links
from tests.filesystems.node_trees import NodeTree


def test_a_drive_and_the_port_above_it(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.port("0000:00:01.0", max_link_width="4", max_link_speed="16.0 GT/s PCIe")
    tree.pci(
        "nvme",
        "0000:01:00.0",
        nvme="nvme0",
        current_link_width="4",
        max_link_width="8",
        current_link_speed="16.0 GT/s PCIe",
        max_link_speed="32.0 GT/s PCIe",
    )
    (link,) = read_links(str(tree.sys))
    assert link == Link("0000:01:00.0", "nvme", "nvme0", 4, 4, 16.0, 16.0)


def test_a_device_without_files_is_unknown_and_other_entries_are_no_devices(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.pci("nvidia", "0000:3b:00.0")
    (tree.sys / "bus/pci/drivers/nvidia/bind").write_text("")
    (link,) = read_links(str(tree.sys))
    assert link == Link("0000:3b:00.0", "gpu", "0000:3b:00.0", None, None, None, None)


def test_a_link_of_no_lanes_is_down(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.pci("nvme", "0000:01:00.0", current_link_width="0", max_link_width="4")
    (link,) = read_links(str(tree.sys))
    assert link.link_down and link.width is None


def test_no_pci_at_all(tmp_path: Path) -> None:
    assert read_links(str(tmp_path)) == ()


@pytest.mark.parametrize(
    ("text", "speed"),
    [("16.0 GT/s PCIe", 16.0), ("8 GT/s", 8.0), ("2.5 GT/s", 2.5), ("Unknown", None), (None, None)],
)
def test_speeds(text: str | None, speed: float | None) -> None:
    assert parse_speed(text) == speed


@pytest.mark.parametrize(
    ("text", "width"), [("4", 4), ("16", 16), ("0", None), ("255", None), ("x4", None), ("", None)]
)
def test_widths(text: str, width: int | None) -> None:
    assert parse_width(text) == width


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_any_text(text: str) -> None:
    width, speed = parse_width(text), parse_speed(text)
    assert width is None or 0 < width <= 32
    assert speed is None or speed >= 0
