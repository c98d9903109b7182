"""Runs Slurm's commands: absolute path, no shell, clean environment, time limit, bounded answer.

The environment holds PATH, LC_ALL=C, SLURM_CONF where the caller has one, and
``SLURM_TIME_FORMAT=%s``: whatever the caller's own SLURM_* and SQUEUE_* variables say would change
what is printed. Every failure is one line that says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from slurm_io.errors import HostError, SlurmError, SlurmNotFound, SlurmRefused, SlurmUnreachable
from slurm_io.host.run import Finished, find_tool, run
from slurm_io.records import dataclass
from slurm_io.slurm.listpids import SLURM_FOLDERS

_LONGEST_SAID = 200
_UNREACHABLE = (
    "Unable to contact slurm controller", "Connection refused", "Connection timed out",
    "Socket timed out", "Zero Bytes were transmitted", "in standby mode", "Unspecified error",
    "Transport endpoint is not connected", "No route to host", "Connection reset",
)  # fmt: skip
_NOT_FOUND = (
    "Invalid node name specified", "Invalid job id specified", "Requested reservation is invalid",
    "not found", "Invalid partition name specified",
)  # fmt: skip
# What Slurm says -> what to do about it.
_ADVICE = {
    "Access/permission denied": "use an account with Operator rights (Administrator for nodes)",
    "Invalid user id": "use an account with Operator rights (Administrator for nodes)",
    "Requested nodes are busy": "jobs outside the reservation run there: wait for them or requeue "
    "them (IGNORE_JOBS is never set without being asked for)",
    "overlaps with another reservation": "take the node out of the other one first",
    "+=/-= notation is not supported": "this Slurm wants the full list of nodes",
    "Requested reservation is in use": "its jobs run: end them first, or let it expire",
    "lacks users, groups or accounts": "name the users or accounts that may use it",
    "Job has already finished": "a finished job can only be commented in the accounting",
    "Requested operation is presently disabled": "this job or this site does not allow it",
    "already completing or completed": "nothing of it runs any more",
    "batch job": "only batch jobs can be requeued: salloc and srun end with their node",
    "Protocol authentication error": "is munged running here, with the controller's key and clock?",
    "Unable to connect to munge": "is munged running here?",
    "Could not establish a configuration source": "is slurm.conf on this machine? Set SLURM_CONF",
}


@dataclass(frozen=True)
class Limits:
    """How long one call may take, how much it may print, and where the commands are."""

    time_s: float = 20.0
    answer_bytes: int = 256 * 1024 * 1024
    folders: tuple[str, ...] = SLURM_FOLDERS


def tool_path(name: str, folders: Sequence[str] = SLURM_FOLDERS) -> str:
    """Absolute path of a Slurm command. Raises SlurmError."""
    path = find_tool(name, folders)
    if path is None:
        raise SlurmError(f"{name} is not installed on this node")
    return path


def run_tool(name: str, arguments: Sequence[str], limits: Limits, stdin: bytes = b"") -> Finished:
    """Run a Slurm command to its end, whatever its exit code.

    Raises:
        SlurmUnreachable: no answer within the limit.
        SlurmError: the command is not there, or printed more than the limit.
    """
    path = tool_path(name, limits.folders)
    kept = {each: os.environ[each] for each in ("SLURM_CONF",) if each in os.environ}
    try:
        finished = run(
            [path, *arguments],
            limits.time_s,
            stdin=stdin,
            extra_environment={**kept, "SLURM_TIME_FORMAT": "%s"},
            limit_bytes=limits.answer_bytes,
        )
    except HostError as error:
        if "no answer within" in str(error):
            raise SlurmUnreachable(
                f"{name} {_shown(arguments)}: no answer within {limits.time_s:g} s: is this "
                "machine part of the cluster, and slurmctld up? `scontrol ping` tells"
            ) from error
        raise SlurmError(str(error)) from error
    if finished.cut:
        raise SlurmError(f"{name} {_shown(arguments)}: its answer is too long to be read")
    return finished


def ask(name: str, arguments: Sequence[str], limits: Limits, stdin: bytes = b"") -> Finished:
    """:func:`run_tool`, and what it complains of is raised as :func:`complaint` says."""
    finished = run_tool(name, arguments, limits, stdin)
    if finished.return_code != 0:
        raise complaint(name, arguments, finished)
    return finished


def complaint(name: str, arguments: Sequence[str], finished: Finished) -> SlurmError:
    """What Slurm said, as one line that ends with what to do about it."""
    told = f"{finished.stderr}\n{finished.stdout}" if finished.return_code else finished.stderr
    return complaint_of(name, arguments, told or f"exit code {finished.return_code}")


def complaint_of(name: str, arguments: Sequence[str], said: str) -> SlurmError:
    """:func:`complaint` from the lines alone."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "it says nothing"
    told = next((line for line in lines if any(key in line for key in _ADVICE)), last)
    text = f"{name} {_shown(arguments)}: {_plain(told, name)}"
    if any(words in said for words in _UNREACHABLE):
        return SlurmUnreachable(f"{text}: is slurmctld up? `scontrol ping` tells")
    advice = next((each for words, each in _ADVICE.items() if words in told), None)
    if advice is not None:
        return SlurmRefused(f"{text}: {advice}")
    if any(words in said for words in _NOT_FOUND):
        return SlurmNotFound(text)
    return SlurmError(text)


def _plain(line: str, name: str) -> str:
    shown = line.removeprefix(f"{name}: ").removeprefix("error: ")[:_LONGEST_SAID]
    return "".join(each if each.isprintable() else "?" for each in shown)


def _shown(arguments: Sequence[str]) -> str:
    """The arguments' own words, without the texts that users and administrators gave."""
    words = [each if len(each) <= 80 else f"{each[:77]}..." for each in arguments[:6]]
    text = " ".join(words) + (" ..." if len(arguments) > 6 else "")
    return "".join(each if each.isprintable() else "?" for each in text)
