"""slurmctld's node table in memory, for decisions about drains; tests/cluster has the real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import SlurmError
from slurm_io.host.bounded_log import BoundedLog
from slurm_io.prolog.drain_site import Site
from slurm_io.prolog.node_memory import NodeMemory, recall
from slurm_io.slurm.node_state import NodeState

NOW_S = 1_764_475_273


@dataclass
class NodeTable:
    """What ``scontrol`` shows and changes, as Slurm 22.05 does it: a resume wipes the reason, and
    there is no resuming a node that is not drained."""

    states: dict[str, NodeState]
    updates: list[Mapping[str, str]] = field(default_factory=list)
    deaf: bool = False
    now_s: int = NOW_S

    @classmethod
    def of(cls, count: int) -> NodeTable:
        """Idle nodes t1 … tN."""
        return cls({f"t{k}": NodeState(f"t{k}", "IDLE") for k in range(1, count + 1)})

    def read(self) -> tuple[NodeState, ...]:
        self._answer()
        return tuple(self.states.values())

    def read_one(self, node: str) -> NodeState | None:
        self._answer()
        return self.states.get(node)

    def update(self, node: str, values: Mapping[str, str]) -> None:
        self._answer()
        self.updates.append(values)
        names = {"Comment": "comment", "Extra": "extra", "Reason": "reason"}
        changes: dict[str, Any] = {names[k]: v for k, v in values.items() if k in names}
        if values.get("State") == "DRAIN":
            changes |= {"state": "IDLE+DRAIN", "reason_at_s": self.now_s}
        if values.get("State") == "RESUME":
            if "DRAIN" not in self.states[node].flags:
                raise SlurmError("slurm_update error: Invalid node state specified")
            changes |= {"state": "IDLE", "reason": "", "reason_at_s": None}
        self.states[node] = replace(self.states[node], **changes)

    def drained(self) -> set[str]:
        """Names."""
        return {name for name, state in self.states.items() if "DRAIN" in state.flags}

    def _answer(self) -> None:
        if self.deaf:
            raise SlurmError("scontrol: no answer within 5 s")


@dataclass
class World:
    """One node's decision and what came of it."""

    site: Site
    table: NodeTable
    alerts: list[str]
    root: Path

    @classmethod
    def made(cls, root: Path, config: Config, table: NodeTable, node: str = "t1") -> World:
        alerts: list[str] = []
        log = BoundedLog(str(root / "log"), 1 << 20, "test")
        site = Site(config, node, table, log, lambda s: None, lambda: table.now_s, alerts.append)
        return cls(site, table, alerts, root)

    @property
    def own(self) -> NodeState:
        return self.table.states[self.site.node]

    def log(self) -> str:
        path = self.root / "log"
        return path.read_text() if path.exists() else ""

    def memory(self) -> NodeMemory:
        return recall(self.site.config, self.site.node)

    def set(self, node: str = "t1", **changes: Any) -> None:
        self.table.states[node] = replace(self.table.states[node], **changes)
