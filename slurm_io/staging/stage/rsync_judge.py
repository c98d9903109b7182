"""What became of each file of one run of rsync."""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage import landing
from slurm_io.staging.stage.child import Ended
from slurm_io.staging.stage.model import Failure
from slurm_io.staging.stage.rsync_text import Complaints, Output, of_exit_code

TURNED_AWAY = "the peer closed the door: it is full, or this node is not one of its --allow"


class Run(NamedTuple):
    """One run of rsync: how it ended and what it said."""

    ended: Ended
    said: Complaints
    output: Output
    is_hung: bool


def verdict(entry: FileEntry, room: str, run: Run) -> Failure | None:
    """None when a file is all here, by its length; else why not."""
    code, size = run.ended.return_code, landing.size_at(room, entry.path)
    said = run.said.of_source.get(entry.path)
    if entry.path in run.said.damaged:
        landing.discard(room, entry.path)
        return Failure(entry.path, "its bytes changed on the way", "link")
    if said is None and size is not None:
        if size == entry.size_bytes or (entry.size_bytes is None and code == 0):
            return None
        if code in (0, 23, 24) or size > (entry.size_bytes or size):
            # The peer sent all it has: no beginning of the right file.
            landing.discard(room, entry.path)
            text = f"the peer's file has {size} bytes, the manifest says {entry.size_bytes}"
            return Failure(entry.path, text, "source")
    if entry.path in run.output.no_files:
        return Failure(entry.path, "it is a link, a folder or a device at the peer", "source")
    if said is not None:
        return Failure(entry.path, f"the peer: {said}", "source")
    return _unsaid(entry, run)


def _unsaid(entry: FileEntry, run: Run) -> Failure:
    """Why a file is not here that rsync said nothing about."""
    if run.ended.stopped:
        text = "the peer sent nothing for too long" if run.is_hung else "stopped"
        return Failure(entry.path, text, "link")
    if run.said.of_target is not None:
        return Failure(entry.path, f"writing here: {run.said.of_target}", "target")
    if was_turned_away(run.said):
        return Failure(entry.path, TURNED_AWAY, "link")
    whose, text = of_exit_code(run.ended.return_code)
    said = f" ({run.said.last})" if run.said.last else ""
    return Failure(entry.path, f"{text}{said}", whose)


def was_turned_away(said: Complaints) -> bool:
    """Whether the peer closed the connection before it said a word: it may have room later."""
    # rsync reads single bytes only while both greet; a reset: the peer closed as we said a word.
    reset = "failed to read 1 bytes: Connection reset" in said.last
    return reset or "did not see server greeting" in said.last
