"""Which dataset a node holds, as a feature of it that jobs can ask for: ``ds_NAME_VERSION``.

A hint for the scheduler, kept in step with the nodes' own records; the prolog stays the proof. Only
features of this one dataset are ever changed; all others keep their order and spelling. Slurm has
the whole list set at once, so a change is a read, a write and a read back.

What becomes of the feature: a node that says it holds a version has the feature of that version
and no other; one that says it holds none, or whose disk was in a broken node and was not read in
full since, has none. A node that gave no answer keeps what it has: taking it away would make the
jobs that ask for it impossible (BadConstraints), and a node that is silent runs no new job anyway.
Features set at run time are lost when slurmctld starts without its state; they are set again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from slurm_io.errors import SlurmError
from slurm_io.reservation.model import NodeSays
from slurm_io.slurm.infos import NodeInfo

_DIGITS = 12
_VERSION = re.compile(r"c1-[0-9a-f]{12,64}", re.ASCII)
"""A sick node may call its version anything: what is none would never be taken away again."""
_UNFIT = re.compile(r"[^A-Za-z0-9_]")


class HasFeatures(Protocol):
    """What of Slurm's access is needed here."""

    def node(self, name: str) -> NodeInfo:
        """One node."""

    def set_features(self, node: str, features: Sequence[str]) -> None:
        """All features of a node, available and active."""


def feature_of(dataset: str, content_id: str) -> str:
    """``ds_c4_0123456789ab``: the name and the first digits of the version. Characters that mean
    something in ``--constraint`` become ``_``."""
    version = content_id.removeprefix("c1-")[:_DIGITS]
    return f"{_stem(dataset)}{version}"


def wanted_features(
    current: Sequence[str], dataset: str, says: NodeSays | None, trusted: bool
) -> tuple[str, ...]:
    """The features that a node should have. `dataset`: its name, without a version."""
    silent = says is None or says.data is None or says.problem is not None
    if trusted and (silent or (says is not None and says.told_by is not None)):
        return tuple(current)
    own = re.compile(re.escape(_stem(dataset)) + r"[0-9a-f]{1,12}", re.ASCII)
    held = _held(says) if trusted else None
    feature = None if held is None else feature_of(dataset, held)
    kept = tuple(each for each in current if not own.fullmatch(each) or each == feature)
    return kept if feature is None or feature in kept else (*kept, feature)


def sync_features(
    slurm: HasFeatures, node: NodeInfo, dataset: str, says: NodeSays | None, trusted: bool
) -> str | None:
    """Bring one node's features in step; what was changed, in words, None = nothing.

    Nothing is asked of Slurm where `node`, as read before, is in step already. Raises SlurmError,
    also when the features read afterwards are not those set.
    """
    if wanted_features(node.features, dataset, says, trusted) == node.features:
        return None
    now = slurm.node(node.name)
    wanted = wanted_features(now.features, dataset, says, trusted)
    if wanted == now.features:
        return None
    slurm.set_features(node.name, wanted)
    found = slurm.node(node.name)
    if set(found.features) != set(wanted):
        raise SlurmError(
            f"node {node.name} has features {','.join(found.features)[:200]} after the change, not "
            f"{','.join(wanted)[:200]}: somebody changed them at the same time"
        )
    gone = [f"-{each}" for each in now.features if each not in wanted]
    come = [f"+{each}" for each in wanted if each not in now.features]
    return f"features {' '.join((*come, *gone))}"


def _stem(dataset: str) -> str:
    return f"ds_{_UNFIT.sub('_', dataset)}_"


def _held(says: NodeSays | None) -> str | None:
    data = says.data if says is not None else None
    if data is None or data.state != "ready" or data.problem is not None:
        return None
    return data.content_id if _VERSION.fullmatch(data.content_id or "") else None
