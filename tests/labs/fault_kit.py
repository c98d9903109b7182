"""A small dataset with manifest and record, and every way in which a copy of one goes bad.

    bench = Bench.made(tmp_path)          # copied, verified at level 4, record kept
    FAULTS["bit flip"].apply(bench)
    bench.verify(level=3)

Each fault says where it is found: the first level that can, with the node's record and without it.
Some faults happen below the file system (rot, a drive that lies): stat shows nothing. They are made
by changing the bytes and then writing the new stamp into the record (`Bench.restamp`).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from slurm_io.staging import record as records
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.manifest.hashing import HowToHash, digest_file
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest
from slurm_io.staging.record import Record
from slurm_io.staging.verify.driver import Target, verify
from slurm_io.staging.verify.identity import Roots
from slurm_io.staging.verify.keep import keep, record_of
from slurm_io.staging.verify.model import VerifyAnswer
from slurm_io.staging.verify.table import Row, TableForm
from slurm_io.staging.verify.table_writing import write_table
from slurm_io.staging.verify.work import Options

MACHINE_ID = "0123456789abcdef0123456789abcdef"
CHUNK_BYTES = 1 << 17
SIZES = {
    "index.json": 5_000,
    "shards/a/000.tar": 300_000,
    "shards/a/001.tar": 300_000,
    "shards/b/000.tar": 400_000,
    "shards/b/empty": 0,
    "shards/small": 10,
}
VICTIM = "shards/a/001.tar"
VICTIM_INDEX = 3
"""Number of the victim in the order of a verify: index.json, shards/small, then the folders."""


@dataclass
class Bench:
    """One copy on one node. `state_dir` holds its record."""

    root: Path
    state_dir: Path
    etc: Path
    manifest: Manifest
    manifest_path: Path
    name: str = "demo"
    tier: str = "local"

    @classmethod
    def made(
        cls, folder: Path, sizes: Mapping[str, int] | None = None, *, record: bool = True
    ) -> Bench:
        """A good copy, verified at level 4 unless told not to."""
        etc = folder / "etc"
        etc.mkdir(parents=True)
        (etc / "machine-id").write_text(MACHINE_ID + "\n")
        root = folder / "data"
        fill(root, sizes or SIZES)
        manifest = manifest_of(root, sizes or SIZES)
        path = folder / "demo.jsonl"
        write_manifest(os.fspath(path), manifest)
        bench = cls(root, folder / "state", etc, manifest, path)
        if record:
            bench.keep_record()
        return bench

    @property
    def victim(self) -> Path:
        """The file that faults befall."""
        return self.root / VICTIM

    def roots(self) -> Roots:
        """The machine this pretends to be."""
        return Roots(etc=os.fspath(self.etc))

    def record(self) -> Record | None:
        """As it lies on disk."""
        return records.load(os.fspath(self.state_dir), self.name, self.tier)

    def verify(
        self,
        level: int,
        *,
        with_record: bool = True,
        with_manifest: bool = True,
        keep_proof: bool = False,
        budget_s: float | None = None,
        options: Options | None = None,
        root: Path | None = None,
        manifest: Manifest | None = None,
    ) -> VerifyAnswer:
        """A verify as a prolog or a person would ask for it."""
        record = self.record() if with_record else None
        table = records.open_table(os.fspath(self.state_dir), record) if record else None
        try:
            target = Target(
                path=os.fspath(root or self.root),
                manifest=(manifest or self.manifest) if with_manifest else None,
                record=record,
                table=table,
                keep_proof=keep_proof,
                roots=self.roots(),
            )
            return verify(target, level, budget_s, options)
        finally:
            if table is not None:
                table.close()

    def keep_record(self, level: int = 4) -> Record:
        """Verify and keep what was proven."""
        answer = self.verify(level, keep_proof=True)
        assert answer.proof is not None
        with records.locked(os.fspath(self.state_dir), self.name, self.tier) as folder:
            record = record_of(
                answer, self.name, self.tier, os.fspath(self.root), self.manifest, self.record()
            )
            return keep(folder, record, answer.proof)

    def change_record(self, **changes: object) -> None:
        """Write the record anew with other words in it, its table as it was."""
        record = self.record()
        assert record is not None
        changed = replace(record, **changes)  # type: ignore[arg-type]
        self._write(changed, lambda rows: rows)

    def restamp(self, name: str) -> None:
        """Make the record believe in a file's present stamp: nothing shows in stat."""
        raw, found = name.encode(), (self.root / name).stat()
        stamp = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        record = self.record()
        assert record is not None
        self._write(
            record,
            lambda rows: [
                row._replace(stamp=stamp) if row.entry.path.encode() == raw else row for row in rows
            ],
        )

    def _write(self, record: Record, change: Callable[[list[Row]], list[Row]]) -> None:
        table = records.open_table(os.fspath(self.state_dir), record)
        assert table is not None
        rows = change([row for _, row in table.rows(range(table.count))])
        segments = list(table.segments())
        table.close()

        def write(out: object, name: str) -> TableForm:
            return write_table(out, name, len(rows), lambda a, n: rows[a : a + n], segments)  # type: ignore[arg-type]

        with records.locked(os.fspath(self.state_dir), self.name, self.tier) as folder:
            records.save(folder, record, write)


