"""The run that spares stand by for: its nodes, its version of the dataset, what is usual there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm_io.config import Config
from slurm_io.errors import SpecError
from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.pool import is_on_nodes
from slurm_io.spec import parse_request


@dataclass(frozen=True)
class Run:
    """`nodes` of protected jobs now. `content_id` of what they read, `base` who says so. `usual`:
    drift name -> what most of the run's nodes that answered have."""

    nodes: tuple[str, ...]
    content_id: str | None
    base: str
    usual: Mapping[str, str] = field(default_factory=dict)
    answered: int = 0


def run_nodes(pool: Pool) -> tuple[str, ...]:
    """Nodes on which protected jobs run, each once."""
    found = (node for job in pool.protected if is_on_nodes(job) for node in job.nodes)
    return tuple(dict.fromkeys(found))


def run_of(pool: Pool, config: Config, says: Mapping[str, NodeSays]) -> Run:
    """What is known of the run, with what nodes said."""
    nodes = run_nodes(pool)
    answers = [says[node] for node in nodes if node in says and says[node].problem is None]
    names = {name for each in answers for name in each.drift}
    usual = {name: most_common(each.drift.get(name) for each in answers) for name in names}
    content_id, base = _content_id(pool, config, answers, says)
    return Run(
        nodes=nodes,
        content_id=content_id,
        base=base,
        usual={name: value for name, value in usual.items() if value is not None},
        answered=len(answers),
    )


def most_common(values: Iterable[str | None]) -> str | None:
    """The most frequent of the known values; None without any."""
    known = Counter(value for value in values if value is not None)
    return known.most_common(1)[0][0] if known else None


def _content_id(
    pool: Pool, config: Config, answers: list[NodeSays], says: Mapping[str, NodeSays]
) -> tuple[str | None, str]:
    """The job's own word counts most, then what its nodes hold, then what the site says."""
    name, _, named = pool.settings.dataset.partition("@")
    if not name:
        return None, "no dataset is set for this reservation"
    asked = {_asked(job.comment, name) for job in pool.protected} - {None}
    if len(asked) == 1:
        return asked.pop(), "the job asks for it"
    if named:
        return named, f"[reservation.{pool.name}]"
    held = most_common(each.data.content_id for each in answers if each.data is not None)
    if held is not None:
        return held, "what the run's nodes hold"
    if name in config.datasets and config.datasets[name].content_id:
        return config.datasets[name].content_id, f"[dataset.{name}]"
    wanted = most_common(each.data.wanted_id for each in says.values() if each.data is not None)
    return wanted, "the manifest" if wanted else "no node could tell"


def _asked(comment: str, name: str) -> str | None:
    """The version a job's comment names; None for none, another dataset or nonsense."""
    try:
        spec = parse_request(comment)
    except SpecError:
        return None
    dataset = spec.dataset if spec is not None else None
    asked_name, _, content_id = (dataset or "").partition("@")
    return content_id or None if asked_name == name else None
