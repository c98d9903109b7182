"""Who gives and who takes. Pure: judges what the nodes said of themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slurm_io.config import StageConfig
from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.pool import is_on_nodes, jobs_on
from slurm_io.reservation.staging.model import Donor, DonorKind, Target
from slurm_io.slurm.infos import NodeInfo

_ORDER: tuple[DonorKind, ...] = ("spare", "idle", "training")


def donors(
    pool: Pool,
    says: Mapping[str, NodeSays],
    content_id: str,
    settings: StageConfig,
    wanted: Sequence[str] = (),
) -> tuple[tuple[Donor, ...], dict[str, str]]:
    """Nodes that hold this version, best first: spares, then idle nodes, then those that train,
    which give no more than `training_donor_bytes_s`. `wanted`: only these may give, if any.

    Why the others do not give comes beside it.
    """
    found: list[Donor] = []
    refused: dict[str, str] = {}
    for node in says:
        if wanted and node not in wanted:
            continue
        why = _why_not(says[node], content_id)
        kind = kind_of(pool, node)
        if why is None and kind == "training" and not settings.training_donor_bytes_s:
            why = "a job runs there, and [stage] training_donor_bytes_s is 0"
        if why is not None:
            refused[node] = why
            continue
        most = settings.training_donor_bytes_s if kind == "training" else 0
        found.append(Donor(node, kind, host_of(pool.nodes[node], settings), most))
    refused |= {node: "it is no node of this pool" for node in wanted if node not in says}
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.kind))), refused


def targets(
    pool: Pool, names: Sequence[str], says: Mapping[str, NodeSays], content_id: str,
    settings: StageConfig,
) -> tuple[tuple[Target, ...], tuple[str, ...], dict[str, str]]:  # fmt: skip
    """Nodes to copy to; those that are ready already; and why others cannot be."""
    found: list[Target] = []
    ready: list[str] = []
    refused: dict[str, str] = {}
    for name in dict.fromkeys(names):
        info, said = pool.nodes.get(name), says.get(name)
        if info is None:
            refused[name] = "it is no node of this reservation, nor one of its standby"
        elif (why := _busy(pool, name)) is not None:
            refused[name] = why
        elif said is None or said.problem is not None:
            refused[name] = "it gives no answer" if said is None else str(said.problem)
        elif _why_not(said, content_id) is None:
            ready.append(name)
        else:
            behind = None if said.data is None else said.data.bytes_behind
            found.append(Target(name, host_of(info, settings), behind))
    return tuple(found), tuple(ready), refused


def kind_of(pool: Pool, node: str) -> DonorKind:
    """Filler gives way, so a spare with filler on it is a spare."""
    if any(is_on_nodes(job) and node in job.nodes for job in (*pool.protected, *pool.foreign)):
        return "training"
    return "spare" if node in pool.spares and node in pool.reservation.nodes else "idle"


def host_of(node: NodeInfo, settings: StageConfig) -> str:
    """By which name others reach it for data."""
    if settings.peer_host:
        return settings.peer_host.replace("%N", node.name)
    return node.address or node.name


def estimate_s(
    takers: Sequence[Target], givers: Sequence[Donor], rate_bytes_s: float | None
) -> float | None:
    """Time until the last is ready: who is ready gives to the next (doubling)."""
    behind = [each.bytes_behind for each in takers]
    if not takers or rate_bytes_s is None or None in behind:
        return None
    most = max(each for each in behind if each is not None)
    rounds = 1
    if givers:
        rounds = math.ceil(math.log2((len(takers) + len(givers)) / len(givers)))
        rate_bytes_s = min(
            [rate_bytes_s, *(each.most_bytes_s for each in givers if each.most_bytes_s)]
        )
    return max(1, rounds) * most / rate_bytes_s


def known_rate(says: Mapping[str, NodeSays]) -> float | None:
    """The slowest copy that these nodes remember; None where none does."""
    rates = [each.data.rate_bytes_s for each in says.values() if each.data is not None]
    return min((rate for rate in rates if rate), default=None)


def _busy(pool: Pool, node: str) -> str | None:
    protected = [job for job in jobs_on(pool, node) if job not in pool.filler]
    if not protected:
        return None
    return f"job {protected[0].job_id} runs there and may read what a copy would replace"


def _why_not(said: NodeSays, content_id: str) -> str | None:
    data = said.data
    if said.problem is not None:
        return said.problem
    if data is None or data.state != "ready":
        return f"its copy is {data.state if data is not None else 'not recorded'}"
    if data.content_id != content_id:
        return f"it holds another version, {str(data.content_id)[:20]}"
    return data.problem
