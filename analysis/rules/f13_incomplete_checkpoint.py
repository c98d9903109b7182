"""F13: a checkpoint that the job left behind is not whole.

What it flags
-------------
One of the newest three saves in a folder that the job saved to is torn, lacks a part, or was never
finished; or the file that names the newest save (``latest``) names one that is not there.

Why it matters
--------------
It is found out at the next restart, on all nodes at once, hours or weeks later: by an error, by a
restart from step 0, or not at all. Whoever cleaned up older saves meanwhile has nothing left.

Evidence
--------
The look at the job's end (docs/checkpoints-whole.md), which reads names, sizes, headers and ends of
files and no data: a file shorter than its own table says, a part that is named and missing, the
mark of the end missing. A broken one is proven: its content contradicts itself, and either the hook
saw the save return or nobody had written for a while. An unfinished one is likely. What changed
inside a file without changing its size is not seen.

What to do
----------
Resume from the newest whole one, which the finding names, and delete nothing before a later save is
whole. Then have saves written aside, synced and renamed, the mark last, and leave time for one
before the job's time limit.

Known false alarms
------------------
A save still being written, which is why a young one (120 s, or twice the time a save took) never
counts by itself. A program of the user's that moves or thins out checkpoints while it is looked at.
Links are not followed, other formats not known: of those nothing is said. Clocks of file servers
that are off by minutes shift ages.

Thresholds
----------
``thresholds.unfinished_save_s`` (600 s): a save without its end counts, however young, when the job
had ended so long before the look; and it counts when a later one is whole.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from slurm_io.analysis.amounts import size
from slurm_io.analysis.asked import asked_of
from slurm_io.analysis.events import CHECKPOINT_KINDS
from slurm_io.analysis.facts import whole
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, Place, iso, sure
from slurm_io.analysis.saved import Look, Pointer, Saved, Series, read_look
from slurm_io.analysis.similar import mount_types

_MOST_NAMED, _MOST_FINDINGS = 3, 4
_MEGATRON_POINTER = "latest_checkpointed_iteration.txt"
_BETTER = (
    "have saves written aside, synced and renamed, and delete none before a later one is whole"
)


@RULES.register("f13_incomplete_checkpoint")
class IncompleteCheckpoint:
    """A checkpoint that was left behind is torn, unfinished, or not the one that is named."""

    code = "F13"
    title = "incomplete checkpoint left behind"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """By what the look at the job's end wrote into the store."""
        look = read_look(picture.store)
        if look is None:
            return _nobody_looked(picture)
        limit_s = picture.thresholds.rules.saved.unfinished_s
        is_late = _ended_before_s(picture, look) > limit_s
        findings = [_judge(picture, one, is_late) for one in look.series]
        found = [one for one in findings if one is not None]
        if found:
            return Answer("fired", findings=tuple(found[:_MOST_FINDINGS]))
        return _none_found(look)


def _nobody_looked(picture: Picture) -> Answer:
    events = picture.timeline.events
    saved = events["kind"].is_in(CHECKPOINT_KINDS).any() or asked_of(picture.store).ckpt is not None
    if not picture.timeline.processes and not saved:
        return Answer("not enough evidence", "no training batches were recorded (hook)")
    if not saved:
        return Answer("quiet", "the job was not seen saving a checkpoint")
    why = "nobody looked whether what the job saved is whole (checkpoints.json)"
    return Answer("not enough evidence", why)


def _ended_before_s(picture: Picture, look: Look) -> float:
    """How long before the look the last node's sampler ended; 0 where that is not known."""
    ends = [whole(view.meta.get("end_ts_ns")) for view in picture.store.nodes.values()]
    known = [end for end in ends if end is not None]
    if look.looked_ns is None or not known or len(known) < len(ends):
        return 0.0
    return (look.looked_ns - max(known)) / 1e9


def _none_found(look: Look) -> Answer:
    saves = [one for series in look.series for one in series.saves]
    young = [one for one in saves if one.state == "unfinished"]
    if young:
        return Answer("quiet", f"{young[0].path} may still have been written when it was looked at")
    sound = [one for one in saves if one.state == "whole"]
    if sound:
        return Answer("quiet", f"{len(sound)} of {len(saves)} saves that were looked at are whole")
    reasons = [note for one in saves for note in one.notes]
    reasons += [f"{one.path}: {one.reason}" for one in look.series if one.reason]
    why = look.reason or (reasons[0] if reasons else "no save of a known format was found")
    return Answer("not enough evidence", f"what the job saved cannot be told to be whole: {why}")