def fill(root: Path, sizes: Mapping[str, int]) -> None:
    """Files of random bytes, the same at each call, none of which ends in a zero."""
    for name, size in sizes.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = random.Random(os.fsencode(name)).randbytes(size)
        path.write_bytes(data[:-1] + b"\x01" if data else data)


def manifest_of(root: Path, sizes: Mapping[str, int], name: str = "demo") -> Manifest:
    """Manifest of a folder: whole, ends and chunk digests."""
    entries = [_entry(root, path) for path in sizes]
    entries.sort(key=lambda entry: os.fsencode(entry.path))
    total = sum(entry.size_bytes or 0 for entry in entries)
    ident = content_id_of(entries)
    return Manifest(Header(name, ident, len(entries), total, chunk_bytes=CHUNK_BYTES), entries)


def _entry(root: Path, path: str) -> FileEntry:
    with (root / path).open("rb") as file:
        found = digest_file(file.fileno(), HowToHash(chunk_bytes=CHUNK_BYTES))
        size = os.fstat(file.fileno()).st_size
    role = "index" if path.endswith(".json") else "data"
    return FileEntry(path, size, found.digest, found.ends, found.chunks, role=role)  # type: ignore[arg-type]


@contextmanager
def same_mtime(path: Path) -> Iterator[None]:
    """Whatever is written inside, mtime is put back."""
    before = path.stat()
    yield
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def overwrite(path: Path, at: int, data: bytes) -> None:
    """In place: the size stays."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def flip(path: Path, at: int) -> None:
    """One bit."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def _truncate(bench: Bench) -> None:
    os.truncate(bench.victim, 200_000)


def _zero_tail(bench: Bench) -> None:
    """As a download into a preallocated file leaves it."""
    overwrite(bench.victim, 300_000 - 150_000, bytes(150_000))


def _zero_tail_silent(bench: Bench) -> None:
    _zero_tail(bench)
    _restamp(bench)


def _bit_flip(bench: Bench) -> None:
    """Rot in the middle, below the file system."""
    flip(bench.victim, 150_000)
    _restamp(bench)


def _bit_flip_in_index(bench: Bench) -> None:
    flip(bench.root / "index.json", 2_500)
    if bench.record() is not None:
        bench.restamp("index.json")


def _bit_flip_in_tail(bench: Bench) -> None:
    flip(bench.victim, 299_000)
    _restamp(bench)


def _restamp(bench: Bench) -> None:
    if bench.record() is not None:
        bench.restamp(VICTIM)


def _same_size_same_mtime(bench: Bench) -> None:
    with same_mtime(bench.victim):
        flip(bench.victim, 150_000)


def _replaced(bench: Bench) -> None:
    """As rsync does it: another file of the same size under the same name."""
    other = bench.victim.with_name(".other")
    other.write_bytes(random.Random("other").randbytes(300_000))
    other.rename(bench.victim)


def _missing(bench: Bench) -> None:
    bench.victim.unlink()


def _missing_folder(bench: Bench) -> None:
    shutil.rmtree(bench.victim.parent)


def _extra(bench: Bench) -> None:
    (bench.root / "shards/a/002.tar").write_bytes(b"what is this")


def _extra_beside_missing(bench: Bench) -> None:
    """As many entries as there should be."""
    bench.victim.rename(bench.root / "shards/a/009.tar")


def _rsync_debris(bench: Bench) -> None:
    (bench.root / "shards/a/.001.tar.Xq3b7Z").write_bytes(bytes(100_000))


def _s5cmd_debris(bench: Bench) -> None:
    (bench.root / "shards/a/001.tar3141592653").write_bytes(bytes(100_000))


