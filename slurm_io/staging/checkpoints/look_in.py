"""The newest saves of one folder: found, recognised, judged. Runs in a child of :mod:`.look`."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from slurm_io.staging.beneath import Folder
from slurm_io.staging.checkpoints.ages import age_of, settle
from slurm_io.staging.checkpoints.formats.base import format_of
from slurm_io.staging.checkpoints.found import Found, find_files, find_folder
from slurm_io.staging.checkpoints.limits import limit_this_process
from slurm_io.staging.checkpoints.model import Judged, Save, State
from slurm_io.staging.checkpoints.names import shown, step_of
from slurm_io.staging.checkpoints.pointers import read_pointers
from slurm_io.staging.checkpoints.series import Candidate, candidates, list_names

MOST_SAVES = 3
_MOST_TRIED = 24  # entries that turn out to be no save


def look_in_child(
    folder: str, named: Sequence[dict[str, Any]], everything: bool, limit_s: float
) -> dict[str, Any]:
    """As :func:`look_in`, under limits of memory and CPU that the process keeps."""
    limit_this_process(cpu_s=int(limit_s) + 1)
    return look_in(folder, () if everything else named, time.monotonic() + 0.8 * limit_s)


def look_in(folder: str, named: Sequence[dict[str, Any]], deadline_s: float) -> dict[str, Any]:
    """``{path, saves, pointers, tried, reason}``; `reason` says what was not looked at, or None.

    `named`: see :func:`.series.candidates`. Raises OSError when the folder cannot be opened.
    """
    saves: list[Save] = []
    tried, reason = 0, None
    with Folder.at(folder) as opened:
        listed = list_names(opened)
        for candidate in candidates(opened, folder, listed, named):
            if len(saves) == MOST_SAVES or tried == _MOST_TRIED:
                break
            if time.monotonic() > deadline_s:
                reason = "no time was left for all of its saves"
                break
            tried += 1
            save = _look_at(opened, folder, candidate, deadline_s)
            if save is not None:
                saves.append(save)
        pointers = read_pointers(opened, listed)
    return {
        "path": shown(folder),
        "saves": [one.to_dict() for one in saves],
        "pointers": [one.to_dict() for one in pointers],
        "tried": tried,
        "reason": reason,
    }


def _look_at(opened: Folder, folder: str, candidate: Candidate, deadline_s: float) -> Save | None:
    """None for what is no save of any format, unless the hook saw it saved."""
    raw = candidate.raws[0]
    try:
        if candidate.is_folder:
            found = find_folder(opened, raw, deadline_s)
        else:
            found = find_files(opened, candidate.raws, shown(candidate.label), deadline_s)
        form = format_of(found)
        judged = Judged("unknown") if form is None else form.judge(found)
    except OSError as error:
        why = error.strerror or str(error)
        return _unread(folder, candidate, why) if candidate.named else None
    if form is None and not candidate.named:
        return None
    return _save(folder, candidate, found, form.name if form else None, judged)


def _save(
    folder: str, candidate: Candidate, found: Found, form: str | None, judged: Judged
) -> Save:
    if found.cut:
        judged = Judged("unknown", (), (found.cut, *judged.notes))
    elif form is None:
        judged = Judged("unknown", (), ("no format that is known",))
    elif found.others:
        name, what = min(found.others.items())
        judged = _doubtful(judged, f"{name} is {what}")
    age = age_of(found.written_ns, time.time_ns(), candidate.named)
    return Save(
        path=_path(folder, candidate),
        format=form,
        judged=settle(judged, age),
        step=_step(candidate),
        bytes=found.total_bytes,
        files=len(found.files),
        written_ns=found.written_ns,
        is_young=age.is_young,
        returned=age.returned,
    )


def _doubtful(judged: Judged, note: str) -> Judged:
    """Links and pipes are not followed: of a whole save with one, nothing is claimed."""
    state: State = "unknown" if judged.state == "whole" else judged.state
    return Judged(state, judged.problems, (note, *judged.notes))


def _unread(folder: str, candidate: Candidate, why: str) -> Save:
    judged = Judged("unknown", (), (f"it cannot be read ({why})",))
    return Save(
        _path(folder, candidate), None, judged, _step(candidate), 0, 0, None,
        is_young=False, returned=False,
    )  # fmt: skip


def _path(folder: str, candidate: Candidate) -> str:
    return shown(os.path.join(os.fsencode(folder), candidate.label))


def _step(candidate: Candidate) -> int | None:
    return step_of(os.fsdecode(candidate.raws[0]), is_file=not candidate.is_folder)
