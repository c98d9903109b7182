"""F20: GPUs run slower than they could.

What it flags
-------------
A busy GPU lowers its clocks because it is too hot or because the machine tells it to, runs at a
clearly lower clock than the others of its model, or hangs on a PCIe link with fewer lanes or an
older generation than both ends can do.

Why it matters
--------------
One slowed GPU holds every other of a synchronous job, and all of them look fine. It is no matter of
storage, and no faster file system mends it.

Evidence
--------
The driver's own clock event reasons, SM clocks, temperature and PCIe link, once a second, only
while the GPU was busy: idle GPUs lower clocks and link to save power. A lower clock beside other
GPUs of the same model is independent of the reasons the driver gives; both together are proof.

What to do
----------
Heat: air flow, fans, dust, the room. Power brake: power supplies and the rack's limits. PCIe: take
the node out, reseat the card or replace its riser, and check the BIOS setting of the slot.

Known false alarms
------------------
The software power cap is not counted: a GPU that works at full power shows it all the time. Clocks
locked or capped by the admin for all GPUs of a model make no difference between them. A platform
whose slots are narrower by design shows the same on every node. Clocks of different models are not
compared; a GPU with clearly heavier work than its neighbours reaches the power cap at a lower
clock. On AMD GPUs only clocks and links are judged, for their mask means other things.

Thresholds
----------
``thresholds.gpu_slowed_share`` (10 % of the looks at the busy GPU); a median clock below 85 % of
the others' (at least three of them); 90 % of the looks for a link; at least 30 looks.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_io.analysis.gpu_state import GpuState, GpuStates, find_gpu_states
from slurm_io.analysis.picture import Confidence, Picture
from slurm_io.analysis.rule_limits import GpuSlowed
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    no_rows,
    shortness,
    sure,
)

_MOST_NAMED = 8


@RULES.register("f20_gpu_slowed")
class GpuIsSlowed:
    """GPUs run slower than they could."""

    code = "F20"
    title = "GPUs slowed by heat, power or a poor PCIe link"
    needs: Needs = "watch"

    def judge(self, picture: Picture) -> Answer:
        """One finding for clocks, one for links."""
        limits = picture.thresholds.rules.gpu
        seen = find_gpu_states(picture.tables, picture.watch.spans, limits)
        if not seen.recorded:
            return no_rows("gpu")
        if not seen.gpus:
            return Answer("quiet", "no whole GPU was busy for long enough")
        found = [
            finding
            for finding in (_clocks(picture, seen, limits), _links(picture, seen, limits))
            if finding is not None
        ]
        if found:
            return Answer("fired", findings=tuple(found))
        return Answer("quiet", f"{len(seen.gpus)} GPUs ran at their clocks")


def _clocks(picture: Picture, seen: GpuStates, limits: GpuSlowed) -> Finding | None:
    hot = [one for one in seen.gpus if (one.heat_share or 0.0) >= limits.share]
    braked = [one for one in seen.gpus if (one.brake_share or 0.0) >= limits.share]
    lagging = [one for one in seen.gpus if _lags(one, limits)]
    slowed = list({(one.node, one.gpu): one for one in (*hot, *braked, *lagging)}.values())
    if not slowed:
        return None
    told = {(one.node, one.gpu) for one in (*hot, *braked)}
    both = bool(told & {(one.node, one.gpu) for one in lagging})
    evidence = [
        *_shares(hot, "heat_share", "lowered its clocks for heat", limits),
        *_shares(braked, "brake_share", "was braked from outside", limits),
        *_lower(lagging, limits),
    ]
    return Finding(
        rule="F20",
        severity="warn",
        confidence=_confidence(seen, 1 + both),
        title=f"{_count(slowed)} slowed{_why(hot, braked)}",
        lost_gpu_s=None,
        where=_place(picture, slowed),
        evidence=(*evidence, *_doubt(seen), *shortness(picture)),
        remedy=_clock_remedy(bool(hot), bool(braked)),
        commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK", "dcgmi diag -r 2"),
        elsewhere=True,  # a slow link is not: copies to the GPU may be hidden behind its work
    )


def _lags(one: GpuState, limits: GpuSlowed) -> bool:
    if one.clock_mhz is None or not one.peers_clock_mhz:
        return False
    return one.clock_mhz < limits.clock_ratio * one.peers_clock_mhz


def _shares(gpus: list[GpuState], metric: str, what: str, limits: GpuSlowed) -> Iterable[Evidence]:
    for one in sorted(gpus, key=lambda one: -(getattr(one, metric) or 0.0))[:_MOST_NAMED]:
        share = getattr(one, metric)
        heat = f", at most {one.temperature_c:.0f} °C" if one.temperature_c is not None else ""
        text = f"{_name(one)} {what} in {share:.0%} of {one.looks} looks at it while busy{heat}"
        yield Evidence(text, metric, share, limits.share)


def _lower(gpus: list[GpuState], limits: GpuSlowed) -> Iterable[Evidence]:
    for one in gpus[:_MOST_NAMED]:
        assert one.clock_mhz is not None and one.peers_clock_mhz is not None
        text = (
            f"{_name(one)} ran at {one.clock_mhz:.0f} MHz, the others of its model at "
            f"{one.peers_clock_mhz:.0f} MHz (medians while busy)"
        )
        limit = limits.clock_ratio * one.peers_clock_mhz
        yield Evidence(text, "sm_clock_mhz", one.clock_mhz, limit)


def _links(picture: Picture, seen: GpuStates, limits: GpuSlowed) -> Finding | None:
    poor = [
        one
        for one in seen.gpus
        if max(one.narrow_share or 0.0, one.old_gen_share or 0.0) >= limits.link_share
    ]
    if not poor:
        return None
    everywhere = len(poor) == len(seen.gpus) and len(poor) > 1
    evidence = [
        Evidence(
            f"{_name(one)}: {one.link}",
            "pcie_link_share", max(one.narrow_share or 0.0, one.old_gen_share or 0.0),
            limits.link_share,
        )
        for one in poor[:_MOST_NAMED]
    ]  # fmt: skip
    if everywhere:
        evidence.append(Evidence("so do all GPUs: it may be how the platform is built", "gpus"))
    return Finding(
        rule="F20",
        severity="info" if everywhere else "warn",
        confidence=_confidence(seen, 1),
        title=f"{_count(poor)} on a PCIe link below what both ends can do",
        lost_gpu_s=None,
        where=_place(picture, poor),
        evidence=(*evidence, *_doubt(seen), *shortness(picture)),
        remedy="take the node out, reseat the card or its riser, and look at the slot's setting in "
        "the BIOS; it slows copies to the GPU and GPUDirect Storage",
        commands=(
            "nvidia-smi -q | grep -A12 'GPU Link Info'",
            "lspci -vv | grep -E 'NVIDIA|LnkSta:'",
        ),
    )


def _confidence(seen: GpuStates, signals: int) -> Confidence:
    """Of GPUs that may be another job's nothing is proven."""
    return sure(signals) if seen.are_ours else "not-proven"


