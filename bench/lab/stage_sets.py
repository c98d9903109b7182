"""Datasets to stage, ways to stage them: ours and the tools people use, all ending on the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.lab.file_peers import Job, is_here, silent
from bench.verify import manifest_of
from slurm_io.staging.manifest.files import write_manifest
from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.stage.engines.base import ENGINES, FetchOptions
from slurm_io.staging.stage.model import Batch, SourceSpec
from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.peer_daemon import PeerDaemon
from slurm_io.staging.stage.peer_model import Serving, networks_of, new_secret
from slurm_io.staging.stage.run import stage
from slurm_io.staging.verify.identity import Roots

STREAMS = 4
_MACHINE_ID = "0123456789abcdef0123456789abcdef\n"


class Staging:
    """One dataset below `folder`, and an empty place for its copies."""

    def __init__(self, folder: Path, source: Path, paths: list[Path]) -> None:
        self.folder = folder
        self.source = source
        self.target = folder / "target"
        self.manifest = manifest_of(source, paths)
        (folder / "etc").mkdir(exist_ok=True)
        (folder / "etc/machine-id").write_text(_MACHINE_ID)
        self.publish(self.manifest)

    def publish(self, manifest: Manifest) -> None:
        """The manifest that stages go by."""
        self.manifest = manifest
        write_manifest(os.fspath(self.folder / "manifest.jsonl"), manifest)

    def clear(self) -> None:
        """No copy, no record, nothing half written."""
        for place in (self.target, self.folder / "state"):
            shutil.rmtree(place, ignore_errors=True)
        os.sync()

    def whole(self, sources: Sequence[SourceSpec], engine: str | None = None) -> Job:
        """``dataset stage``: copy, every file hashed from the medium, durable, recorded."""

        def run() -> None:
            order = StageOrder(
                name="bench",
                tier="local",
                path=os.fspath(self.target),
                manifest=os.fspath(self.folder / "manifest.jsonl"),
                state_dir=os.fspath(self.folder / "state"),
                sources=tuple(sources),
                engine=engine,
                streams=STREAMS,
                free_share=0.0,
                roots=Roots(etc=os.fspath(self.folder / "etc")),
            )
            answer = stage(order)
            assert answer.state == "ready", answer.text

        return run

    def engine_alone(self, source: SourceSpec, name: str) -> Job:
        """The same engine with nothing verified, and then ``sync``."""

        def run() -> None:
            self.target.mkdir()
            engine = ENGINES.get(name)(source)
            waiting = _batches(self.manifest.files, engine.batch_files)

            def lane() -> None:
                for batch in waiting:
                    answer = engine.fetch(batch, os.fspath(self.target), FetchOptions())
                    assert not answer.failures, answer.failures[0]

            in_lanes(lane)
            engine.close()
            sync(self.target)

        return run

    def then_sync(self, command: Sequence[str | Path]) -> Job:
        """Another tool, and then ``sync``."""

        def run() -> None:
            self.target.mkdir()
            silent(command)
            sync(self.target)

        return run


def local_tools(it: Staging) -> dict[str, Job]:
    """What copies from a folder to a folder, where installed."""
    inside = f"{it.source}/"
    jobs: dict[str, Job] = {"cp -r": it.then_sync(["cp", "-r", f"{inside}.", it.target])}
    if is_here("rsync"):
        jobs["rsync -a"] = it.then_sync(["rsync", "-a", inside, f"{it.target}/"])
    if is_here("fpsync"):
        words = ["fpsync", "-n", str(STREAMS), "-t", os.fspath(it.folder / "fpsync")]
        jobs[f"fpsync -n {STREAMS}"] = it.then_sync([*words, inside, f"{it.target}/"])
    if is_here("rclone"):
        words = ["rclone", "--config", "", "copy", f"--transfers={STREAMS}"]
        jobs["rclone copy (compares hashes)"] = it.then_sync([*words, inside, it.target])
    return jobs


@contextlib.contextmanager
def peers(it: Staging, count: int) -> Iterator[list[SourceSpec]]:
    """So many daemons that serve the dataset, as many nodes would."""
    with contextlib.ExitStack() as stack:
        stop = threading.Event()
        sources = []
        for number in range(count):
            serving = Serving(
                path=os.fspath(it.source),
                content_id=it.manifest.header.content_id,
                secret=new_secret(),
                allow=networks_of(["127.0.0.1"]),
                host="127.0.0.1",
                bind="127.0.0.1",
            )
            daemon = stack.enter_context(PeerDaemon(serving, lambda _: None))
            thread = threading.Thread(target=daemon.serve, args=(stop,))
            thread.start()
            stack.callback(thread.join)
            where = daemon.announcement(with_secret=False).where
            sources.append(SourceSpec("peer", where, f"peer {number}", serving.secret))
        stack.callback(stop.set)
        yield sources


def rsync_from(it: Staging, source: SourceSpec) -> Job:
    """One plain rsync of the whole module."""

    def run() -> None:
        it.target.mkdir()
        environment = dict(os.environ) | {"RSYNC_PASSWORD": source.secret or ""}
        words = ["rsync", "-a", f"{source.where}/", f"{it.target}/"]
        subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
        sync(it.target)

    return run


def upload(it: Staging, client: Any, bucket: str) -> SourceSpec:
    """The dataset as objects; the manifest pins them."""
    client.create_bucket(Bucket=bucket)
    pinned = []
    for entry in it.manifest.files:
        body = (it.source / entry.path).read_bytes()
        answer = client.put_object(Bucket=bucket, Key=entry.path, Body=body)
        pinned.append(replace(entry, etag=answer["ETag"].strip('"')))
    it.publish(replace(it.manifest, files=pinned))
    return SourceSpec("s3", f"s3://{bucket}", bucket)


def sync(folder: Path) -> None:
    """All of its file system is on the disk."""
    silent(["sync", "-f", folder])


def in_lanes(lane: Job) -> None:
    """Several at once, as a stage has streams."""
    threads = [threading.Thread(target=lane) for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class _Batches:
    """Hands out batches to several threads."""

    def __init__(self, files: Sequence[FileEntry], size: int) -> None:
        size = max(1, min(size, -(-len(files) // STREAMS)))
        self._waiting = [tuple(files[at : at + size]) for at in range(0, len(files), size)]

    def __iter__(self) -> Iterator[Batch]:
        while self._waiting:
            with contextlib.suppress(IndexError):
                yield Batch(0, self._waiting.pop())


def _batches(files: Sequence[FileEntry], size: int) -> _Batches:
    return _Batches(files, size)
