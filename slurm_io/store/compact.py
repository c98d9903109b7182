"""Compacts a job store: one Parquet file per table for all nodes, in place of a folder for each.

``python -m slurm_io.store.compact STORE [NODE]``, NODE being the leader's. At any instant, killed
between any two system calls, the store reads the same: tables and ``nodes.jsonl`` are put in place
first (they then hold more than anybody looks for), ``compacted.json`` makes them count, and only
then do the folders go, aside and away. A node whose folder cannot be taken whole keeps it and is
read beside the rest. To be run by one process at a time, the store's leader, as the store's user.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from slurm_io.errors import SlurmIoError, StoreError
from slurm_io.store.compact_source import (
    NodeFolder,
    look_at,
    told_file,
)
from slurm_io.store.compact_table import TableWriter
from slurm_io.store.compacted import (
    FACTS,
    MARKER,
    NODE_PREFIX,
    Inside,
    is_worthwhile,
    node_of,
    read_facts,
    read_marker,
    table_file,
    write_marker,
)
from slurm_io.store.compacted_tables import CompactedTables
from slurm_io.store.files import fsync_folder, why
from slurm_io.store.markers import done_file, keep_lead
from slurm_io.store.parts import list_names
from slurm_io.store.schema import TABLES, Table

_PREFIX = ".compact-"
_NICENESS = 19
_SIGN_OF_LIFE_S = 5.0


@dataclass
class Compacted:
    """What was done: nodes that are inside now, and why others keep their folder."""

    nodes: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


def compact(
    store: Path,
    keep_lead: Callable[[], None] = lambda: None,
    deadline_s: float = float("inf"),
) -> Compacted:
    """Fold the node folders of `store` into its compacted form.

    `keep_lead` is called now and then, and raises when somebody else leads by now; `deadline_s` is
    on the monotonic clock. StoreError when nothing could be done; the store is as it was then.
    """
    if not is_worthwhile(store):
        return Compacted()
    with _pinned(store) as inner:
        done = _Compaction(inner, keep_lead, deadline_s).run()
        left = {node: reason.replace(str(inner), str(store)) for node, reason in done.left.items()}
        return Compacted(done.nodes, left)


@contextmanager
def _pinned(store: Path) -> Iterator[Path]:
    """The store by a path that stays this folder, whatever is renamed or linked above it."""
    try:
        fd = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as exc:
        raise StoreError(f"cannot compact {store}: {why(exc)}") from exc
    inner = Path(f"/proc/self/fd/{fd}")
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise StoreError(f"{store} is not this user's: not compacted")
        yield inner
    except StoreError as exc:
        raise StoreError(str(exc).replace(str(inner), str(store))) from exc
    except OSError as exc:
        raise StoreError(f"cannot compact {store}: {why(exc)}") from exc
    finally:
        os.close(fd)


class _Compaction:
    """One run over one store."""

    def __init__(self, store: Path, keep_lead: Callable[[], None], deadline_s: float) -> None:
        self._store = store
        self._keep_lead = keep_lead
        self._deadline_s = deadline_s
        self._token = secrets.token_hex(4)
        self._done = Compacted()
        self._lead_kept_s = float("-inf")

    def run(self) -> Compacted:
        _remove_leftovers(self._store)
        before = read_marker(self._store)
        new = self._folders()
        if not new:
            return self._done
        kept = {node: each for node, each in before.items() if node not in new}
        kept = {node: each for node, each in kept.items() if node not in self._done.left}
        old = CompactedTables(self._store, kept)
        try:
            inside = self._write(old, new)
            self._lead_kept_s = float("-inf")
            self._check_time()
            self._put_in_place(inside)
        except BaseException:
            self._drop()
            raise
        for node in self._done.nodes:
            _remove_folder(self._store, new[node])
        return self._done

    def _folders(self) -> dict[str, NodeFolder]:
        found = {}
        for name in list_names(self._store):
            node = node_of(name)
            if node is None or _identity(self._store / name) is None:
                continue
            try:
                found[node] = look_at(self._store, node)
            except StoreError as exc:
                self._done.left[node] = str(exc)
        return found

    def _write(self, old: CompactedTables, new: dict[str, NodeFolder]) -> dict[str, Inside]:
        """Tables and facts beside the old ones; who is inside when they are in place."""
        facts = self._write_facts(old, new)
        rows: dict[str, dict[str, int]] = {node: {} for node in facts}
        for table in TABLES.values():
            for node, count in self._write_table(table, old, new).items():
                rows[node][table.name] = count
        taken = [node for node in rows if node not in self._done.left]
        self._done.nodes = sorted(node for node in taken if node in new)
        return {node: Inside(facts[node], rows[node]) for node in sorted(taken)}

    def _write_facts(self, old: CompactedTables, new: dict[str, NodeFolder]) -> dict[str, int]:
        """When each node's DONE marker was written."""
        done_ns = {}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self._aside(FACTS), flags, 0o600), "wb") as file:
            for line in read_facts(self._store) if old.inside else ():
                if line["node"] in old.inside:
                    file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                    done_ns[line["node"]] = old.inside[line["node"]].done_ns
            if set(done_ns) != set(old.inside):
                raise StoreError(f"{self._store / FACTS} lacks nodes that {MARKER} names")
            for node, folder in sorted(new.items()):
                with self._left_out_if_bad(node):
                    line = folder.facts(self._store)
                    file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                    done_ns[node] = folder.done_ns
            file.flush()
            os.fsync(file.fileno())
        return done_ns

    def _write_table(
        self, table: Table, old: CompactedTables, new: dict[str, NodeFolder]
    ) -> dict[str, int]:
        """Rows of each node that has the table."""
        of_old = [node for node, each in old.inside.items() if table.name in each.rows]
        of_new = [node for node, each in new.items() if each.has(table)]
        if not of_old and not of_new:
            return {}
        writer = TableWriter(self._aside(table_file(table.name)), table)
        try:
            for node in sorted([*of_old, *of_new]):
                self._check_time()
                if node in of_old:
                    writer.add(node, old.stream(node, table), old.damage(node, table))
                elif node not in self._done.left:
                    with self._left_out_if_bad(node):
                        writer.add(node, new[node].stream(table), new[node].damage(table))
            writer.close()
        except BaseException:
            writer.drop()
            raise
        return writer.rows

    @contextmanager
    def _left_out_if_bad(self, node: str) -> Iterator[None]:
        """A node whose files cannot be read keeps them; the others go on without it."""
        try:
            yield
        except StoreError as exc:
            self._done.left[node] = str(exc)

    def _check_time(self) -> None:
        now_s = time.monotonic()
        if now_s > self._deadline_s:
            raise StoreError(f"{self._store}: no time left to compact")
        if now_s > self._lead_kept_s + _SIGN_OF_LIFE_S:
            self._keep_lead()
            self._lead_kept_s = now_s

    def _put_in_place(self, inside: dict[str, Inside]) -> None:
        if not inside:
            self._drop()
            return
        for name in [*map(table_file, TABLES), FACTS]:
            if os.path.lexists(self._aside(name)):
                self._aside(name).rename(self._store / name)
        fsync_folder(self._store)
        write_marker(self._store, inside)

    def _aside(self, name: str) -> Path:
        return self._store / f"{_PREFIX}{self._token}-{name}"

    def _drop(self) -> None:
        for name in [*map(table_file, TABLES), FACTS]:
            with suppress(OSError):
                self._aside(name).unlink()