def _doubt(seen: GpuStates) -> list[Evidence]:
    if seen.are_ours:
        return []
    return [Evidence("which GPUs were the job's is not known; all were looked at", "gpus")]


def _place(picture: Picture, gpus: list[GpuState]) -> Place:
    nodes = tuple(sorted({one.node for one in gpus}))
    ranks = sorted(
        process.rank
        for process in picture.timeline.processes
        if process.rank is not None and process.node in nodes
    )
    # One rank a node: it is that rank's GPU. Else which rank used which GPU is not looked up here.
    alone = len(ranks) == len(nodes)
    return Place(nodes=nodes, ranks=tuple(ranks) if alone else ())


def _why(hot: list[GpuState], braked: list[GpuState]) -> str:
    causes = [*(["heat"] if hot else []), *(["a power brake"] if braked else [])]
    return f" by {' and '.join(causes)}" if causes else ": lower clocks than the others"


def _clock_remedy(hot: bool, braked: bool) -> str:
    parts = []
    if hot:
        parts.append("look after cooling (air flow, fans, dust, inlet temperature)")
    if braked:
        parts.append("look at power supplies and the rack's power limit")
    return "; ".join(parts) or "compare power and clock limits of this GPU with the others'"


def _count(gpus: list[GpuState]) -> str:
    return f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}"


def _name(one: GpuState) -> str:
    return f"GPU {one.gpu} of {one.node}"
