"""``scontrol listpids``: which processes on this node are a job's, as slurmstepd knows them.

It asks the steps' own sockets on the node, never slurmctld, and needs no privilege. With several
slurmd on a machine the node must be named. Tasks have their local and global id, their children a
dash; an extern step may show as pid -1; pgid tracking loses children::

    PID      JOBID    STEPID   LOCALID GLOBALID
    -1       12       extern   0       0
    4711     12       batch    0       0
    4713     12       batch    -       -
"""

from __future__ import annotations

import os

from slurm_io.errors import SlurmError

SLURM_FOLDERS = ("/opt/slurm/bin", "/usr/local/slurm/bin")
_LIMIT_BYTES = 4 * 1024 * 1024
_NOTHING_YET = ("does not exist on", "There are no steps", "No job steps exist")


EVERY_JOB = "*"


def parse_listpids(text: str, job: str) -> list[int]:
    """Process ids of `job` (`EVERY_JOB`: of all), each once; lines of other jobs and of no process
    are left out."""
    found: dict[int, None] = {}
    for line in text.splitlines():
        words = line.split()
        is_meant = len(words) >= 2 and job in (words[1], EVERY_JOB)
        if is_meant and words[0].isascii() and words[0].isdecimal():
            found[int(words[0])] = None
    found.pop(0, None)
    return list(found)


def ask_listpids(job: str, node: str, timeout_s: float) -> list[int]:
    """What the node's slurmstepds say now; [] while the job (`EVERY_JOB`: any) has no step here.

    Raises:
        SlurmError: scontrol is not there, does not answer in time, or says something else.
    """
    # Imported here: the sampler needs it on clusters without control groups only.
    from slurm_io.errors import HostError
    from slurm_io.host.run import find_tool, run

    path = find_tool("scontrol", SLURM_FOLDERS)
    if path is None:
        raise SlurmError("scontrol is not installed on this node")
    kept = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    try:
        answer = run(
            [path, "listpids", job, node],
            timeout_s,
            extra_environment=kept,
            limit_bytes=_LIMIT_BYTES,
        )
    except HostError as error:
        raise SlurmError(str(error)) from error
    if answer.return_code != 0 and not any(words in answer.stderr for words in _NOTHING_YET):
        said = (answer.stderr.strip() or answer.stdout.strip()).splitlines()
        raise SlurmError(f"scontrol listpids: {said[-1][:200] if said else answer.return_code}")
    return parse_listpids(answer.stdout, job)
