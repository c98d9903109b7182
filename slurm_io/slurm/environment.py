"""What slurmd tells Prolog and Epilog through the environment: the only source they may use.

COMMENT, EXTRA, WORK_DIR, SPANK_* and the user's name are in the user's hand: nothing of them is
used in a path of ours, and what is kept is printable and short. Job id, restart count, cluster and
node become path components and are held to one strict form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm_io.errors import SlurmError
from slurm_io.model import JobIdentity
from slurm_io.records import dataclass
from slurm_io.slurm.hostlist import expand

SPANK_REQUEST = "SPANK_SLURM_IO"
WORK_DIR_MAX_CHARS = 4096
TEXT_MAX_CHARS = 256
COMMENT_KEPT_CHARS = 2048
GPUS_MAX_CHARS = 8192

FIRST_UNALLOCATED = 0xFFFF0000
"""From this number on a job id is invented by ``srun --no-allocate`` (slurm_protocol_api.h)."""

_NUMBER = re.compile(r"[0-9]{1,10}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_SLUID = re.compile(r"s[0-9A-HJKMNP-TV-Z]{13}")


@dataclass(frozen=True)
class HookJob:
    """One job on one node, as a hook sees it. The three requests are raw text of the user's.

    `sluid` names the job's control group from Slurm 26.05 on (told from 25.11 on). `gpus` is the
    variable that names the job's GPUs on this node, ``NAME=value``.
    """

    identity: JobIdentity
    node: str
    gid: int
    comment: str
    extra: str
    spank: str
    sluid: str | None = None
    gpus: str | None = None

    @property
    def is_unallocated(self) -> bool:
        """Whether it is no job of Slurm's: no Epilog will follow, and its node may be busy."""
        return int(self.identity.job) >= FIRST_UNALLOCATED


def read_environment(environment: Mapping[str, str]) -> HookJob:
    """The job from a slurmd hook's environment. Raises SlurmError when id, uid or node is amiss."""
    identity = JobIdentity(
        cluster=_name(environment, "SLURM_CLUSTER_NAME", "cluster"),
        job=str(_number(environment, "SLURM_JOB_ID", None)),
        restart=_number(environment, "SLURM_JOB_RESTART_COUNT", 0),
        user=_text(environment, "SLURM_JOB_USER", TEXT_MAX_CHARS) or "unknown",
        uid=_number(environment, "SLURM_JOB_UID", None),
        partition=_text(environment, "SLURM_JOB_PARTITION", TEXT_MAX_CHARS),
        account=_text(environment, "SLURM_JOB_ACCOUNT", TEXT_MAX_CHARS),
        nodes=_nodes(environment),
        gpus_on_node=_count_gpus(environment.get("SLURM_JOB_GPUS")),
        work_dir=_work_dir(environment),
        comment=_text(environment, "SLURM_JOB_COMMENT", COMMENT_KEPT_CHARS),
    )
    return HookJob(
        identity=identity,
        node=_name(environment, "SLURMD_NODENAME", None),
        gid=_number(environment, "SLURM_JOB_GID", 0),
        comment=environment.get("SLURM_JOB_COMMENT", ""),
        extra=environment.get("SLURM_JOB_EXTRA", ""),
        spank=environment.get(SPANK_REQUEST, ""),
        sluid=_sluid(environment),
        gpus=_gpus(environment),
    )


def _number(environment: Mapping[str, str], name: str, default: int | None) -> int:
    text = environment.get(name)
    if text is None and default is not None:
        return default
    if text is None or not _NUMBER.fullmatch(text) or not text.isascii():
        raise SlurmError(f"{name} is {text!a:.80}, not a number: is this run by slurmd?")
    return int(text)


def _name(environment: Mapping[str, str], name: str, default: str | None) -> str:
    text = environment.get(name, default)
    if text is None or not _NAME.fullmatch(text):
        raise SlurmError(f"{name} is {text!a:.80}, not a plain name: is this run by slurmd?")
    return text


def _text(environment: Mapping[str, str], name: str, max_chars: int) -> str | None:
    """Printable text of bounded length, or None ("(null)" is Slurm's word for no value)."""
    text = environment.get(name)
    if text is None or text == "(null)" or len(text) > max_chars or not text.isprintable():
        return None
    return text


def _sluid(environment: Mapping[str, str]) -> str | None:
    text = environment.get("SLURM_JOB_SLUID", "")
    return text if _SLUID.fullmatch(text) else None


def _work_dir(environment: Mapping[str, str]) -> str | None:
    text = _text(environment, "SLURM_JOB_WORK_DIR", WORK_DIR_MAX_CHARS)
    return text if text is not None and text.startswith("/") else None


def _nodes(environment: Mapping[str, str]) -> tuple[str, ...]:
    # 22.05 sets only SLURM_NODELIST in slurmd's hooks.
    text = environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST") or ""
    try:
        return expand(text)
    except SlurmError:
        return ()


def _gpus(environment: Mapping[str, str]) -> str | None:
    """UUIDs come first: on a MIG node SLURM_JOB_GPUS counts slices."""
    for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_GPUS"):
        text = _text(environment, name, GPUS_MAX_CHARS)
        if text and (name == "SLURM_JOB_GPUS" or "GPU-" in text or "MIG-" in text):
            return f"{name}={text}"
    return None


def _count_gpus(text: str | None) -> int | None:
    if not text:
        return None
    words = text.split(",")
    ranges = [re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", word) for word in words]
    if all(ranges):
        return sum(int(found[2] or found[1]) - int(found[1]) + 1 for found in ranges if found)
    return len(words)
