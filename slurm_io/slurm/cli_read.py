"""Asks Slurm by its own commands: the reference backend, for every version from 22.05 on.

Nodes come as scontrol's JSON, in a schema that is asked for by name, or as text where it prints
none (22.05, or the plugins are not installed); jobs as squeue's JSON. Reservations, partitions and
the configuration come as text always: their JSON lacks what decides (see
:mod:`slurm_io.slurm.reservations`).
"""

from __future__ import annotations

import time
from typing import Any

from slurm_io.errors import SlurmError, SlurmNotFound, SlurmUnreachable
from slurm_io.host.run import Finished
from slurm_io.records import replace
from slurm_io.slurm import given
from slurm_io.slurm.config_facts import config_from_text
from slurm_io.slurm.infos import ConfigFacts, JobInfo, NodeInfo, PartitionInfo, ReservationInfo
from slurm_io.slurm.job_records import jobs_from_json
from slurm_io.slurm.nodes import nodes_from_json, nodes_from_text
from slurm_io.slurm.partitions import partitions_from_text
from slurm_io.slurm.reservations import reservations_from_text
from slurm_io.slurm.sinfo import NODE_COLUMNS, SinfoTable, parse_sinfo_nodes
from slurm_io.slurm.tools import Limits, ask, complaint, complaint_of, run_tool
from slurm_io.slurm.version import Version, meta_of, parse_json, parse_version, schema_for

_NO_JSON = ("unable to find plugin", "Unable to find plugin", "output not supported",
            "unrecognized option", "serializer")  # fmt: skip


