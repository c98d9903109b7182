"""What a stage would do: from the manifest and this node, with no listing of any source."""

from __future__ import annotations

from slurm_io.errors import HostError
from slurm_io.staging.manifest.paths import decode_path, encode_path
from slurm_io.staging.stage.choosing import engine_for
from slurm_io.staging.stage.demands import unmet
from slurm_io.staging.stage.draft import Draft, draft, wanted_manifest
from slurm_io.staging.stage.model import SourceSpec, StagePlan
from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.rates import known_rate
from slurm_io.staging.stage.space import Space, needed_bytes, space_at

LISTED_MAX = 100


def plan(order: StageOrder) -> StagePlan:
    """What :func:`slurm_io.staging.stage.run.stage` would do; changes nothing.

    Raises SlurmIoError when manifest, folder or state cannot be used.
    """
    return plan_of(draft(order, wanted_manifest(order)))


def plan_of(found: Draft) -> StagePlan:
    """The plan that a draft leads to."""
    order, survey, files = found.order, found.survey, found.expected.files
    todo = found.copied_anew()
    copy_bytes = sum(files[index].size_bytes or 0 for index in todo)
    kept = [*survey.proven, *survey.sized]
    usable, engines, notes = _sources(order)
    space = _space(found, todo, copy_bytes)
    rate = known_rate(order.state_dir, order.name, engines)
    kept_bytes = sum(files[index].size_bytes or 0 for index in kept)
    problem = _problem(found, todo, usable)
    if todo and problem is None:
        header = found.manifest.header
        problem = unmet(header, order.path, space.free_bytes, kept_bytes, order.roots)
    return StagePlan(
        name=order.name,
        tier=order.tier,
        path=order.path,
        content_id=found.content_id,
        sources=usable,
        to_copy=len(todo),
        copy_bytes=copy_bytes,
        kept_files=len(kept),
        kept_bytes=kept_bytes,
        kept_level=1 if survey.sized else 4,
        free_bytes=space.free_bytes,
        debris_bytes=sum(survey.debris.values()),
        short_bytes=space.short_bytes,
        short_inodes=space.short_inodes,
        rate_bytes_s=rate,
        eta_s=copy_bytes / rate if rate else None,
        notes=(*notes, *_notes(found)),
        to_hash=len(survey.unproven),
        hash_bytes=sum(files[index].size_bytes or 0 for index in survey.unproven),
        extra=tuple(decode_path(raw) for raw in survey.extra[:LISTED_MAX]),
        extra_count=len(survey.extra),
        problem=problem,
    )


def _sources(order: StageOrder) -> tuple[tuple[SourceSpec, ...], frozenset[str], tuple[str, ...]]:
    """Those that can be used now, by which engines, and why the others cannot."""
    usable, engines, notes = [], set(), []
    for source in order.sources:
        found = engine_for(source, order.engine, order.bandwidth_bytes_s > 0)
        if isinstance(found, str):
            notes.append(f"not usable: {found}")
            continue
        found[1].close()
        usable.append(source)
        engines.add(found[0])
    return tuple(usable), frozenset(engines), tuple(notes)


def _space(found: Draft, todo: list[int], copy_bytes: int) -> Space:
    order, survey = found.order, found.survey
    raw_paths = [encode_path(found.expected.files[index].path) for index in todo]
    there = sum(found.leftovers[raw][1] for raw in raw_paths if raw in found.leftovers)
    replaced = [survey.replaced_bytes.get(index, 0) for index in todo]
    given_back = sum(survey.debris.values())
    needed = needed_bytes(copy_bytes, replaced, there, given_back, order.streams)
    new_files = len(todo) - len(survey.replaced_bytes)
    try:
        return space_at(order.path, order.free_share, needed, new_files)
    except OSError as error:
        raise HostError(f"the space at {order.path!a} cannot be told: {error.strerror}") from error


def _problem(found: Draft, todo: list[int], usable: tuple[SourceSpec, ...]) -> str | None:
    """Why nothing can be copied."""
    if todo and not usable:
        return "no source can be used: give one with --from"
    blocked = found.survey.blocked
    if blocked and not found.order.delete_extra:
        return f"{len(blocked)} files cannot get their names: {next(iter(blocked.values()))}"
    return None


def _notes(found: Draft) -> tuple[str, ...]:
    survey, order = found.survey, found.order
    notes = []
    if survey.unproven:
        notes.append(
            f"{len(survey.unproven)} files of the right size were never proven here: they are "
            "hashed first, and copied where they are bad"
        )
    without = sum(entry.digest is None for entry in found.expected.files)
    if without:
        what = "" if order.accept_sizes else "; not called ready without --accept-sizes"
        notes.append(f"{without} files have no digest in the manifest: sizes only{what}")
    if survey.extra and not order.delete_extra:
        notes.append(f"{len(survey.extra)} extra entries stay (--delete-extra removes them)")
    partly = len(found.leftovers)
    if partly:
        notes.append(f"{partly} partly copied files of an earlier run are gone on with")
    return tuple(notes)
