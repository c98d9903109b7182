"""One group of nodes asked by one srun."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from slurm_io.errors import HostError, SlurmError
from slurm_io.host.run import run
from slurm_io.records import dataclass
from slurm_io.reservation.model import Answer
from slurm_io.reservation.reach.frames import Gathered
from slurm_io.reservation.reach.limits import ReachLimits
from slurm_io.reservation.reach.srun import Srun, environment
from slurm_io.reservation.reach.ways import Group
from slurm_io.slurm.hostlist import compress
from slurm_io.slurm.tools import tool_path

NODE_PART = "slurm_io.reservation.reach.node_part"
JOB_NAME = "slurm_io-ask"
_MEMORY = "512M"
_SCANCEL_S = 10.0
_KEPT_LINES = 50
_KEPT_CHARS = 1000
_WAITS, _GIVEN = "queued and waiting for resources", "has been allocated resources"
# What srun says -> what to do about it.
_ADVICE = {
    "Invalid user id": "Slurm refuses root's jobs (DisableRootJobs=YES): ask as SlurmUser, or set "
    '[spares] reach = "direct"',
    "Access denied to requested reservation": "add root (or SlurmUser) to the reservation's "
    'Users, or set [spares] reach = "direct"',
    "Access/permission denied": "its owner alone may start a step there: set [spares] reach = "
    '"direct" to reach it as root',
    "Requested nodes are busy": "Slurm gave no cores there in time",
    "queued and waiting for resources": "Slurm gave no cores there in time",
}


@dataclass(frozen=True)
class Question:
    """What is asked, and until when (monotonic)."""

    arguments: tuple[str, ...]
    stdin: bytes
    ends_s: float

    def left_s(self) -> float:
        """Seconds until its end."""
        return max(0.0, self.ends_s - time.monotonic())


@dataclass(frozen=True)
class GroupAnswers:
    """`silent`: nodes of which nothing came, and why. `given`: Slurm gave the nodes at all."""

    answers: dict[str, Answer]
    silent: dict[str, str]
    given: bool


def ask_group(
    group: Group, question: Question, limits: ReachLimits, stop: threading.Event
) -> GroupAnswers:
    """Every node of the group is in one of both. Raises nothing that a node or Slurm does."""
    gathered = Gathered(group.nodes, limits.frame_chars)
    said: list[str] = []
    name = f"{JOB_NAME}-{secrets.token_hex(6)}"

    def listen(line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        gathered.take_stderr(text)
        if len(said) < _KEPT_LINES:
            said.append(text[:_KEPT_CHARS])

    begins_by_s = time.monotonic() + min(limits.immediate_s + 5.0, question.left_s() / 3)

    def is_over() -> bool:
        """Slurm holds back the whole job while one of its nodes, dead for seconds, does not answer
        its prolog: then each is asked by itself."""
        now_s = time.monotonic()
        held_back = len(group.nodes) > 1 and now_s >= begins_by_s and not gathered.has_begun
        return stop.is_set() or held_back or now_s >= question.ends_s

    try:
        argv = command(group, question, limits, name)
        with Srun(argv, group.uid, limits.after_kill_s) as srun:
            ended = srun.talk(question.stdin, is_over, gathered.take_stdout, listen)
    except (HostError, SlurmError) as error:
        return GroupAnswers({}, dict.fromkeys(group.nodes, str(error)), False)
    if not ended and group.kind == "job":
        _cancel(name, limits)
    answers = _marked(gathered.answers(), group)
    why = why_silent(said) if ended or _waits(said) else "no answer in time"
    silent = {node: why for node in group.nodes if node not in answers}
    return GroupAnswers(answers, silent, gathered.has_begun)


def _marked(answers: dict[str, Answer], group: Group) -> dict[str, Answer]:
    """A step in somebody's job is his process: he could make it say anything."""
    if group.kind != "step" or group.uid in (0, os.geteuid()):
        return answers
    return {node: replace(answer, uid=group.uid) for node, answer in answers.items()}


def command(group: Group, question: Question, limits: ReachLimits, name: str) -> list[str]:
    """The srun of one group. Raises SlurmError when there is no srun."""
    left_s = question.left_s()
    # The node's part ends before srun is given up, so that it can say so.
    node_limit_s = max(0.5, left_s - min(3.0, left_s / 4))
    bounds = (limits.stdin_bytes, limits.stdout_bytes, limits.stderr_bytes)
    count = len(group.nodes)
    return [
        tool_path("srun", limits.folders),
        *_way_words(group, left_s, limits, name),
        f"--nodes={count}",
        f"--ntasks={count}",
        f"--nodelist={compress(group.nodes)}",
        "--label",
        "--verbose",
        "--chdir=/",
        "--mpi=none",
        "--wait=0",
        "--no-kill",
        "--kill-on-bad-exit=0",
        sys.executable,
        "-m",
        NODE_PART,
        ",".join([f"{node_limit_s:.1f}", *map(str, bounds)]),
        *question.arguments,
    ]


def _way_words(group: Group, left_s: float, limits: ReachLimits, name: str) -> Sequence[str]:
    if group.kind == "direct":
        return ["--no-allocate"]
    immediate = f"--immediate={max(1, min(limits.immediate_s, int(left_s / 2)))}"
    if group.kind == "job":
        # Not --immediate: Slurm refuses that at once while an earlier job of ours is ending there.
        words = [f"--job-name={name}", "--cpus-per-task=1", f"--mem={_MEMORY}"]
        words.append(f"--time={math.ceil(left_s / 60) + 1}")
        words += [f"--reservation={group.reservation}"] if group.reservation else []
        return words + ([f"--partition={group.partition}"] if group.partition else [])
    leader, component = group.het or (group.job_id, None)
    component_words = [] if component is None else [f"--het-group={component}"]
    words = ["--overlap", f"--jobid={leader}", *component_words, "--gres=none", immediate]
    return [*words, f"--job-name={JOB_NAME}"]


def _cancel(name: str, limits: ReachLimits) -> None:
    """A job whose srun was killed before Slurm gave it nodes would wait on."""
    with contextlib.suppress(HostError, SlurmError):
        run(
            [tool_path("scancel", limits.folders), f"--name={name}", f"--user={os.geteuid()}"],
            _SCANCEL_S,
            extra_environment=environment(),
        )


def why_silent(said: Sequence[str]) -> str:
    """Why nothing came, in srun's own words and with what to do."""
    lines = [line.removeprefix("srun: ") for line in said]
    errors = [line.removeprefix("error: ") for line in lines if "error:" in line] or lines[-1:]
    for line in errors:
        for words, advice in _ADVICE.items():
            if words in line:
                return f"{_plain(line)}: {advice}"
    return _plain(errors[0]) if errors else "srun said nothing"


def _waits(said: Sequence[str]) -> bool:
    return any(_WAITS in line for line in said) and not any(_GIVEN in line for line in said)


def _plain(line: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in line[:200])