def _judge(picture: Picture, series: Series, is_late: bool) -> Finding | None:
    bad = [
        one for place, one in enumerate(series.saves)
        if one.state == "broken" or _is_left(one, series.saves[:place], is_late)
    ]  # fmt: skip
    astray = _astray(series, bad)
    if not bad and not astray:
        return None
    sound = [one for one in series.saves if one.state == "whole"]
    newest_is_whole = bool(sound) and sound[0] == series.saves[0]
    evidence = [*map(_told, bad[:_MOST_NAMED]), *astray, *_sound(sound)]
    return Finding(
        rule="F13",
        severity="warn" if newest_is_whole else "bad",
        confidence=sure(1 + any(one.state == "broken" for one in bad)),
        title=_title(series, bad, newest_is_whole),
        lost_gpu_s=None,
        where=Place(
            mounts=_mounts(picture, series.path),
            files=tuple(one.path for one in bad[:_MOST_NAMED]) or (series.path,),
        ),
        evidence=tuple(evidence),
        remedy=_remedy(sound, bad),
        commands=_commands(bad, sound),
    )


def _is_left(one: Saved, later: Sequence[Saved], is_late: bool) -> bool:
    """Unfinished, and nobody goes on with it."""
    if one.state != "unfinished":
        return False
    return not one.is_young or is_late or any(each.state == "whole" for each in later)


def _astray(series: Series, bad: Sequence[Saved]) -> list[Evidence]:
    """Files that name the newest save and lead to none that is whole."""
    if any(one.state == "unfinished" and one not in bad for one in series.saves):
        return []  # a save goes on, and these are written last
    names = {one.path.rpartition("/")[2] for one in bad}
    found = [
        Evidence(f"{one.file} names {one.names}, which {_lack(one)}", "pointer_unfit", 1, 1)
        for one in series.pointers
        if one.names is not None and (one.exists is False or one.names in names)
    ]
    files = {one.file for one in series.pointers}
    sound = [one for one in series.saves if (one.format, one.state) == ("megatron", "whole")]
    if sound and _MEGATRON_POINTER not in files:
        text = f"no {_MEGATRON_POINTER} beside whole checkpoints: a restart begins at step 0"
        found.append(Evidence(text, "pointer_missing", 1, 1))
    return found


def _lack(pointer: Pointer) -> str:
    return "is not there" if pointer.exists is False else "is not whole"


def _told(one: Saved) -> Evidence:
    file, text = one.problems[0] if one.problems else ("it", "not whole")
    more = f" (and {one.problem_count - 1} more)" if one.problem_count > 1 else ""
    when = iso(one.written_ns)
    written = f" (written {when})" if when else ""
    metric = "broken_files" if one.state == "broken" else "unfinished_files"
    word = "broken" if one.state == "broken" else "never finished"
    what = text if one.path.endswith("/" + file) else f"{file}: {text}"
    text = f"{one.path}{written} is {word}: {what}{more}"
    return Evidence(text, metric, max(1, one.problem_count), 1)


def _sound(sound: Sequence[Saved]) -> list[Evidence]:
    if not sound:
        return [Evidence("none of the saves that were looked at is whole", "whole_saves", 0)]
    one = sound[0]
    facts = [f"step {one.step}"] if one.step is not None else []
    facts += [size(one.bytes)] if one.bytes is not None else []
    when = iso(one.written_ns)
    facts += [f"written {when}"] if when else []
    text = f"the newest whole one is {one.path}" + (f" ({', '.join(facts)})" if facts else "")
    return [Evidence(text, "whole_saves", len(sound))]


def _title(series: Series, bad: Sequence[Saved], newest_is_whole: bool) -> str:
    if not bad:
        return f"what names the newest checkpoint in {series.path} leads to none"
    if newest_is_whole:
        return f"a checkpoint in {series.path} is not whole, a later one is"
    return f"the newest checkpoint in {series.path} is not whole"


def _remedy(sound: Sequence[Saved], bad: Sequence[Saved]) -> str:
    if not sound:
        return (
            "look further back for a whole checkpoint, by loading it, before anything is deleted; "
            + _BETTER
        )
    place = "resume from" if bad else "name it in full when resuming:"
    return f"{place} {sound[0].path}, the newest whole one, and keep it; {_BETTER}"


def _commands(bad: Sequence[Saved], sound: Sequence[Saved]) -> tuple[str, ...]:
    paths = [one.path for one in (*bad[:1], *sound[:1]) if "*" not in one.path]
    return tuple(f"ls -la --time-style=full-iso {shlex.quote(path)}" for path in paths)


def _mounts(picture: Picture, path: str) -> tuple[str, ...]:
    """The mount that the folder lies on."""
    mounts = mount_types(picture.store)
    above = [one for one in mounts if path == one or path.startswith(one.rstrip("/") + "/")]
    return (max(above, key=len),) if above else ()
