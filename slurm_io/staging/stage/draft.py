"""What a stage finds before it changes anything: manifest, folder, record, survey."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping
from dataclasses import dataclass

from slurm_io.errors import HostError, ManifestError
from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.files import open_manifest
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.record import Record
from slurm_io.staging.stage.known import known_by_journal, known_by_table, record_of_here
from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.room import Room
from slurm_io.staging.stage.survey import Survey, Surveyor, nothing_there
from slurm_io.staging.stage.target_folder import open_target
from slurm_io.staging.verify.absent_mount import absent_mount
from slurm_io.staging.verify.expected import FromManifest
from slurm_io.staging.verify.table import Stamp


@dataclass(frozen=True)
class Draft:
    """`record`: the node's, of any version, None when it is not of this folder and machine.
    `by_record`: numbers of files that only the record's table vouches for. `leftovers`: partly
    copied files of earlier runs, path -> (slot, bytes on disk)."""

    order: StageOrder
    manifest: Manifest
    expected: FromManifest
    survey: Survey
    record: Record | None
    by_record: frozenset[int]
    leftovers: Mapping[bytes, tuple[bytes, int]]

    @property
    def content_id(self) -> str:
        """The version that is to be here."""
        return self.manifest.header.content_id

    @property
    def is_ready(self) -> bool:
        """Whether there is nothing to do, not even a look."""
        survey, record = self.survey, self.record
        return (
            record is not None
            and record.state == "ready"
            and record.content_id == self.content_id
            and len(survey.proven) + len(survey.sized) == self.expected.count
            and (not survey.sized or self.order.accept_sizes)
            and not survey.extra
        )

    def copied_anew(self) -> list[int]:
        """Numbers of the files that are to be copied for sure."""
        survey, repair = self.survey, self.order.repair
        wanted = [*survey.to_copy, *(survey.blocked if self.order.delete_extra else ())]
        if repair is None:
            return wanted
        return [index for index in wanted if self.expected.files[index].path in repair]


def wanted_manifest(order: StageOrder) -> Manifest:
    """The manifest, of the version that is wanted. Raises ManifestError."""
    manifest = open_manifest(order.manifest)
    if order.content_id not in (None, manifest.header.content_id):
        raise ManifestError(
            f"{order.manifest}: describes {manifest.header.content_id}, but {order.content_id} is "
            "wanted: give the manifest of that version"
        )
    if order.repair is not None:
        known = {entry.path for entry in manifest.files}
        unknown = sorted(order.repair - known)
        if unknown:
            raise ManifestError(
                f"the repair list names {unknown[0]!a:.120}, which this version does not have"
            )
    return manifest


def draft(order: StageOrder, manifest: Manifest) -> Draft:
    """Look, and change nothing. Raises SlurmIoError."""
    expected = _expected(manifest)
    missing = absent_mount(order.path)
    if missing is not None:
        raise HostError(f"nothing is mounted at {missing}: the copy would fill another file system")
    try:
        tree = open_target(order.path)
    except FileNotFoundError:
        return Draft(order, manifest, expected, nothing_there(expected), None, frozenset(), {})
    except OSError as error:
        raise HostError(f"the folder {order.path!a} cannot be opened: {error.strerror}") from error
    with tree:
        return _of_tree(order, manifest, expected, tree)


def _expected(manifest: Manifest) -> FromManifest:
    try:
        return FromManifest(manifest.header, manifest.files)
    except ValueError as error:
        raise ManifestError(str(error)) from error


def _of_tree(order: StageOrder, manifest: Manifest, expected: FromManifest, tree: Folder) -> Draft:
    record = record_of_here(order, tree)
    suspects = _suspects(order, expected)
    by_table = known_by_table(order, record, manifest, expected)
    journal = known_by_journal(order, manifest, tree)
    known = {**by_table, **journal}
    survey = _survey(order, manifest, expected, tree, known, suspects)
    by_record = frozenset(i for i, stamp in survey.proven.items() if journal.get(i) != stamp)
    leftovers = _leftovers(tree, manifest)
    return Draft(order, manifest, expected, survey, record, by_record, leftovers)


def _survey(
    order: StageOrder,
    manifest: Manifest,
    expected: FromManifest,
    tree: Folder,
    known: Mapping[int, Stamp],
    suspects: Container[int],
) -> Survey:
    links = manifest.header.links is not None
    try:
        surveyor = Surveyor(tree, order.path, expected, known, suspects, order.debris_age_s, links)
        return surveyor.look()
    except OSError as error:
        raise HostError(f"the folder {order.path!a} cannot be read: {error.strerror}") from error


def _suspects(order: StageOrder, expected: FromManifest) -> frozenset[int]:
    """Files of the repair list: their stamps say nothing."""
    if order.repair is None:
        return frozenset()
    return frozenset(i for i, e in enumerate(expected.files) if e.path in order.repair)


def _leftovers(tree: Folder, manifest: Manifest) -> dict[bytes, tuple[bytes, int]]:
    room = Room.found(tree.fd)
    if room is None:
        return {}
    with contextlib.closing(room):
        found = room.leftovers(manifest.header.content_id)
    return {path: (slot, facts.st_blocks * 512) for path, (slot, facts) in found.items()}
