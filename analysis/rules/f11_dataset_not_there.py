"""F11: on some nodes the job's dataset was not there, or not whole, when the job began.

What it flags
-------------
The prolog's dataset check failed on nodes of the job because the dataset's folder or files of it
were missing, of another size, or of other content than the manifest has, or because a copy was not
finished. Where a mount below the dataset was absent the finding is another one: that mount.

Why it matters
--------------
A job that cannot find its data dies after its GPUs were allocated. A loader that reads whatever
files it finds does worse: the job trains, on a part of the data, and no error tells.

Evidence
--------
The check's answer on each node, by stat of each file against the manifest or against the node's own
record; how many files, by what is wrong with them. The second, independent signal: other nodes of
the job have the same version whole, so that neither the manifest nor the job's wish is wrong. Ranks
that trained on such a node all the same are named, with the part they had in the time that was
lost to storage.

What to do
----------
Stage the dataset again on these nodes and keep what was proven (``--record``). A spare that was
swapped in without its data is swapped back until its copy is proven. ``check=hold`` in the job's
request keeps a job from starting on such a node. Of an absent mount: mount it; before that nothing
can be told of the data, and staging would fill the disk below the mount point.

Known false alarms
------------------
A manifest that was built anew since the nodes were staged makes whole copies look broken: nodes
that recorded another version are counted in the evidence. Where every node that looked says the
same (three and more of them, beyond the limits below), it is the manifest or the storage and no
node: this rule is quiet then and says so, and F14 fires. Another version, whole, is F12's. A
folder that the user may not open, or a dataset that the site does not know, is told by the check
itself: nothing is missing there.

Thresholds
----------
One file is enough. ``thresholds.alike_nodes`` (2) and ``thresholds.alike_share`` (5 %): above
these a fault of all nodes that looked is left to F14.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slurm_io.analysis.dataset_answers import DatasetAnswer, dataset_answers, unasked
from slurm_io.analysis.dataset_nodes import (
    are_shared,
    names_of,
    place_of,
    stage_command,
    trained_there,
)
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.plain_words import count_of, plain_commands
from slurm_io.analysis.rule_limits import SameFault
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, sure

_UNFINISHED = frozenset(("copying", "failed"))
_STAGE = (
    "stage the dataset again on these nodes and keep the proof; a spare without its data is "
    "swapped back until then; check=hold in the request keeps a job from starting there"
)
_MOUNT = (
    "mount it on these nodes and find out why it was absent; stage nothing before, or the files "
    "land on the disk below the mount point"
)


@RULES.register("f11_dataset_not_there")
class DatasetNotThere:
    """Nodes began without the job's data."""

    code = "F11"
    title = "the dataset was not there on some nodes"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """By the prologs' dataset checks."""
        told = dataset_answers(picture.store)
        if not told:
            return Answer("not enough evidence", unasked(picture.store))
        failed = [one for one in told if one.answer == "FAIL"]
        absent = [one for one in failed if one.mount_absent]
        gone = [one for one in failed if not one.mount_absent and _is_gone(one)]
        here = [group for group in (absent, gone) if group]
        limits = picture.thresholds.rules.alike
        findings = tuple(
            _of_mounts(picture, group, told) if group is absent else _of_data(picture, group, told)
            for group in here
            if not _is_everywhere(group, told, limits)
        )
        if findings:
            return Answer("fired", findings=findings)
        return _everywhere(told) if here else _nothing_missing(told)


def _is_gone(one: DatasetAnswer) -> bool:
    """Whether data is missing or wrong, in the version that is wanted."""
    if one.wrong_version is not None or one.described is not None:
        return False
    unfinished = one.record is not None and one.record.state in _UNFINISHED
    return bool(one.folder_missing or one.bad or unfinished)


def _is_everywhere(
    group: Sequence[DatasetAnswer], told: Sequence[DatasetAnswer], limits: SameFault
) -> bool:
    """Whether all nodes that looked answer so, and they are too many for chance."""
    count = len(told)
    return len(group) == count and count >= limits.least_nodes and count > limits.most(count)


def _everywhere(told: Sequence[DatasetAnswer]) -> Answer:
    text = (
        f"all {len(told)} nodes that looked miss the dataset alike: that is the manifest, or the "
        f"storage, and not a node (see F14); {told[0].node} says: {told[0].text}"
    )
    return Answer("quiet", text[:400])