class CliReader:
    """The reading half of :class:`slurm_io.slurm.base.Slurm`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._version: Version | None = None
        self._has_json: bool | None = None

    def version(self) -> Version:
        """Of the commands on this machine; the controller's is in :meth:`config`."""
        if self._version is None:
            self._version = parse_version(self._ask("scontrol", "--version"))
        return self._version

    def is_up(self) -> bool:
        """``scontrol ping``: whether one of the controllers is up."""
        try:
            answer = run_tool("scontrol", ("ping",), self._limits)
        except SlurmUnreachable:
            return False
        return any(line.rstrip().endswith("is UP") for line in answer.stdout.splitlines())

    def config(self) -> ConfigFacts:
        """``scontrol show config``."""
        return config_from_text(self._ask("scontrol", "show", "config"))

    def nodes(self) -> tuple[NodeInfo, ...]:
        """All nodes."""
        answer = self._json("show", "node")
        if answer is None:
            text = self._ask("scontrol", "-d", "-o", "show", "node")
            return self._with_reservations(nodes_from_text(text))
        return self._with_reservations(nodes_from_json(answer))

    def node(self, name: str) -> NodeInfo:
        """One node."""
        given.node_name(name)
        answer = self._json("show", "node", name)
        found = self._node_text(name) if answer is None else nodes_from_json(answer)
        for each in self._with_reservations(found):
            if each.name == name:
                return each
        raise SlurmNotFound(f"Slurm knows no node {name}: `sinfo -N` lists them")

    def _node_text(self, name: str) -> tuple[NodeInfo, ...]:
        try:
            return nodes_from_text(self._ask("scontrol", "-d", "-o", "show", "node", name))
        except SlurmNotFound:
            return ()

    def overview(self) -> SinfoTable:
        """``sinfo -N``: state, partitions and GPUs of every node in a small answer."""
        return parse_sinfo_nodes(self._ask("sinfo", "-h", "-a", "-N", "-O", NODE_COLUMNS))

    def partitions(self) -> tuple[PartitionInfo, ...]:
        """All partitions."""
        return partitions_from_text(self._ask("scontrol", "-o", "-a", "show", "partition"))

    def jobs(self) -> tuple[JobInfo, ...]:
        """All jobs."""
        return jobs_from_json(self._jobs())

    def job(self, job_id: str) -> JobInfo:
        """One job: its number, ``12_3`` or ``12+1``."""
        given.job_id(job_id)
        number = job_id.replace("+", "_").partition("_")[0]
        try:
            answer = self._jobs(number)
        except SlurmNotFound:
            answer = {"jobs": []}
        for each in jobs_from_json(answer):
            if each.is_called(job_id):
                return each
        raise SlurmNotFound(
            f"Slurm knows no job {job_id}: it ended a while ago, or the number is wrong"
        )

    def reservations(self) -> tuple[ReservationInfo, ...]:
        """All reservations."""
        return reservations_from_text(self._ask("scontrol", "-o", "show", "reservation"))

    def reservation(self, name: str) -> ReservationInfo:
        """One reservation."""
        given.reservation_name(name)
        for each in self.reservations():
            if each.name == name:
                return each
        raise SlurmNotFound(f"there is no reservation {name}: `scontrol show res` lists them")

    def _ask(self, tool: str, *arguments: str) -> str:
        text = ask(tool, arguments, self._limits).stdout
        if text and not text.endswith("\n"):  # IDLE of IDLE+DRAIN
            raise SlurmError(f"{tool} {' '.join(arguments)}: its answer ends in the middle")
        return text

    def _jobs(self, number: str | None = None) -> dict[str, Any]:
        """squeue, not scontrol: that one's JSON is an empty list with exit code 0 when the
        controller does not answer (24.11, 26.05). Before 24.05 squeue prints every job whatever
        is asked for."""
        schema = schema_for(self.version())
        words = ("-a", "-t", "all", *(("-j", number) if number else ()))
        finished = run_tool("squeue", (_json_option(schema), *words), self._limits)
        if _is_without_json(finished):
            raise SlurmError(
                "squeue prints no JSON here, and jobs are not read from text: install Slurm's "
                "serializer/json and data_parser plugins (Debian: slurm-wlm-basic-plugins)"
            )
        return _usable("squeue", words, finished)

    def _json(self, *arguments: str) -> dict[str, Any] | None:
        """scontrol's answer in JSON; None where it prints none."""
        schema = schema_for(self.version())
        if schema is None or self._has_json is False:
            return None
        finished = run_tool("scontrol", (*arguments, _json_option(schema)), self._limits)
        if _is_without_json(finished):
            self._has_json = False
            return None
        self._has_json = True
        return _usable("scontrol", arguments, finished)

    def _with_reservations(self, nodes: tuple[NodeInfo, ...]) -> tuple[NodeInfo, ...]:
        """22.05's nodes do not tell theirs, later ones only some seconds after it has changed."""
        now_s = time.time()
        held: dict[str, list[str]] = {}
        for each in self.reservations() if nodes else ():
            if each.state == "ACTIVE" or each.is_active(now_s):
                for node in each.nodes:
                    held.setdefault(node, []).append(each.name)
        return tuple(_in_reservation(node, held.get(node.name, [])) for node in nodes)


def _in_reservation(node: NodeInfo, names: list[str]) -> NodeInfo:
    if node.reservation in names:  # of several that overlap, the one that Slurm names
        return node
    return replace(node, reservation=names[0] if names else None)


def _json_option(schema: str | None) -> str:
    return f"--json={schema}" if schema else "--json"


def _is_without_json(finished: Finished) -> bool:
    """Without the plugin a command says so, and some end with exit code 0."""
    return not finished.stdout.strip() and any(each in finished.stderr for each in _NO_JSON)


def _usable(tool: str, arguments: tuple[str, ...], finished: Finished) -> dict[str, Any]:
    """The answer, when neither the exit code nor an error within it says otherwise: 22.05 prints
    an empty list and exit code 0 when the controller does not answer."""
    if finished.return_code != 0:
        raise complaint(tool, arguments, finished)
    answer = parse_json(finished.stdout)
    if errors := meta_of(answer).errors:
        raise complaint_of(tool, arguments, "\n".join([finished.stderr, *errors]))
    return answer