def _remove_leftovers(store: Path) -> None:
    """What a compaction that was killed left: half-written files, folders on their way out."""
    inside = read_marker(store)
    names = set(list_names(store))
    for name in names:
        if name.startswith((_PREFIX, f".{MARKER}.")):
            with suppress(OSError):
                (store / name).unlink()
        elif name.startswith(NODE_PREFIX) and ".old-" in name:
            shutil.rmtree(store / name, ignore_errors=True)
    for node, each in inside.items():
        if f"{NODE_PREFIX}{node}" not in names:
            _unlink_if(store / done_file(node), each.done_ns)


def _remove_folder(store: Path, folder: NodeFolder) -> None:
    """Take what is inside now off the store, unless the node has delivered anew meanwhile."""
    if _identity(folder.path) != folder.identity:
        return
    aside = store / f"{folder.path.name}.old-{secrets.token_hex(4)}"
    try:
        folder.path.rename(aside)
    except OSError:
        return
    if _identity(aside) != folder.identity:  # delivered in this very moment
        with suppress(OSError):
            aside.rename(folder.path)
        return
    shutil.rmtree(aside, ignore_errors=True)
    _unlink_if(store / done_file(folder.node), folder.done_ns)
    if folder.told_ns is not None:
        _unlink_if(store / told_file(folder.node), folder.told_ns)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino) if stat.S_ISDIR(facts.st_mode) else None


def _unlink_if(path: Path, written_ns: int) -> None:
    with suppress(OSError):
        if os.lstat(path).st_mtime_ns == written_ns:
            path.unlink()


def main(arguments: list[str]) -> int:
    """Compact the store; complaints go to stderr, also those about single nodes."""
    store = Path(arguments[0])
    os.nice(_NICENESS)
    lead = (lambda: keep_lead(store, arguments[1])) if len(arguments) > 1 else (lambda: None)
    try:
        done = compact(store, lead)
    except SlurmIoError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for reason in done.left.values():
        print(f"not compacted: {reason}", file=sys.stderr)
    return 3 if done.left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
