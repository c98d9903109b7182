"""All spares of a reservation together: how many are ready, how many are needed, their worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from slurm_io.analysis.plan.spares import need
from slurm_io.config import Config
from slurm_io.errors import SpecError
from slurm_io.reservation.history import DONE, PHASES, HistoryRecord
from slurm_io.reservation.model import NodeSays, Pool
from slurm_io.reservation.pool import is_waiting, waiting_nodes
from slurm_io.reservation.status.failures import LEMON_S, WEEK_S, Failures, failures_in
from slurm_io.reservation.status.model import Fleet, Money, SpareStatus
from slurm_io.reservation.status.run import Run
from slurm_io.reservation.status.words import age
from slurm_io.spec import parse_request

CONFIDENCE = 0.99
_MONTH_S = LEMON_S
_WEEK_H = 168.0


@dataclass(frozen=True)
class Seen:
    """What the fleet's line is made of."""

    pool: Pool
    config: Config
    run: Run
    says: Mapping[str, NodeSays]
    history: Sequence[HistoryRecord]
    now_s: float


def fleet_of(seen: Seen, spares: Sequence[SpareStatus]) -> Fleet:
    """Counts, needs, rates; see :class:`~slurm_io.reservation.status.model.Fleet`."""
    settings = seen.config.spares
    failures = failures_in(seen.history, seen.now_s)
    nodes = _run_size(seen)
    rate, rate_base = _rate(seen, failures)
    dispersion = failures.dispersion(seen.now_s)
    needed, needed_base = _needed(nodes, rate, rate_base, settings.covered_h, dispersion)
    money, money_text = _money(seen, spares)
    month = [each for each in seen.history if seen.now_s - each.at_s <= _MONTH_S]
    return Fleet(
        spares=len(spares),
        ready=sum(spare.state == "ready" for spare in spares),
        promised=waiting_nodes(seen.pool),
        wanted=seen.pool.settings.needed,
        run_nodes=nodes,
        needed=needed,
        needed_base=needed_base,
        failures=len(failures.events),
        observed_s=failures.observed_s,
        failures_per_week=failures.per_week,
        rate_per_node_week=rate,
        dispersion=dispersion,
        lemons=failures.lemons(seen.now_s, settings.lemon_count),
        mttr_s=failures.mttr_s,
        repairs=failures.repairs,
        swaps=sum(each.kind == "swap" and each.outcome == DONE for each in month),
        money=money,
        money_text=money_text,
    )


def _run_size(seen: Seen) -> int:
    """Nodes that training needs, running or waiting."""
    return len(seen.run.nodes) + waiting_nodes(seen.pool)


def _rate(seen: Seen, failures: Failures) -> tuple[float, str]:
    """Failures per node and week."""
    assumed = seen.config.spares.failures_per_node_week
    weekly, nodes = failures.per_week, len(seen.pool.nodes)
    if weekly is None or not nodes:
        return assumed, "[spares] failures_per_node_week: the history is shorter than two weeks"
    if not failures.events:
        return assumed, "[spares] failures_per_node_week: the history tells of no failure"
    count, span = len(failures.events), age(failures.observed_s)
    return weekly / nodes, f"{count} failures of {nodes} nodes in {span}"


def _needed(
    nodes: int, rate: float, rate_base: str, cover_h: float, dispersion: float
) -> tuple[int | None, str]:
    if nodes < 1:
        return None, "no protected job runs or waits"
    try:
        found = need(nodes, rate, cover_h, CONFIDENCE, dispersion)
    except ValueError as error:
        return None, str(error)
    model = "Poisson"
    if dispersion > 1:
        model = f"negative binomial: the variance by week is {dispersion:.1f} times the mean"
    return found.spares, (
        f"{nodes} nodes x {rate:.3g} failures per node and week ({rate_base}), "
        f"covered again in {cover_h:g} h, {CONFIDENCE:.0%}, {model}"
    )


def _money(seen: Seen, spares: Sequence[SpareStatus]) -> tuple[Money | None, str]:
    price = _price(seen)
    gpus = [seen.pool.nodes[spare.node].gpus.whole_count for spare in spares]
    if not price:
        return None, "no price of a GPU hour is known ([rules] price_usd_h)"
    if not sum(gpus):
        return None, "Slurm knows of no GPUs in these nodes"
    total = sum(gpus)
    cost = total * _WEEK_H * price
    base = f"{total} GPUs of {len(spares)} spares x 168 h x {price:g} USD, as if they were idle"
    avoided, avoided_base = _avoided(seen, price)
    return Money(cost, base, avoided, avoided_base), ""


def _avoided(seen: Seen, price: float) -> tuple[float | None, str]:
    """What the last month's swaps saved against copying the dataset each time."""
    done = [
        each
        for each in seen.history
        if each.kind == "swap" and each.outcome == DONE and seen.now_s - each.at_s <= _MONTH_S
    ]
    copy_h = _copy_h(seen.says.values())
    if copy_h is None:
        return None, "how long a copy takes is not known: no node has copied it yet"
    if not done:
        return 0.0, "no swap in 30 days"
    swap_h = fmean(sum(each.phases.get(name, 0.0) for name in PHASES) for each in done) / 3600
    gpus = sum(
        seen.pool.nodes[node].gpus.whole_count for node in seen.run.nodes if _known(seen, node)
    )
    saved = len(done) * gpus * max(0.0, copy_h - swap_h) * price / (_MONTH_S / WEEK_S)
    hours = f"({copy_h:.2g} h to copy - {swap_h:.2g} h to swap)"
    swaps = f"{len(done)} swap{'s' * (len(done) > 1)} in 30 days"
    return saved, f"{swaps} x {gpus} GPUs of the run x {hours} x {price:g} USD"


def _known(seen: Seen, node: str) -> bool:
    return node in seen.pool.nodes


def _copy_h(says: Iterable[NodeSays]) -> float | None:
    """Hours that the dataset's bytes take at the rate nodes had when they copied it."""
    times = [
        each.data.total_bytes / each.data.rate_bytes_s / 3600
        for each in says
        if each.data is not None and each.data.total_bytes and each.data.rate_bytes_s
    ]
    return median(times) if times else None


def _price(seen: Seen) -> float | None:
    """USD of one GPU-hour: the job's word, its partition's, the site's."""
    for job in sorted(seen.pool.protected, key=is_waiting):
        try:
            spec = parse_request(job.comment)
        except SpecError:
            spec = None
        of_partition = seen.config.partitions.get(job.partition or "")
        for said in (spec, of_partition):
            if said is not None and said.price_usd_h:
                return said.price_usd_h
    return seen.config.rules.price_usd_h or None
