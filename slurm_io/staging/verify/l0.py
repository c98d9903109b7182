"""Level 0: is there a ready record of this version, made on this machine and this file system.

A record that was copied along (another machine, another disk, another folder) proves nothing.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from slurm_io.model import CheckAnswer
from slurm_io.staging.manifest.paths import printable
from slurm_io.staging.record import Record
from slurm_io.staging.verify.identity import FileSystem, Machine

SEES = "level 0 looks at the record only: what happened to the files since stays unseen"


class Here(NamedTuple):
    """Where the dataset lies now. `filesystem` None: its mount could not be told."""

    machine: Machine
    filesystem: FileSystem | None
    root_inode: int


class RecordAnswer(NamedTuple):
    """`usable`: the record's stamps mean something here. `problem` says why not."""

    answer: CheckAnswer
    text: str
    usable: bool = False
    problem: str | None = None
    wrong_version: str | None = None


def judge(
    record: Record | None, problem: str | None, content_id: str | None, here: Here
) -> RecordAnswer:
    """What the record says. `problem`: why it could not be read. `content_id`: the one wanted."""
    if problem is None and record is not None:
        problem = binding_problem(record, here)
    if problem is not None:
        return RecordAnswer("UNKNOWN", f"the record proves nothing: {problem}", problem=problem)
    if record is None or record.state == "absent":
        return RecordAnswer("UNKNOWN", "this node has no record of the dataset")
    if content_id is not None and record.content_id != content_id:
        text = f"wrong version: {record.content_id} is here, {content_id} is wanted"
        return RecordAnswer("FAIL", text, wrong_version=record.content_id)
    return _of_state(record)


def binding_problem(record: Record, here: Here) -> str | None:
    """Why a record was not made here; None when it was."""
    if here.machine.machine_id is None:
        return "this machine has no /etc/machine-id"
    if record.machine != here.machine:
        return f"it was made on machine {printable(record.machine.node)}, not on this one"
    if here.filesystem is None:
        return "the file system below the folder cannot be told"
    if not record.filesystem.same_as(here.filesystem):
        return (
            f"it was made on another file system ({printable(record.filesystem.name)}), "
            f"here is {printable(here.filesystem.name)}"
        )
    if record.root_inode != here.root_inode:
        return "it was made of another folder (its inode is another one)"
    return None


def _of_state(record: Record) -> RecordAnswer:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(record.verified_ns / 1e9))
    words = f"level {record.level} on {when}"
    if record.state == "ready":
        return RecordAnswer("OK", f"verified here to {words}", usable=record.table is not None)
    if record.state == "degraded":
        text = f"verified here to {words}, with extra files or some that need a look"
        return RecordAnswer("DEGRADED", text, usable=record.table is not None)
    if record.state == "failed":
        text = f"the last verify here ({when}) found bad files"
        return RecordAnswer("FAIL", text, usable=record.table is not None)
    if record.state == "copying":
        return RecordAnswer("FAIL", "its copy is not finished (state copying)")
    text = f"copied but not verified here yet (state {record.state})"
    return RecordAnswer("UNKNOWN", text, usable=record.table is not None)