def _fifo(bench: Bench) -> None:
    bench.victim.unlink()
    os.mkfifo(bench.victim)


def _link(bench: Bench) -> None:
    target = bench.root.parent / "elsewhere"
    bench.victim.rename(target)
    bench.victim.symlink_to(target)


def _folder_link(bench: Bench) -> None:
    target = bench.root.parent / "elsewhere"
    bench.victim.parent.rename(target)
    bench.victim.parent.symlink_to(target)


def _wrong_machine(bench: Bench) -> None:
    """The state folder came along with the node's image."""
    (bench.etc / "machine-id").write_text("f" * 32 + "\n")


def _copied_record(bench: Bench) -> None:
    """The data was copied to a new disk, the record with it."""
    other = bench.root.parent / "copied"
    shutil.copytree(bench.root, other)
    bench.root = other


def _stale_record(bench: Bench) -> None:
    """All files were staged anew in place, with times kept, by a tool that knows no records; one
    came out wrong."""
    for name in SIZES:
        path, fresh = bench.root / name, bench.root / f"{name}.fresh"
        shutil.copy2(path, fresh)
        fresh.rename(path)
    with same_mtime(bench.victim):
        flip(bench.victim, 150_000)


def _wrong_version(bench: Bench) -> None:
    """The record and the files are one version; the site's manifest moved on to the next."""
    other = bench.root.parent / "next"
    fill(other, SIZES)
    flip(other / VICTIM, 150_000)
    bench.manifest = manifest_of(other, SIZES)


def _unfinished(bench: Bench) -> None:
    bench.change_record(state="copying")


def _all_gone(bench: Bench) -> None:
    shutil.rmtree(bench.root)


@dataclass(frozen=True)
class Fault:
    """One way to go bad.

    `found_at` is the first level that finds it with the node's record, `found_without` with the
    manifest alone; NEVER = by no level. `answer` and `why` are what that level says ("" = no file
    is to blame). `sampled`: level 3 finds it only when its sample holds the victim.
    """

    apply: Callable[[Bench], None]
    found_at: int
    found_without: int
    why: str
    answer: str = "FAIL"
    answer_without: str = ""
    why_without: str | None = None
    sampled: bool = False


NEVER = 9
FAULTS: dict[str, Fault] = {
    "truncated": Fault(_truncate, 1, 1, "truncated"),
    "zero tail": Fault(_zero_tail, 1, 2, "changed", why_without="zero tail"),
    "zero tail, silent": Fault(_zero_tail_silent, 2, 2, "zero tail"),
    "bit flip": Fault(_bit_flip, 4, 4, "content", sampled=True),
    "bit flip in an index file": Fault(_bit_flip_in_index, 2, 2, "content"),
    "bit flip in the tail": Fault(_bit_flip_in_tail, 2, 2, "content"),
    "same size, same mtime": Fault(
        _same_size_same_mtime, 1, 4, "touched", "DEGRADED", "FAIL", "content", sampled=True
    ),
    "replaced": Fault(_replaced, 1, 2, "changed", why_without="content"),
    "missing": Fault(_missing, 1, 1, "missing"),
    "missing folder": Fault(_missing_folder, 1, 1, "missing"),
    "extra": Fault(_extra, 1, 1, "extra", "DEGRADED"),
    "extra beside missing": Fault(_extra_beside_missing, 1, 1, "missing"),
    "rsync debris": Fault(_rsync_debris, 1, 1, "debris", "DEGRADED"),
    "s5cmd debris": Fault(_s5cmd_debris, 1, 1, "debris", "DEGRADED"),
    "FIFO": Fault(_fifo, 1, 1, "not a file"),
    "link to a file": Fault(_link, 1, 1, "not a file"),
    "link to a folder": Fault(_folder_link, 1, 1, "not a file"),
    "stale record": Fault(_stale_record, 1, 4, "changed", why_without="content", sampled=True),
    "wrong version": Fault(_wrong_version, 0, 4, "", why_without="content", sampled=True),
    "unfinished copy": Fault(_unfinished, 0, NEVER, ""),
    "nothing there": Fault(_all_gone, 0, 0, ""),
}
"""Faults of data. Those of the record itself (machine, folder) follow."""

RECORD_FAULTS: dict[str, Callable[[Bench], None]] = {
    "wrong machine": _wrong_machine,
    "copied record": _copied_record,
}
