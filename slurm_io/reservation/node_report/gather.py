"""Gathers what this node says of itself, every part within its time; what fails is said so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import HostError
from slurm_io.host.probe import Probe
from slurm_io.reservation.node_report import data, facts, strays
from slurm_io.reservation.node_report.health import Checked, run_checks
from slurm_io.slurm.tools import Limits, ask
from slurm_io.staging.datasets import state_folder

_FACTS_S = 5.0
_SLURM_S = 5.0
_END_S = 1.0
"""What is kept of the time for putting everything together."""


@dataclass(frozen=True)
class Asked:
    """What is wanted to know. `dataset` "" = none. `limit_s`: the whole report's time."""

    node: str
    dataset: str = ""
    tier: str = "local"
    config_path: str | None = None
    limit_s: float = 25.0


def gather(config: Config, asked: Asked) -> dict[str, Any]:
    """The fields of :class:`~slurm_io.reservation.model.NodeSays`, as JSON holds them.

    Raises nothing for what could not be read: `unread` says why.
    """
    began_s = time.monotonic()
    unread: dict[str, str] = {}
    probes = _start_probes(config, asked, unread)
    found: dict[str, Any] = {"node": asked.node, "health": {}, "skipped": [], "data": None}
    left_s = max(1.0, asked.limit_s - _END_S - (time.monotonic() - began_s))
    checked = _checked(config, asked, left_s, unread)
    for name, probe in probes.items():
        found[name] = _answer(name, probe, unread)
    if checked is not None:
        found["health"], found["skipped"] = checked.health, list(checked.skipped)
        if found["data"] is not None and found["data"]["problem"] is None:
            found["data"]["problem"] = checked.data_problem
    found["drift"] = {**(found.get("drift") or {}), "slurm": found.pop("slurm")}
    return {**found, "unread": unread}


def _start_probes(config: Config, asked: Asked, unread: dict[str, str]) -> dict[str, Probe]:
    """They run side by side with the checks."""
    calls: dict[str, tuple[Callable[..., Any], tuple[Any, ...], float]] = {
        "drift": (facts.software, (config.spares.image_file,), _FACTS_S),
        "gpus": (facts.gpu_names, (), _FACTS_S),
        "slurm": (_slurm_version, (_SLURM_S,), _SLURM_S + _END_S),
        "strays": (strays.find_strays, (asked.node, _SLURM_S), _SLURM_S + _END_S),
    }
    if asked.dataset:
        state_dir = state_folder(config, asked.node)
        budget_s = max(1.0, asked.limit_s - 2 * _END_S)
        wanted = (config, asked.node, asked.dataset, asked.tier)
        calls["data"] = (data.read_data, (*wanted, state_dir, budget_s - _END_S), budget_s)
        folder = data.folder_of(*wanted)
        if folder is not None:
            calls["free_bytes"] = (facts.free_bytes, (folder,), _FACTS_S)
    started = {}
    for name, (function, arguments, timeout_s) in calls.items():
        try:
            started[name] = Probe([(function, arguments)], timeout_s)
        except OSError as error:
            unread[name] = f"no process for it: {error.strerror}"
    return started


def _answer(name: str, probe: Probe, unread: dict[str, str]) -> Any:
    while not probe.finished:
        probe.wait(max(0.0, probe.deadline_s - time.monotonic()))
        probe.poll()
    answer = probe.answers[0]
    if answer is not None and answer.state == "ok":
        return answer.value
    unread[name] = answer.reason if answer is not None else "no answer"
    return None


def _slurm_version(timeout_s: float) -> str:
    """``slurm 24.05.3``, and ``slurm-wlm 22.05.8`` from Debian."""
    return ask("scontrol", ("--version",), Limits(timeout_s)).stdout.strip().rpartition(" ")[2]


def _checked(
    config: Config, asked: Asked, limit_s: float, unread: dict[str, str]
) -> Checked | None:
    dataset = asked.dataset
    if dataset and not data.is_what_checks_see(config, asked.node, dataset, asked.tier):
        dataset = ""  # they would judge the other tier's copy
    try:
        return run_checks(asked.node, dataset, asked.config_path, limit_s)
    except HostError as error:
        unread["health"] = str(error)
        return None