def _nothing_missing(told: Sequence[DatasetAnswer]) -> Answer:
    unclear = [one for one in told if one.answer == "UNKNOWN" or _says_no_more(one)]
    if unclear:
        return Answer("not enough evidence", unclear[0].text)
    other = [one for one in told if one.wrong_version is not None]
    if other:
        return Answer("quiet", "what is there is another version of the dataset (see F12)")
    failed = [one for one in told if one.answer == "FAIL"]
    return Answer("quiet", f"nothing is missing: {(failed or told)[0].text}")


def _says_no_more(one: DatasetAnswer) -> bool:
    """A FAIL that tells neither what is missing nor that nothing is."""
    known = (one.folder_missing, one.wrong_version, one.described)
    return one.answer == "FAIL" and not one.mount_absent and known == (None, None, None)


def _of_mounts(
    picture: Picture, group: Sequence[DatasetAnswer], told: Sequence[DatasetAnswer]
) -> Finding:
    points = sorted({one.absent_mount for one in group if one.absent_mount is not None})
    name = f" {', '.join(points[:3])}" if points else ""
    text = (
        f"the mount{name} below the dataset was absent on {len(group)} of {len(told)} nodes that "
        f"looked: {names_of(group)}"
    )
    return Finding(
        rule="F11",
        severity="bad",
        confidence=sure(1 + bool(_whole(told))),
        title=f"a mount of the dataset was absent on {count_of(len(group), 'node')}",
        lost_gpu_s=None,
        where=place_of(picture, group),
        evidence=(
            Evidence(text, "nodes_without_mount", len(group), 1),
            *_others(told),
            *trained_there(picture, group),
        ),
        remedy=_MOUNT,
        commands=plain_commands(_of_check(group)),
    )


def _of_data(
    picture: Picture, group: Sequence[DatasetAnswer], told: Sequence[DatasetAnswer]
) -> Finding:
    where = "the shared storage" if are_shared(group) else count_of(len(group), "node")
    return Finding(
        rule="F11",
        severity="bad",
        confidence=sure(1 + bool(_whole(told))),
        title=f"the dataset was not whole on {where}",
        lost_gpu_s=None,  # what it trained on instead has no price here
        where=place_of(picture, group),
        evidence=(
            _what(group, told),
            *_files(group),
            *_others(told),
            *_of_other_versions(told),
            *trained_there(picture, group),
        ),
        remedy=_STAGE,
        commands=plain_commands([*stage_command(group), *_of_check(group)]),
    )


def _what(group: Sequence[DatasetAnswer], told: Sequence[DatasetAnswer]) -> Evidence:
    folders = sum(one.folder_missing is True for one in group)
    files = sum(bool(one.bad) for one in group)
    rest = len(group) - sum(one.folder_missing is True or bool(one.bad) for one in group)
    parts = [
        *([f"no folder on {folders}"] if folders else []),
        *([f"files missing or wrong on {files}"] if files else []),
        *([f"a copy not finished or not whole on {rest}"] if rest else []),
    ]
    text = (
        f"the prolog's dataset check failed on {len(group)} of {len(told)} nodes that looked "
        f"({names_of(group)}): {', '.join(parts)}"
    )
    return Evidence(text, "nodes_without_dataset", len(group), 1)


def _files(group: Sequence[DatasetAnswer]) -> list[Evidence]:
    counts: Counter[str] = Counter()
    for one in group:
        counts.update(one.bad)
    if not counts:
        return []
    words = ", ".join(f"{number} {why}" for why, number in counts.most_common(6))
    of = max((one.files or 0 for one in group), default=0)
    expected = f" ({of} files expected on each)" if of else ""
    return [Evidence(f"files, all nodes together: {words}{expected}", "files_bad", counts.total())]


def _others(told: Sequence[DatasetAnswer]) -> list[Evidence]:
    whole = _whole(told)
    if not whole:
        return []
    have = count_of(len(whole), "other node")
    text = f"{have} had the same version whole, so it is not the manifest"
    return [Evidence(text, "nodes_with_dataset", len(whole))]


def _of_other_versions(told: Sequence[DatasetAnswer]) -> list[Evidence]:
    other = [one for one in told if one.wrong_version is not None]
    if not other:
        return []
    text = (
        f"{count_of(len(other), 'node')} recorded another version ({other[0].wrong_version}) than "
        f"is wanted ({other[0].content_id}): the manifest may be newer than the copies"
    )
    return [Evidence(text, "nodes_of_other_version", len(other))]


def _whole(told: Sequence[DatasetAnswer]) -> list[DatasetAnswer]:
    return [one for one in told if one.answer in ("OK", "DEGRADED")]


def _of_check(group: Sequence[DatasetAnswer]) -> list[str]:
    return [command for one in group for command in one.commands]
