"""One call of the engine ``s5cmd``: look at the objects, copy them, look again, give the names."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage import landing
from slurm_io.staging.stage.engines.base import FetchOptions
from slurm_io.staging.stage.growth import Growth
from slurm_io.staging.stage.model import Failure, Fetched
from slurm_io.staging.stage.s3_place import S3Place, bare_etag
from slurm_io.staging.stage.s3_text import CHANGED, NO_KEY, Whose, of_size
from slurm_io.staging.stage.s5cmd_program import run_s5cmd
from slurm_io.staging.stage.s5cmd_text import Said, copy_line, head_line, meaning

_NO_LINE = "s5cmd cannot be told a name with a line break: use --engine boto"


@dataclass
class _Object:
    """One file: its address, where s5cmd shall put it, its ETag before the copy."""

    entry: FileEntry
    url: str
    target: str
    etag: str | None = None


class S5cmdCall:
    """Files of one place, by way of `folder`, which is empty and ours, into `room`."""

    def __init__(self, place: S3Place, room: str, folder: str, options: FetchOptions) -> None:
        self._place = place
        self._room = room
        self._folder = folder
        self._options = options
        self._failures: list[Failure] = []

    def bring(self, entries: Iterable[FileEntry], silence_s: float) -> Fetched:
        """Raises OSError when s5cmd cannot be started."""
        objects = self._before(self._named(entries))
        growth = Growth(self._folder, self._options.moved, silence_s)
        said = self._copied(objects, growth)
        whole = [each for each in objects if self._is_whole(each, said, growth)]
        growth.finish(sum(landing.size_at(self._folder, _name(each)) or 0 for each in whole))
        done = [each for each in self._after(whole) if self._gets_its_name(each)]
        moved_bytes = sum(landing.size_at(self._room, each.entry.path) or 0 for each in done)
        return Fetched(tuple(each.entry.path for each in done), tuple(self._failures), moved_bytes)

    def _named(self, entries: Iterable[FileEntry]) -> list[_Object]:
        objects = []
        for number, entry in enumerate(entries):
            key = self._place.key(entry)
            if key is None:
                self._fail(entry, NO_KEY)
            elif "\n" in key or "\r" in key:
                self._fail(entry, _NO_LINE)
            else:
                url = f"s3://{self._place.bucket}/{key}"
                objects.append(_Object(entry, url, f"{self._folder}/{number}"))
        return objects

    def _before(self, objects: list[_Object]) -> list[_Object]:
        """Those that are there and of the manifest's version."""
        said = self._heads(objects)
        return [each for each in objects if each.entry.version_id or self._is_same(each, said)]

    def _after(self, objects: list[_Object]) -> list[_Object]:
        """Those that were not replaced while they were copied."""
        said = self._heads(objects)
        return [each for each in objects if each.entry.version_id or self._is_same(each, said)]

    def _heads(self, objects: list[_Object]) -> Said:
        lines = [head_line(each.url) for each in objects if not each.entry.version_id]
        return run_s5cmd(lines, self._options.stop)

    def _is_same(self, each: _Object, said: Said) -> bool:
        head = said.heads.get(each.url)
        wanted = bare_etag(each.entry.etag) or each.etag
        if head is None:
            self._fail_as_said(each, said, each.url)
        elif wanted is not None and head.etag != wanted:
            self._fail(each.entry, CHANGED)
        elif each.entry.size_bytes not in (None, head.size_bytes):
            self._fail(each.entry, of_size(head.size_bytes, each.entry.size_bytes or 0))
        else:
            each.etag = head.etag
            return True
        return False

    def _copied(self, objects: list[_Object], growth: Growth) -> Said:
        lines = [copy_line(each.url, each.target, each.entry.version_id) for each in objects]
        end = threading.Event()

        def look() -> None:
            growth.look()
            if growth.hung.is_set() or self._options.stop.is_set():
                end.set()

        return run_s5cmd(lines, end, look=look)

    def _is_whole(self, each: _Object, said: Said, growth: Growth) -> bool:
        """Whether s5cmd said that it copied a file, and the file is there in its full length."""
        size = landing.size_at(self._folder, _name(each))
        if each.target not in said.copied or size is None:
            if growth.hung.is_set():
                self._fail(each.entry, "no bytes came for too long", "link")
            else:
                self._fail_as_said(each, said, each.target)
            return False
        expected = each.entry.size_bytes
        if size != (said.copied[each.target] if expected is None else expected):
            self._fail(each.entry, of_size(size, said.copied[each.target]))
            return False
        return True

    def _gets_its_name(self, each: _Object) -> bool:
        path = landing.at(self._room, each.entry.path)
        try:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            os.rename(each.target, path)
        except OSError as error:
            self._failures.append(landing.target_failure(each.entry, error))
            return False
        return True

    def _fail_as_said(self, each: _Object, said: Said, last_word: str) -> None:
        error = said.error_of(last_word)
        if error is not None:
            whose, text = meaning(error)
            self._fail(each.entry, text, whose)
        elif self._options.stop.is_set():
            self._fail(each.entry, "stopped", "link")
        else:
            self._fail(each.entry, f"s5cmd did not copy it, and did not say why{said.rest}", "link")

    def _fail(self, entry: FileEntry, text: str, whose: Whose = "source") -> None:
        self._failures.append(Failure(entry.path, text, whose))


def _name(each: _Object) -> str:
    return os.path.basename(each.target)
