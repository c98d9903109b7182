"""From a survey to a running copy: items for the queue, engines for the sources, the room."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.paths import encode_path
from slurm_io.staging.stage.book import Book
from slurm_io.staging.stage.choosing import engine_for
from slurm_io.staging.stage.copying import copy_all
from slurm_io.staging.stage.draft import Draft
from slurm_io.staging.stage.engines.base import Engine
from slurm_io.staging.stage.ground import Ground
from slurm_io.staging.stage.model import Failure, SourceSpec
from slurm_io.staging.stage.order import OnProgress, Progress
from slurm_io.staging.stage.room import Room
from slurm_io.staging.stage.sharing import Item, Share
from slurm_io.staging.verify.model import BadFile

TOLD_EVERY_S = 0.2


class Moving:
    """The copy of one stage. `engines`: the names of those that took part."""

    def __init__(
        self,
        found: Draft,
        tree: Folder,
        book: Book,
        stop: threading.Event,
        on_progress: OnProgress,
    ) -> None:
        self._found = found
        self._tree = tree
        self._book = book
        self._stop = stop
        self._on_progress = on_progress
        self.engines = ""

    def run(self, bad: Mapping[int, BadFile]) -> str | None:
        """Copy what the survey found missing, and what was found `bad`; why it ended early.

        Raises HostError, OSError.
        """
        items = self._items(bad)
        if not items or self._stop.is_set():
            return None
        sources = self._sources()
        if not sources:
            for item in items:
                self._book.fail(Failure(item.entry.path, "there is no source", "source"))
            return None
        header, order = self._found.manifest.header, self._found.order
        with contextlib.closing(Room.made(self._tree.fd, header.content_id)) as room:
            ground = Ground(
                header=header,
                root_fd=self._tree.fd,
                room=room,
                share=Share(items, max(order.streams, len(sources))),
                book=self._book,
                stop=self._stop,
                patience=order.patience,
                bandwidth_bytes_s=order.bandwidth_bytes_s,
            )
            self._tell_of(items)
            copy_all(ground, sources, order.streams)
            return ground.ended_by

    def _items(self, bad: Mapping[int, BadFile]) -> list[Item]:
        found = self._found
        items = []
        for index in sorted({*found.copied_anew(), *bad}):
            entry = found.expected.files[index]
            slot, _ = found.leftovers.get(encode_path(entry.path), (None, 0))
            ranges = bad[index].ranges if index in bad and slot is None else ()
            items.append(
                Item(
                    index,
                    entry,
                    slot=slot,
                    ranges=ranges or None,
                    salvage=bool(ranges),
                    replaces=index in bad or index in found.survey.replaced_bytes,
                )
            )
        return items

    def _sources(self) -> list[tuple[SourceSpec, Engine]]:
        usable: list[tuple[SourceSpec, Engine]] = []
        names = set()
        order = self._found.order
        for source in order.sources:
            engine = engine_for(source, order.engine, order.bandwidth_bytes_s > 0)
            if isinstance(engine, str):
                self._book.note(f"not usable: {engine}")
                continue
            names.add(engine[0])
            usable.append((source, engine[1]))
        self.engines = "+".join(sorted(names))
        return usable

    def _tell_of(self, items: list[Item]) -> None:
        total = sum(item.size_bytes for item in items)
        last = [0.0]

        def tell() -> None:
            now = time.monotonic()
            if now - last[0] >= TOLD_EVERY_S:
                last[0] = now
                done = min(total, max(self._book.moved_bytes, self._book.copied_bytes))
                copied = self._book.copied_files
                self._on_progress(Progress("copying", done, total, copied, len(items)))

        self._book.tell = tell
