"""A verify on a job's way to its start: the node's record first, a small manifest if need be.

Standard library only, and bounded in time and CPU: the prolog runs it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, cast

from slurm_io.errors import HostError, ManifestError
from slurm_io.records import replace
from slurm_io.staging import record as records
from slurm_io.staging.datasets import Place
from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.record import Record
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.identity import Roots
from slurm_io.staging.verify.model import Deadline, VerifyAnswer
from slurm_io.staging.verify.table import Table
from slurm_io.staging.verify.work import Options

DEEPEST = 3
_READING_SHARE = 0.5


class Looked(NamedTuple):
    """The answer, the record it could draw on, and why some things were not looked at.

    `described`: the version that the manifest describes, when another one is wanted and no record
    of this node can speak for that: a FAIL, because nothing here could ever prove it.
    """

    answer: VerifyAnswer
    record: Record | None
    notes: tuple[str, ...]
    described: str | None = None


class NodeLook:
    """One look at one place. `record_command` keeps a record; hints name it."""

    def __init__(
        self,
        place: Place,
        state_dir: str,
        manifest_files_max: int,
        record_command: str,
        roots: Roots | None = None,
    ) -> None:
        self._place = place
        self._state_dir = state_dir
        self._manifest_files_max = manifest_files_max
        self._record_command = record_command
        self._roots = roots or Roots()
        self._notes: list[str] = []

    def look(self, budget_s: float, options: Options) -> Looked:
        """Verify to the dataset's own level. Raises nothing for what is wrong with the data."""
        deadline = Deadline(budget_s)
        record, table, problem = self._record()
        try:
            target = Target(
                path=self._place.path,
                content_id=self._wanted(),
                record=record,
                table=table,
                record_problem=problem,
                roots=self._roots,
            )
            answer = self._verify(target, deadline, options)
            if answer.answer != "UNKNOWN" or answer.used_record:
                return Looked(answer, record, tuple(self._notes))
            described = self._described_instead()
            if described is not None:
                self._notes.append(f"any file: {answer.text}")
                answer = replace(answer, answer="FAIL")
            elif answer.asked_level > 0:
                manifest = self._manifest(deadline)
                if manifest is not None:
                    answer = self._verify(replace(target, manifest=manifest), deadline, options)
            return Looked(answer, record, tuple(self._notes), described)
        finally:
            if table is not None:
                table.close()

    def _verify(self, target: Target, deadline: Deadline, options: Options) -> VerifyAnswer:
        level = min(DEEPEST, self._place.settings.level)
        return verify(target, level, deadline.left_s(), options)

    def _record(self) -> tuple[Record | None, Table | None, str | None]:
        """Record, table, and why they cannot be used."""
        try:
            record = records.load(self._state_dir, self._place.name, self._place.tier)
            table = None if record is None else records.open_table(self._state_dir, record)
            return record, table, None
        except HostError as error:
            return None, None, str(error)

    def _wanted(self) -> str | None:
        """The version: the job's or the site's word, else the manifest's."""
        if self._place.content_id is not None or self._place.manifest is None:
            return self._place.content_id
        from slurm_io.staging.manifest.files import read_header

        try:
            return read_header(self._place.manifest).content_id
        except ManifestError as error:
            self._notes.append(f"which version is wanted: {error}")
            return None

    def _described_instead(self) -> str | None:
        """The manifest's version when it is not the wanted one; None when that cannot be told."""
        if self._place.content_id is None or self._place.manifest is None:
            return None
        from slurm_io.staging.manifest.files import read_header

        try:
            described = read_header(self._place.manifest).content_id
        except ManifestError:
            return None  # whoever reads the manifest to compare with it says why
        return described if described != self._place.content_id else None

    def _manifest(self, deadline: Deadline) -> Manifest | None:
        """The manifest, when it is small enough to read here; else a note says why not."""
        if self._place.manifest is None:
            self._notes.append(
                "this node has no usable record and there is no manifest: build one (slurm-io "
                "dataset manifest build) and name it in [dataset.NAME]"
            )
            return None
        try:
            manifest, why = self._read(self._place.manifest, deadline)
        except ManifestError as error:
            self._notes.append(f"this node has no usable record, and {error}")
            return None
        if manifest is None:
            self._notes.append(
                f"this node has no usable record, and the manifest {why}: run once on the node "
                f"{self._record_command}"
            )
        return manifest

    def _read(self, path: str, deadline: Deadline) -> tuple[Manifest | None, str]:
        """The manifest, or why it is not read. Raises ManifestError."""
        from slurm_io.staging.manifest.files import form_of
        from slurm_io.staging.manifest.jsonl import read_entries, read_header

        if form_of(path) == "parquet":
            return None, "is in Parquet, which a prolog does not read"
        count = read_header(path).file_count
        if count > self._manifest_files_max:
            return None, f"names {count} files, too many to read in a prolog"
        until_s = deadline.spent_s() + (deadline.left_s() or 0.0) * _READING_SHARE
        header, entries = read_entries(path)
        files: list[FileEntry] = []
        for entry in entries:
            files.append(entry)
            if deadline.spent_s() > until_s and len(files) < header.file_count:
                cast(Generator[FileEntry, None, None], entries).close()  # and with it the file
                return None, "takes too long to read in a prolog"
        return Manifest(header, files), ""
