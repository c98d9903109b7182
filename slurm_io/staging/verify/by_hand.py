"""A verify that a person asks for: finds place, manifest and record, may keep what it proves."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from slurm_io.config import Config
from slurm_io.errors import HostError, SlurmIoError, UsageError
from slurm_io.slurm.node_name import node_name
from slurm_io.spec import JobSpec
from slurm_io.staging import record as records
from slurm_io.staging.datasets import Names, Tier, place_of
from slurm_io.staging.manifest.files import open_manifest
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.record import Record
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.identity import Roots
from slurm_io.staging.verify.journal import Journal
from slurm_io.staging.verify.keep import keep, record_of
from slurm_io.staging.verify.model import VerifyAnswer
from slurm_io.staging.verify.table import Table
from slurm_io.staging.verify.work import Options


@dataclass(frozen=True)
class What:
    """One dataset in one folder. `content_id` None: the manifest's version."""

    name: str
    tier: Tier
    path: str
    manifest: str | None
    content_id: str | None = None


@dataclass(frozen=True)
class How:
    """`level` 0..4; `keep_record` writes what was proven into `state_dir`."""

    level: int
    budget_s: float | None
    keep_record: bool
    state_dir: str
    options: Options = field(default_factory=Options)
    roots: Roots = field(default_factory=Roots)


def from_registry(config: Config, asked: str, tier: str | None) -> What:
    """The dataset NAME or NAME@content-id of this site. Raises SpecError."""
    names = Names(node_name(os.environ), getpass.getuser())
    place = place_of(config, JobSpec(dataset=asked, tier=tier), names)
    assert place is not None
    return What(place.name, place.tier, place.path, place.manifest, place.content_id)


def from_paths(path: str, manifest: str | None, tier: str | None) -> What:
    """A folder and a manifest outside the registry."""
    real = os.path.realpath(path)
    return What(real, "shared" if tier == "shared" else "local", real, manifest)


def verify_by_hand(what: What, how: How) -> tuple[VerifyAnswer, Record | None, str]:
    """The answer, the record that was written, and why none was ("" when none was asked for).

    Raises SlurmIoError when manifest or state folder cannot be used.
    """
    if how.keep_record and how.level < 1:
        raise UsageError("a record needs level 1 or deeper: level 0 proves nothing new")
    if how.keep_record and what.manifest is None:
        raise UsageError("a record needs a manifest: give --manifest, or set it in [dataset.NAME]")
    manifest = open_manifest(what.manifest) if what.manifest and how.level > 0 else None
    content_id = what.content_id or _id_of(what, manifest)
    with contextlib.ExitStack() as stack:
        folder = None
        if how.keep_record:
            folder = stack.enter_context(records.locked(how.state_dir, what.name, what.tier))
        record, table, problem = _known(what, how, stack)
        target = Target(
            path=what.path,
            content_id=content_id,
            manifest=manifest,
            record=record,
            table=table,
            record_problem=problem,
            keep_proof=how.keep_record,
            journal=_journal(stack, folder, how, what, content_id),
            roots=how.roots,
        )
        answer = verify(target, how.level, how.budget_s, _options(what, how, record, content_id))
        if folder is None or manifest is None:
            return answer, None, ""
        return _kept(folder, answer, what, manifest, record, target.journal)


def _kept(
    folder: int,
    answer: VerifyAnswer,
    what: What,
    manifest: Manifest,
    old: Record | None,
    journal: Journal | None,
) -> tuple[VerifyAnswer, Record | None, str]:
    try:
        record = record_of(answer, what.name, what.tier, what.path, manifest, old)
    except HostError as error:
        return answer, None, str(error)
    assert answer.proof is not None
    record = keep(folder, record, answer.proof)
    if journal is not None and answer.level == 4:
        journal.remove()
    return answer, record, ""


def _id_of(what: What, manifest: Manifest | None) -> str | None:
    if manifest is not None:
        return manifest.header.content_id
    if what.manifest is None:
        return None
    from slurm_io.staging.manifest.files import read_header

    return read_header(what.manifest).content_id


def _known(
    what: What, how: How, stack: contextlib.ExitStack
) -> tuple[Record | None, Table | None, str | None]:
    """Record, its table, and why they cannot be used."""
    try:
        record = records.load(how.state_dir, what.name, what.tier)
        table = None if record is None else records.open_table(how.state_dir, record)
    except SlurmIoError as error:
        return None, None, str(error)
    if table is not None:
        stack.callback(table.close)
    return record, table, None


def _journal(
    stack: contextlib.ExitStack, folder: int | None, how: How, what: What, content_id: str | None
) -> Journal | None:
    if folder is None or how.level < 4 or content_id is None:
        return None
    with contextlib.suppress(OSError):
        return stack.enter_context(Journal(folder, content_id, os.stat(what.path).st_ino))
    return None


def _options(what: What, how: How, record: Record | None, content_id: str | None) -> Options:
    cursor = how.options.cursor
    if cursor is None and how.keep_record:
        same = record is not None and record.content_id == content_id
        cursor = record.cursor if same and record is not None else 0
    return replace(how.options, cursor=cursor, ignore=frozenset(_own_files(what)))


def _own_files(what: What) -> Iterator[bytes]:
    """The manifest, where it lies inside the dataset."""
    if what.manifest is not None:
        inside = os.path.relpath(os.path.realpath(what.manifest), os.path.realpath(what.path))
        if not inside.startswith("../"):
            yield encode_path(inside)
