"""``scontrol show topology``: switches, blocks, and none."""

from __future__ import annotations

import pytest

from slurm_io.errors import SlurmError
from slurm_io.slurm.topology import topology_from_text

TREE = """\
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]
"""
BLOCKS = """\
BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2
BlockName=b2 BlockIndex=1 Nodes=n[3-4] BlockSize=2
AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-4] BlockSize=4
"""


def test_the_lowest_switch_counts() -> None:
    found = topology_from_text(TREE)
    assert found is not None
    assert found.leaf_of == {"n1": "leaf1", "n2": "leaf1", "n3": "leaf2", "n4": "leaf2"}


def test_blocks() -> None:
    found = topology_from_text(BLOCKS)
    assert found is not None
    assert found.leaf_of == {"n1": "b1", "n2": "b1", "n3": "b2", "n4": "b2"}


@pytest.mark.parametrize("text", ["", "No topology information available\n", "Nodes=(null)\n"])
def test_no_topology_is_none(text: str) -> None:
    assert topology_from_text(text) is None


def test_a_list_that_is_none_is_an_error() -> None:
    with pytest.raises(SlurmError):
        topology_from_text("SwitchName=s Level=0 Nodes=n[1-\n")
