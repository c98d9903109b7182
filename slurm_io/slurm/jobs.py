"""Which job somebody means by ``123``, ``123_4`` (array task) or ``123+1`` (het component).

squeue is asked with a format of our own: every field in it is Slurm's or the administrator's, none
holds text of the user's, so that no job name can pass for an owner or a state. Its answer::

    %i  |%A|%T     |%U|%r       |%N    |%P  |%a    |%b
    12  |12|RUNNING|5 |None     |t[1-2]|main|(null)|gres:gpu:4
    1_3 |1 |RUNNING|5 |None     |t1    |main|(null)|N/A        last task of array 1: its own id is 1
    3+1 |4 |RUNNING|5 |None     |t3    |main|(null)|N/A        component 1 of het job 3
    1_[4-9%2]|1|PENDING|5|JobArrayTaskLimit||main|(null)|N/A   tasks that have not started
"""

from __future__ import annotations

import os
import re
import shutil

from slurm_io.errors import SlurmError, SlurmIoError, UsageError
from slurm_io.host.run import TOOL_FOLDERS, Finished
from slurm_io.model import LOCAL_CLUSTER
from slurm_io.records import dataclass
from slurm_io.slurm.hostlist import expand
from slurm_io.slurm.listpids import SLURM_FOLDERS
from slurm_io.slurm.tools import Limits, run_tool, tool_path

TIMEOUT_S = 20.0
_FORMAT = "%i|%A|%T|%U|%r|%N|%P|%a|%b"
_GIVEN = re.compile(r"([0-9]{1,10})(?:[_+][0-9]{1,10})?", re.ASCII)
_ONE_TASK = re.compile(r"([0-9]+)_([0-9]+)", re.ASCII)
_COMPONENT = re.compile(r"([0-9]+)\+([0-9]+)", re.ASCII)
_GPUS = re.compile(r"\bgpu(?::[A-Za-z0-9_.-]+)?[:=]([0-9]{1,4})\b", re.ASCII)
_CLUSTER = re.compile(r"^ClusterName\s*=\s*(\S+)$", re.MULTILINE)
_EMPTY = frozenset({"", "(null)", "N/A", "None"})
_MOST_SHOWN = 8
_LONGEST_NAME = 256
_LONGEST_PATH = 4096


@dataclass(frozen=True)
class Job:
    """One job as squeue shows it. `name` is the form people write, `job_id` Slurm's own number."""

    name: str
    job_id: str
    state: str
    uid: int
    reason: str = ""
    nodes: tuple[str, ...] = ()
    partition: str | None = None
    account: str | None = None
    gpus_per_node: int | None = None

    @property
    def array(self) -> tuple[str, int] | None:
        """(array job, task) of an array's task."""
        found = _ONE_TASK.fullmatch(self.name)
        return (found[1], int(found[2])) if found else None

    @property
    def het(self) -> tuple[str, int] | None:
        """(leading job, component) of a part of a heterogeneous job."""
        found = _COMPONENT.fullmatch(self.name)
        return (found[1], int(found[2])) if found else None


def find_job(given: str) -> Job:
    """The job that `given` names.

    Raises:
        UsageError: no form of a job id, or one that several tasks or components share.
        SlurmError: Slurm does not know such a job, or cannot be asked.
    """
    form = _GIVEN.fullmatch(given)
    if form is None:
        raise UsageError(
            f"{given[:40]!a} is no job id: give 123, 123_4 (array task) or 123+1 (het component)"
        )
    answer = ask("squeue", "-h", "-t", "all", "-j", form[1], "-o", _FORMAT)
    return choose(given, parse_jobs(answer.stdout), answer.stderr)


