"""Engine ``boto``: reads objects of an S3 store with boto3, in parallel pieces.

Needs: the package boto3 (``pip install slurm-io[s3]``); credentials and endpoint as boto3 finds
them (``AWS_PROFILE``, ``AWS_ENDPOINT_URL_S3``, an instance's role, …). Every request names the
version or the ETag of the manifest, so an object that was replaced is refused, not mixed. A file
that was left short is gone on with; pieces are written in order, so what lies there is always a
beginning. Checksums kept by the store are compared for objects that come in one piece.
"""

from __future__ import annotations

import importlib.util
import threading
from typing import Any

from slurm_io.errors import UsageError
from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions, Ranges
from slurm_io.staging.stage.landing import all_failed
from slurm_io.staging.stage.model import Batch, Fetched, SourceKind, SourceSpec
from slurm_io.staging.stage.s3_client import S3Fault, bucket_problem, new_client
from slurm_io.staging.stage.s3_place import S3Place
from slurm_io.staging.stage.s3_reading import S3Call


@ENGINES.register("boto")
class Boto:
    """One bucket and prefix. Each call reads some pieces at once."""

    kinds: tuple[SourceKind, ...] = ("s3",)
    batch_files = 64

    def __init__(self, source: SourceSpec) -> None:
        self._where = source.where
        self._opened: tuple[Any, S3Place] | None = None
        self._lock = threading.Lock()

    @classmethod
    def missing(cls) -> str | None:
        """None when boto3 is here."""
        if importlib.util.find_spec("boto3") is None:
            return "boto3 is not installed (pip install slurm-io[s3])"
        return None

    def problem(self) -> str | None:
        """None when the bucket answers; to be refused its listing is no problem."""
        try:
            client, place = self._open()
        except (UsageError, S3Fault) as error:
            return str(error)
        return bucket_problem(client, place)

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        """Small files side by side, a large one in pieces side by side."""
        try:
            client, place = self._open()
        except (UsageError, S3Fault) as error:
            return Fetched((), all_failed(batch.files, str(error), "source"))
        with S3Call(client, place, room, options) as call:
            return call.files(batch.files)

    def fetch_ranges(
        self, entry: FileEntry, ranges: Ranges, room: str, options: FetchOptions
    ) -> Fetched:
        """Pieces of one object, into the file that lies there."""
        try:
            client, place = self._open()
        except (UsageError, S3Fault) as error:
            return Fetched((), all_failed((entry,), str(error), "source"))
        with S3Call(client, place, room, options) as call:
            return call.ranges(entry, ranges)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._opened is not None:
                self._opened[0].close()
                self._opened = None

    def _open(self) -> tuple[Any, S3Place]:
        """Client and place, made at the first call. Raises UsageError, S3Fault."""
        with self._lock:
            if self._opened is None:
                place = S3Place.of(self._where)
                self._opened = new_client(), place
            return self._opened
