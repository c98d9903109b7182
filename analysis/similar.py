"""Which public incidents a finding resembles: a pointer to read on, no diagnosis.

An incident (:mod:`slurm_io.incidents`) fits when it lists the finding's rule, when the finding's
evidence shows one of the signs named there (if there are any), and when, if it names file system
types, a mount of the finding is of one of them. Findings that are not proven name none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurm_io.analysis.facts import mapping
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.rules.base import Evidence, Finding
from slurm_io.incidents.library import Incident, Sign, incidents

MOST = 3


def similar(finding: Finding, fstypes: Mapping[str, str]) -> list[str]:
    """Ids of at most `MOST` incidents, those that name the file system first. See `mount_types`."""
    if finding.confidence == "not-proven":
        return []
    here = {fstypes[mount] for mount in finding.where.mounts if mount in fstypes}
    fitting = [one for one in incidents() if _fits(one, finding, here)]
    fitting.sort(key=lambda one: (not one.fstypes, one.id))
    return [one.id for one in fitting[:MOST]]


def mount_types(store: StoreView) -> dict[str, str]:
    """Mount point -> file system type, as the meta.json tell; the first node's word counts."""
    types: dict[str, str] = {}
    for view in store.nodes.values():
        mounts = view.meta.get("mounts")
        for one in mounts if isinstance(mounts, list) else ():
            mount, fstype = mapping(one).get("mount"), mapping(one).get("fstype")
            if isinstance(mount, str) and isinstance(fstype, str):
                types.setdefault(mount, fstype)
    return types


def _fits(incident: Incident, finding: Finding, fstypes: set[str]) -> bool:
    signs = incident.rules.get(finding.rule)
    if signs is None or (incident.fstypes and fstypes.isdisjoint(incident.fstypes)):
        return False
    return not signs or any(_shows(finding.evidence, sign) for sign in signs)


def _shows(evidence: Iterable[Evidence], sign: Sign) -> bool:
    for one in evidence:
        least = one.threshold if sign.least is None else sign.least
        if one.metric == sign.metric and one.value is not None:
            return least is None or one.value >= least
    return False
