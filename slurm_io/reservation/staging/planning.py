"""From a wish to a plan: which reservation, which version, who has it, who lacks it."""

from __future__ import annotations

from dataclasses import replace

from slurm_io.config import Config
from slurm_io.errors import UsageError
from slurm_io.reservation.asking import ask_nodes
from slurm_io.reservation.model import Pool, Reach
from slurm_io.reservation.pool import read_pool
from slurm_io.reservation.staging import choosing
from slurm_io.reservation.staging.model import Donor, NodesPlan, Target, Wish
from slurm_io.slurm.base import SlurmReader
from slurm_io.slurm.hostlist import is_name
from slurm_io.staging.manifest.files import read_header
from slurm_io.staging.stage.ordering import s3_places
from slurm_io.staging.verify.by_hand import from_registry

_PLACES = ("s3", "path")


def plan_nodes(slurm: SlurmReader, reach: Reach, config: Config, wish: Wish) -> NodesPlan:
    """Ask the pool's nodes and decide. Changes nothing.

    Raises UsageError, SpecError, ManifestError, SlurmError for a wish that cannot be planned.
    """
    name, _, asked_id = wish.name.partition("@")
    reservation = wish.reservation or reservation_of(config, name)
    places, givers = split_sources(wish.sources)
    content_id = asked_id or wanted_id(config, wish)
    pool = _pool_for(read_pool(slurm, config, reservation), f"{name}@{content_id}", wish.tier)
    says = ask_nodes(reach, pool, config, pool.nodes, wish.config_path)
    takers, ready, refused = choosing.targets(pool, wish.targets, says, content_id, config.stage)
    donors: tuple[Donor, ...] = ()
    if not places:
        others = {node: said for node, said in says.items() if node not in _names(takers)}
        donors, no_donors = choosing.donors(pool, others, content_id, config.stage, givers)
        refused |= {node: why for node, why in no_donors.items() if node not in refused}
    rate = choosing.known_rate(says)
    return NodesPlan(
        name=name,
        content_id=content_id,
        reservation=reservation,
        targets=takers,
        donors=donors,
        places=places or other_places(config, wish, donors),
        excluded=refused,
        ready=ready,
        rate_bytes_s=rate,
        eta_s=choosing.estimate_s(takers, donors, rate),
        problem=_problem(wish, config, donors, places, refused),
    )


def reservation_of(config: Config, dataset: str) -> str:
    """The one reservation whose nodes must hold this dataset. Raises UsageError."""
    found = [
        name
        for name, each in config.reservations.items()
        if each.dataset.partition("@")[0] == dataset
    ]
    if len(found) == 1:
        return found[0]
    if not found and dataset not in config.datasets:
        from_registry(config, dataset, None)  # says which there are
    known = ", ".join(found) or "none has it as its dataset"
    raise UsageError(f"which reservation's nodes? Give --reservation ({known})")


def wanted_id(config: Config, wish: Wish) -> str:
    """The version that this machine's configuration and manifest name. Raises UsageError."""
    what = from_registry(config, wish.name, wish.tier)
    if what.content_id is not None:
        return what.content_id
    if what.manifest is None:
        raise UsageError(f"which version? Give {what.name}@CONTENT-ID, or set its manifest")
    return read_header(what.manifest).content_id


def split_sources(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Places that targets read themselves, and nodes that give; both empty = the site's choice.
    Raises UsageError."""
    places = tuple(each for each in words if each in _PLACES or "/" in each)
    givers = tuple(each for each in words if each not in places and each != "peer")
    for each in givers:
        if not is_name(each):
            raise UsageError(f"--from {each!a:.60}: give peer, a node, s3, path or a place")
    if places and ("peer" in words or givers):
        raise UsageError("--from: either nodes, or places: not both at once")
    return places, givers


def _pool_for(pool: Pool, dataset: str, tier: str | None) -> Pool:
    """The same pool, to be asked about this dataset."""
    settings = replace(pool.settings, dataset=dataset, tier=tier or pool.settings.tier)
    return replace(pool, settings=settings)


def other_places(config: Config, wish: Wish, donors: tuple[Donor, ...]) -> tuple[str, ...]:
    """Where nobody was named and no node has it: the first other kind of the site's order that the
    dataset has. Raises ManifestError."""
    if donors or wish.sources or "peer" not in config.stage.engines:
        return ()
    what = from_registry(config, wish.name, wish.tier)
    known = {"path": bool(config.datasets[what.name].shared) and what.tier == "local",
             "s3": what.manifest is not None and bool(s3_places(what.manifest))}  # fmt: skip
    return tuple(each for each in config.stage.engines if known.get(each))[:1]


def _problem(
    wish: Wish, config: Config, donors: tuple[Donor, ...], places: tuple[str, ...],
    refused: dict[str, str],
) -> str | None:  # fmt: skip
    named = [node for node in wish.targets if node in refused]
    if named:
        return f"{named[0]} cannot be a target: {refused[named[0]]}"
    if donors or places or other_places(config, wish, donors):
        return None
    if any(each != "peer" for each in wish.sources):
        return "none of the named nodes holds this version: leave --from out, or name others"
    if wish.sources:
        return "no healthy node holds this version: give --from s3 or --from path"
    return (
        f"no healthy node holds this version, and neither [dataset.{wish.name.partition('@')[0]}] "
        "shared nor an s3:// source of its manifest is set: give --from /FOLDER or --from s3://…"
    )


def _names(takers: tuple[Target, ...]) -> set[str]:
    return {each.node for each in takers}
