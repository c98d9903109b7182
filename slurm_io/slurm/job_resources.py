"""What a job has of each node: four shapes of ``job_resources`` in JSON.

- 21.08 to 22.05: ``allocated_nodes`` an object keyed by the node's place in ``nodes``; cores by
  number within their socket, so they cannot be told apart where there are several sockets.
- 22.05 to 23.11 (v0.0.38 to .40): a list with ``nodename``; ``allocated_cpus`` and ``cpus_used``
  stay 0 in some releases, which is a defect and not "no CPU".
- v0.0.41 and later: ``nodes.allocation``, with every core of the node and whether it is given out.
- pending: an empty object, or null from 24.11 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.slurm.hostlist import expand, is_name
from slurm_io.slurm.infos import NodeShare
from slurm_io.slurm.words import names_in, number_in, text_in


def shares_of(resources: Any) -> dict[str, NodeShare]:
    """Node -> what the job has of it. Raises SlurmError for a shape that is none of these."""
    if not resources:
        return {}
    if not isinstance(resources, dict):
        raise SlurmError("job_resources that is no object")
    nodes = resources.get("nodes")
    if isinstance(nodes, dict):
        return _checked(_allocation(each) for each in _list(nodes.get("allocation")))
    names = expand(text_in(nodes, "job_resources: nodes"))
    allocated = resources.get("allocated_nodes")
    if isinstance(allocated, dict):
        return _checked(_keyed(key, each, names) for key, each in allocated.items())
    return _checked(_listed(resources, _list(allocated), names))


def _allocation(node: Mapping[str, Any]) -> tuple[str, NodeShare]:
    cpus, memory = _object(node.get("cpus")), _object(node.get("memory"))
    return text_in(node.get("name"), "a node's name"), NodeShare(
        cpus=number_in(cpus.get("count"), "cpus"),
        cores=_given_out(node["sockets"]) if "sockets" in node else None,
        memory_mib=number_in(memory.get("allocated"), "memory"),
    )


def _keyed(key: str, node: Any, names: tuple[str, ...]) -> tuple[str, NodeShare]:
    place = number_in(key, "a node's place")
    if place is None or place >= len(names):
        raise SlurmError(f"job_resources with a node {str(key)[:20]!a} of {len(names)}")
    share = _object(node)
    sockets, cores = _object(share.get("sockets")), _object(share.get("cores"))
    return names[place], NodeShare(
        cpus=number_in(share.get("cpus"), "cpus") or None,
        cores=len(cores) if len(sockets) == 1 and cores else None,
        memory_mib=number_in(share.get("memory"), "memory"),
    )


def _listed(
    resources: Mapping[str, Any], nodes: list[Mapping[str, Any]], names: tuple[str, ...]
) -> Iterable[tuple[str, NodeShare]]:
    for place, node in enumerate(nodes):
        name = text_in(node.get("nodename"), "a node's name")
        if not name and len(nodes) == len(names):
            name = names[place]
        cores = _given_out(node["sockets"]) if "sockets" in node else None
        cpus: int | None = None
        if len(nodes) == 1:  # totals of the job are the node's
            cores = cores or number_in(resources.get("allocated_cores"), "cores") or None
            cpus = number_in(resources.get("allocated_cpus"), "cpus") or None
        memory = number_in(node.get("memory_allocated"), "memory")
        yield name, NodeShare(cpus=cpus, cores=cores, memory_mib=memory)


def _given_out(sockets: Any) -> int | None:
    """Cores whose state says that they are the job's; None where nothing is listed."""
    cores = [core for socket in _values(sockets) for core in _values(_object(socket).get("cores"))]
    return sum(map(_is_given_out, cores)) if cores else None


def _is_given_out(core: Any) -> bool:
    state = core.get("status") if isinstance(core, dict) else core
    words = [each.upper() for each in names_in(state, "a core's state")]
    return any(each.startswith("ALLOCATED") for each in words) or "IN_USE" in words


def _checked(shares: Iterable[tuple[str, NodeShare]]) -> dict[str, NodeShare]:
    found: dict[str, NodeShare] = {}
    for name, share in shares:
        if not is_name(name) or name in found:
            raise SlurmError(f"job_resources with a node {name[:40]!a}, or one that comes twice")
        found[name] = share
    return found


def _list(value: Any) -> list[Mapping[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise SlurmError("job_resources without a list of nodes")
    return value


def _values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