def choose(given: str, jobs: tuple[Job, ...], complaint: str = "") -> Job:
    """The one of `jobs` meant by `given`; raises as :func:`find_job`."""
    same_name = [job for job in jobs if job.name == given]
    if same_name:
        return same_name[0]
    if len(jobs) == 1 and jobs[0].job_id == given:
        return jobs[0]
    if given.isdigit() and jobs:
        kind = "array tasks" if "_" in jobs[0].name else "components"
        names = [job.name for job in jobs if job.state == "RUNNING"] or [jobs[0].name]
        shown = ", ".join(sorted(names)[:_MOST_SHOWN])
        more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
        raise UsageError(f"job {given} has several {kind}: name one ({shown}{more})")
    said = complaint.strip().splitlines()
    if said and "Invalid job id" not in complaint:
        raise SlurmError(f"squeue: {said[-1].removeprefix('squeue: ')[:200]}")
    raise SlurmError(
        f"Slurm knows no job {given}: it ended a while ago, is hidden from you, or the number is "
        "wrong (squeue shows your jobs)"
    )


def parse_jobs(text: str) -> tuple[Job, ...]:
    """The lines of squeue that can be read; others are left out."""
    return tuple(job for line in text.splitlines() if (job := _job(line)) is not None)


def state_now(job: Job) -> str | None:
    """The job's state by now; None when it cannot be learned."""
    try:
        return find_job(job.name).state
    except SlurmIoError:
        return None


def restart_count(job_id: str) -> int:
    """How often the job was requeued; 0 when that cannot be learned."""
    try:
        answer = ask("squeue", "-h", "-t", "all", "-j", job_id, "-O", "JobID:20,RestartCnt:20")
    except SlurmError:
        return 0
    words = [line.split() for line in answer.stdout.splitlines()]
    counts = [each[1] for each in words if len(each) == 2 and each[0] == job_id]
    return int(counts[0]) if counts and counts[0].isascii() and counts[0].isdigit() else 0


def users_words(job_id: str) -> tuple[str | None, str | None]:
    """(name, working directory) of a job: text of the user's, printable and of bounded length."""
    return _one_line(job_id, "%j", _LONGEST_NAME), _one_line(job_id, "%Z", _LONGEST_PATH)


def cluster_name() -> str:
    """The cluster's name; that of a machine without Slurm when it cannot be learned."""
    try:
        found = _CLUSTER.search(ask("scontrol", "show", "config").stdout)
    except SlurmError:
        return LOCAL_CLUSTER
    return found[1] if found and re.fullmatch(r"[A-Za-z0-9_][\w.-]{0,127}", found[1]) else "local"


def slurm_tool(name: str) -> str:
    """Absolute path of a Slurm command: the usual folders first, then PATH. Raises SlurmError."""
    return tool_path(name, _folders(name))


def ask(tool: str, *arguments: str) -> Finished:
    """Run a Slurm command that only reads. Raises SlurmError when it does not answer."""
    return run_tool(tool, arguments, Limits(TIMEOUT_S, folders=_folders(tool)))


def _folders(tool: str) -> tuple[str, ...]:
    """An ordinary user may have Slurm where only the own PATH leads to."""
    found = shutil.which(tool)
    return (
        *SLURM_FOLDERS,
        *TOOL_FOLDERS,
        *([os.path.dirname(os.path.abspath(found))] if found else ()),
    )


def _one_line(job_id: str, field: str, most_chars: int) -> str | None:
    """A free text is asked for alone, so that it cannot pass for another field."""
    try:
        lines = ask("squeue", "-h", "-t", "all", "-j", job_id, "-o", field).stdout.split("\n")
    except SlurmError:
        return None
    text = lines[0]
    return text if text and text.isprintable() and len(text) <= most_chars else None


def _job(line: str) -> Job | None:
    fields = line.split("|")
    if len(fields) != _FORMAT.count("|") + 1 or not (fields[1].isdigit() and fields[3].isdigit()):
        return None
    name, job_id, state, uid, reason, nodes, partition, account, gres = fields
    gpus = [int(number) for number in _GPUS.findall(gres)]
    try:
        names = expand(nodes)
    except SlurmError:
        return None
    return Job(
        name=name,
        job_id=job_id,
        state=state,
        uid=int(uid),
        reason="" if reason in _EMPTY else reason,
        nodes=names,
        partition=None if partition in _EMPTY else partition,
        account=None if account in _EMPTY else account,
        gpus_per_node=sum(gpus) if gpus else None,
    )
