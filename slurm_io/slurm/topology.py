"""Which switch or block a node is on, as ``scontrol show topology`` tells it.

::

    SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-16]
    SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-64] Switches=leaf[1-4]
    BlockName=b1 BlockIndex=0 Nodes=n[1-18]

Without a topology plugin Slurm says so, or prints nothing.
"""

from __future__ import annotations

import re

from slurm_io.errors import SlurmError
from slurm_io.records import dataclass
from slurm_io.slurm.hostlist import expand
from slurm_io.slurm.tools import Limits, run_tool

_PAIR = re.compile(r"(\w+)=(\S*)")
_MOST_LINES = 65536


@dataclass(frozen=True)
class Topology:
    """`leaf_of`: node -> its lowest switch or its block."""

    leaf_of: dict[str, str]


def topology_from_text(text: str) -> Topology | None:
    """None where Slurm has no topology. Raises SlurmError for a list of nodes that is none."""
    leaves: dict[str, str] = {}
    for line in text.splitlines()[:_MOST_LINES]:
        pairs = dict(_PAIR.findall(line))
        is_leaf = "BlockName" in pairs or pairs.get("Level", "0") == "0"
        name = pairs.get("BlockName") or pairs.get("SwitchName") or ""
        nodes = pairs.get("Nodes", "")
        if is_leaf and name and nodes and nodes != "(null)":
            for node in expand(nodes):
                leaves.setdefault(node, name)
    return Topology(leaves) if leaves else None


def read_topology(limits: Limits | None = None) -> Topology | None:
    """Ask Slurm. Raises SlurmError when it gives no answer."""
    finished = run_tool("scontrol", ("show", "topology"), limits or Limits())
    found = topology_from_text(finished.stdout)
    if found is None and finished.return_code != 0 and "opology" not in finished.stderr:
        said = finished.stderr.strip().splitlines()[-1:] or [f"exit code {finished.return_code}"]
        raise SlurmError(f"scontrol show topology: {said[0][:200]}")
    return found
