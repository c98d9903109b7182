"""Slurm's name of this node.

Standard library only: the prolog loads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def node_name(environment: Mapping[str, str]) -> str:
    """As slurmd tells its children (several may share a host), else the host's short name."""
    return environment.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
