"""All output files of the job, told apart by device and inode, whatever they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import Row, Tick
from slurm_io.collectors.log.outputs import Output
from slurm_io.collectors.log.watched import Watched, checked_piece
from slurm_io.host.job_output import Known
from slurm_io.host.probe import Call

_FEWEST_BYTES = 4 * 1024
_MOST_FILES = 64


class Files:
    """What is read of them and what came of it. `limit_bytes` is shared by those that grow."""

    def __init__(self) -> None:
        self.all: list[Watched] = []
        self._by_identity: dict[tuple[int, int], Watched] = {}
        self._by_path: dict[str, Watched] = {}
        self._asked: dict[str, Output] = {}

    def calls(
        self, outputs: Iterable[Output], proc_root: Path, limit_bytes: int
    ) -> dict[str, Call]:
        """What a child is to read: each file once, whatever number of names it has."""
        self._asked = {}
        known: set[int] = set()
        for output in outputs:
            one = self._by_path.get(output.path)
            if one is not None and id(one) in known:
                continue
            if one is not None:
                known.add(id(one))
                one.has_ended = one.is_settled = False
                one.rights = output.rights
            self._asked[output.path] = output
        growing = sum(one.grew for one in self.all if not one.has_ended)
        unseen = sum(path not in self._by_path for path in self._asked)
        share = max(_FEWEST_BYTES, limit_bytes // max(1, growing + unseen))
        return {
            path: output.call(proc_root, self._known(path), share)
            for path, output in self._asked.items()
        }

    def last_calls(self, paths_held: set[str], limit_bytes: int) -> dict[str, Call]:
        """What to read of files that no process has open any more: their ends, by name."""
        held = {id(one) for path, one in self._by_path.items() if path in paths_held}
        gone = [one for one in self.all if not one.has_ended and id(one) not in held]
        for one in gone:
            one.has_ended = True
        share = max(_FEWEST_BYTES, limit_bytes // max(1, len(gone)))
        return {one.path: one.last_call(share) for one in gone}

    def ingest(self, pieces: Mapping[str, Any], tick: Tick, first: Tick) -> list[Row]:
        """Rows of pieces that came; `tick` is when they were asked for."""
        rows: list[Row] = []
        for path, answer in pieces.items():
            piece = checked_piece(answer)
            if piece is None:
                continue
            one = self._file_of(path, piece)
            if one is not None:
                one.ingest(piece)
                rows += one.rows(tick, first, last=one.has_ended)
        return rows

    def settle(self, tick: Tick, first: Tick) -> list[Row]:
        """What was held back of files whose end could not be read."""
        ended = [one for one in self.all if one.has_ended and not one.is_settled]
        return [row for one in ended for row in one.rows(tick, first, last=True)]

    @property
    def bytes_read(self) -> int:
        """Bytes that were parsed."""
        return sum(one.bytes_read for one in self.all)

    def facts(self) -> list[dict[str, object]]:
        """For meta.json."""
        return [one.facts() for one in self.all]

    def rows_by_source(self) -> dict[str, int]:
        """Line form -> rows."""
        total: dict[str, int] = {}
        for one in self.all:
            for source, number in one.rows_by_source.items():
                total[source] = total.get(source, 0) + number
        return total

    def _known(self, path: str) -> Known | None:
        one = self._by_path.get(path)
        return None if one is None else one.known

    def _file_of(self, path: str, piece: tuple[int, int, int, int, bytes]) -> Watched | None:
        """The file a piece is of; a name may lead to another file than before."""
        identity = piece[:2]
        before, one = self._by_path.get(path), self._by_identity.get(identity)
        if one is None:
            if len(self.all) >= _MOST_FILES:
                return None
            one = Watched(path, len(self.all), piece, is_new=before is not None)
            output = self._asked.get(path)
            one.rights = output.rights if output is not None else None
            self.all.append(one)
            self._by_identity[identity] = one
        self._by_path[path] = one
        if path in self._asked:
            one.path = path
        return one
