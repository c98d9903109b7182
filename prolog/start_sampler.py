"""Start the sampler of one job on one node, detached from slurmd."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping

from slurm_io.config import Config
from slurm_io.host import detached
from slurm_io.host.malloc_settings import with_lean_malloc
from slurm_io.host.root_folders import read_file, write_file
from slurm_io.host.same_process import is_alive, starttime_of
from slurm_io.model import SamplerSpec
from slurm_io.slurm.environment import HookJob
from slurm_io.slurm.job_places import JobPlaces

LIGHT_WAITS_HZ = 2.0  # profile=light: a tenth of the default's looks, ±10 % after a minute
_UNIT_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]")


def sampler_spec(
    job: HookJob, places: JobPlaces, config: Config, profile: str | None = None
) -> SamplerSpec:
    """What this sampler is told: the job, its folders, the site's rates; fewer looks if light,
    stacks if full."""
    rates = config.sampler
    most_hz = LIGHT_WAITS_HZ if profile == "light" else rates.waits_hz
    return SamplerSpec(
        job=job.identity,
        node=job.node,
        mode="slurm",
        spool=places.spool,
        ring_dir=places.ring,
        sluid=job.sluid,
        gpus=job.gpus,
        interval_s=rates.interval_s,
        waits_hz=min(rates.waits_hz, most_hz),
        capacity_period_s=rates.capacity_period_s,
        budget_share=rates.budget_share,
        spool_max_bytes=rates.spool_max_bytes,
        stacks_share=rates.stacks_share if profile == "full" else 0.0,
        stacks_as_root=rates.stacks_as_root,
        idle_exit_s=rates.idle_exit_s,
        max_lifetime_s=rates.max_lifetime_s,
        collectors_off=rates.collectors_off,
    )


def start(folder: int, spec: SamplerSpec, config: Config, environment: Mapping[str, str]) -> str:
    """Write sampler.json into the open spool folder and start the sampler; how, for the log.

    A sampler already at work there is left alone (the prolog ran twice). Raises HostError, OSError.
    """
    if is_running(folder):
        return "sampler already runs"
    write_file(folder, "sampler.json", json.dumps(spec.to_dict()).encode(), 0o600)
    argv = [sys.executable, "-I", "-m", "slurm_io.sampler", spec.spool]
    clean = with_lean_malloc(detached.minimal_environment(environment))
    if config.prolog.systemd == "auto" and detached.has_systemd():
        unit = _unit_name(spec)
        if detached.spawn_unit(unit, argv, clean, spec.max_lifetime_s):
            write_file(folder, "started.json", json.dumps({"unit": unit}).encode(), 0o600)
            return f"sampler is unit {unit}"
    pid = detached.spawn(argv, clean, os.path.join(spec.spool, "sampler.log"))
    started = {"pid": pid, "starttime": starttime_of(pid)}
    write_file(folder, "started.json", json.dumps(started).encode(), 0o600)
    return f"sampler has pid {pid}"


def is_running(folder: int) -> bool:
    """Whether the process that sampler.pid names still runs."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        known = json.loads(read_file(folder, "sampler.pid") or b"null")
        return is_alive(int(known["pid"]), int(known["starttime"]))
    return False


def _unit_name(spec: SamplerSpec) -> str:
    name = f"slurm-io-{spec.job.cluster}-{spec.job.key()}-{spec.node}"
    return _UNIT_CHARACTERS.sub("_", name)
