"""slurmctld's configuration as ``scontrol show config`` prints it (JSON exists from 26.05 only).

``Name = value`` lines; times have their unit behind them (``9 sec``). SLURM_VERSION is the
controller's own version, which may be newer than the commands' on this machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_io.errors import SlurmError
from slurm_io.slurm.infos import ConfigFacts
from slurm_io.slurm.version import parse_version
from slurm_io.slurm.words import EMPTY, names_of

DEFAULT_CRED_EXPIRE_S = 120
_LINE = re.compile(r"([A-Za-z][A-Za-z0-9_\[\]]{1,63})\s*=\s?(.*)")
_SECONDS = re.compile(r"([0-9]{1,9})(?: (sec|min))?")
_CLUSTER = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}", re.ASCII)


def config_from_text(text: str) -> ConfigFacts:
    """The facts. Raises SlurmError when it has no version or no usable cluster name."""
    lines = [found for line in text.splitlines() if (found := _LINE.fullmatch(line.strip()))]
    values = {found[1]: found[2].strip() for found in reversed(lines)}  # the first counts
    cluster = values.get("ClusterName", "")
    if not _CLUSTER.fullmatch(cluster):
        raise SlurmError(f"scontrol show config: no ClusterName in {text[:60]!a}")
    scheduler = names_of(values.get("SchedulerParameters", ""))
    return ConfigFacts(
        cluster=cluster,
        version=parse_version(values.get("SLURM_VERSION", "")),
        cred_expire_s=_option(names_of(values.get("AuthInfo", "")), "cred_expire")
        or DEFAULT_CRED_EXPIRE_S,
        requeue_delay_s=_option(scheduler, "requeue_delay"),
        slurmd_timeout_s=_seconds(values.get("SlurmdTimeout", "")),
        kill_wait_s=_seconds(values.get("KillWait", "")),
        min_job_age_s=_seconds(values.get("MinJobAge", "")),
        return_to_service=_seconds(values.get("ReturnToService", "")),
        job_requeue={"0": False, "1": True}.get(values.get("JobRequeue", "")),
        scheduler_parameters=scheduler,
        prolog_flags=names_of(values.get("PrologFlags", "")),
        accounting=values.get("AccountingStorageType", "").endswith("slurmdbd"),
        has_prolog=_has_prolog(values),
        unkillable_step_s=_seconds(values.get("UnkillableStepTimeout", "")),
        health_check_program=_given(values.get("HealthCheckProgram", "")),
    )


def _seconds(text: str) -> int | None:
    found = _SECONDS.fullmatch(text)
    if text in EMPTY or found is None:
        return None
    return int(found[1]) * (60 if found[2] == "min" else 1)


def _given(text: str) -> str | None:
    return None if text in EMPTY else text


def _has_prolog(values: Mapping[str, str]) -> bool | None:
    """``Prolog`` is one path, or ``Prolog[0]`` and so on from 23.02."""
    told = [text for name, text in values.items() if re.fullmatch(r"Prolog(\[[0-9]+\])?", name)]
    return any(_given(text) for text in told) if told else None


def _option(words: tuple[str, ...], name: str) -> int | None:
    for each in words:
        key, _, value = each.partition("=")
        if key.strip().lower() == name and re.fullmatch(r"[0-9]{1,9}", value, re.ASCII):
            return int(value)
    return None
