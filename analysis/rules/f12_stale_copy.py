"""F12: a node's copy of the dataset is of another version, or nobody has looked at it for long.

What it flags
-------------
A node's own record says that its copy is of another version than the job's. Or the prolog looked at
nothing but that record (level 0), and the record was made more than a day ago.

Why it matters
--------------
A job on the wrong version does not fail. It trains to the end, on other data than the other nodes
or than the last run, and nobody knows until the results differ. Spares are where this happens: they
were filled once and then stood idle while the dataset went on.

Evidence
--------
The content id in the node's record against the one that the job, the site or the manifest wants;
ids are compared whole. The age is the time since the record's verify, by the node's own clock. The
second, independent signal: other nodes of the job hold the wanted version. Ranks that trained on
such a node all the same are named.

What to do
----------
Bring the copy up to date now. That needs no GPU: a development job that runs on a spare has its
GPUs, not the data, and is no reason to wait. For a copy that is only old, verify it again with
``--level 4 --record``, or let the prolog look at the files (``level = 1`` and more in the
dataset's entry).

Known false alarms
------------------
Age alone says little where the prolog has compared every file's inode, size and times with the
record (level 1 and more): then nothing was changed since, and the rule is quiet whatever the age. A
dataset that was staged anew without ``--record`` is called another version until it is recorded.
Where all nodes hold the same other version, the manifest is newer than the fleet: the evidence
says so, and F14 fires beside it. A clock that was set back makes an age unknown, not young.

Thresholds
----------
Another id is enough. ``thresholds.verified_age_h`` (24 h) for a copy at which the prolog did not
look itself.
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
    verify_command,
)
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.plain_words import count_of, plain_commands
from slurm_io.analysis.rules.base import RULES, Answer, Evidence, Finding, Needs, sure

_THERE = frozenset(("OK", "DEGRADED"))
_SYNC = (
    "bring these copies to the version that is wanted now; that needs no GPU, so a job that runs "
    "on the node is no reason to wait"
)
_VERIFY = (
    "verify these copies again on their nodes, or let the prolog look at the files (level = 1 and "
    "more in the dataset's entry)"
)
_NO_RECORD = (
    "no node has a record of the dataset: that sizes fit the manifest proves no version (slurm-io "
    "dataset verify NAME --level 4 --record keeps one)"
)


@RULES.register("f12_stale_copy")
class StaleCopy:
    """Copies of another version, or old ones."""

    code = "F12"
    title = "a copy of the dataset is of another version or old"
    needs: Needs = "nothing"

    def judge(self, picture: Picture) -> Answer:
        """By the prologs' dataset checks."""
        told = dataset_answers(picture.store)
        if not told:
            return Answer("not enough evidence", unasked(picture.store))
        limit_s = picture.thresholds.rules.stale.age_s
        other = [one for one in told if one.answer == "FAIL" and one.wrong_version is not None]
        old = [one for one in told if (_unseen_s(one) or 0.0) > limit_s]
        findings = (
            *([_of_version(picture, other, told)] if other else []),
            *([_of_age(picture, old, told, limit_s)] if old else []),
        )
        return Answer("fired", findings=findings) if findings else _all_fine(told)


def _unseen_s(one: DatasetAnswer) -> float | None:
    """Age of a record that was all the prolog went by; None where it looked, or nobody knows."""
    trusted = one.answer in _THERE and one.level == 0
    return one.record.age_s if trusted and one.record is not None else None


def _all_fine(told: Sequence[DatasetAnswer]) -> Answer:
    known = [one for one in told if _version_is_known(one)]
    unknown = [one for one in told if not _version_is_known(one)]
    if not known and all(one.answer in _THERE for one in unknown):
        return Answer("not enough evidence", _NO_RECORD)
    if unknown:
        return Answer("not enough evidence", unknown[0].text)
    oldest_s = max((one.record.age_s or 0.0 for one in known if one.record), default=0.0)
    age = f"; the oldest was verified {_age(oldest_s)} ago" if oldest_s else ""
    files = " and its files are as they were then" if all(one.level for one in known) else ""
    nodes = count_of(len(known), "node")
    return Answer("quiet", f"by the record of {nodes} the version is the wanted one{files}{age}")


def _version_is_known(one: DatasetAnswer) -> bool:
    """Whether the node's own record speaks for the version that is wanted."""
    if one.answer == "UNKNOWN" or one.described is not None:
        return False
    if one.record is not None:
        return one.record.content_id is not None and one.record.content_id == one.content_id
    return one.used_record


def _of_version(
    picture: Picture, group: Sequence[DatasetAnswer], told: Sequence[DatasetAnswer]
) -> Finding:
    right = [one for one in told if one.answer in _THERE and _version_is_known(one)]
    where = "the shared storage" if are_shared(group) else count_of(len(group), "node")
    return Finding(
        rule="F12",
        severity="bad",
        confidence=sure(1 + bool(right)),
        title=f"the dataset is of another version on {where}",
        lost_gpu_s=None,  # what it trained on instead has no price here
        where=place_of(picture, group),
        evidence=(
            _versions(group, told),
            *_fleet(group, told, right),
            *trained_there(picture, group),
        ),
        remedy=_SYNC,
        commands=plain_commands(
            [*stage_command(group), *(c for one in group for c in one.commands)]
        ),
    )


def _versions(group: Sequence[DatasetAnswer], told: Sequence[DatasetAnswer]) -> Evidence:
    held = Counter(one.wrong_version for one in group)
    here = ", ".join(str(version) for version, _ in held.most_common(3))
    text = (
        f"{len(group)} of {len(told)} nodes that looked ({names_of(group)}) recorded {here}; "
        f"wanted is {group[0].content_id or 'another'}"
    )
    return Evidence(text, "nodes_of_other_version", len(group), 1)


def _fleet(
    group: Sequence[DatasetAnswer],
    told: Sequence[DatasetAnswer],
    right: Sequence[DatasetAnswer],
) -> list[Evidence]:
    """Whether others have the wanted version, or nobody has."""
    if right:
        text = f"{count_of(len(right), 'other node')} recorded the wanted version"
        return [Evidence(text, "nodes_of_wanted_version", len(right))]
    same = len({one.wrong_version for one in group}) == 1
    if len(group) == len(told) > 1 and same:
        text = "all nodes hold the same other version: the manifest or the wish is newer than they"
        return [Evidence(text, "nodes_of_wanted_version", 0)]
    return []


def _of_age(
    picture: Picture,
    group: Sequence[DatasetAnswer],
    told: Sequence[DatasetAnswer],
    limit_s: float,
) -> Finding:
    ages_s = [age for one in group if (age := _unseen_s(one)) is not None]
    where = "the shared storage" if are_shared(group) else count_of(len(group), "node")
    text = (
        f"{len(group)} of {len(told)} nodes that looked ({names_of(group)}) went by a record "
        f"alone, the oldest made {_age(max(ages_s))} ago; no file was looked at since"
    )
    return Finding(
        rule="F12",
        severity="info",
        confidence="likely",
        title=f"nobody has looked at the dataset on {where} for long",
        lost_gpu_s=None,
        where=place_of(picture, group),
        evidence=(Evidence(text, "record_age_h", max(ages_s) / 3600, limit_s / 3600),),
        remedy=_VERIFY,
        commands=plain_commands([command for one in group for command in verify_command(one)]),
    )


def _age(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} days"
