"""A site's dataset behind a real server and a proxy that spoils what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from slurm_io.staging.stage.model import SourceSpec, StageAnswer
from tests.labs.fault_proxy import FaultProxy
from tests.labs.s3_server import S3Server, environment_of
from tests.staging.stage.kit import Site
from tests.staging.stage.peers import served, serving_of
from tests.staging.stage.stores import Bucket


class Reached:
    """The site's source by way of a proxy. `change` replaces a file at the source."""

    def __init__(self, source: SourceSpec, proxy: FaultProxy, folder: Path, bucket: Bucket | None):
        self.source = source
        self.proxy = proxy
        self._folder = folder
        self._bucket = bucket

    def change(self, path: str, data: bytes) -> None:
        (self._folder / path).write_bytes(data)
        if self._bucket is not None:
            self._bucket.put(path, data)


@contextmanager
def reached(
    engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reached]:
    with ExitStack() as stack:
        if engine == "rsync":
            peer = stack.enter_context(served(serving_of(site.source)))
            proxy = stack.enter_context(FaultProxy(("127.0.0.1", urlsplit(peer.where).port or 0)))
            where = f"rsync://stage@127.0.0.1:{proxy.port}/data"
            yield Reached(replace(peer, where=where), proxy, site.source, None)
            return
        proxy = stack.enter_context(FaultProxy(("127.0.0.1", urlsplit(server.endpoint).port or 0)))
        for name, value in environment_of(f"http://127.0.0.1:{proxy.port}").items():
            monkeypatch.setenv(name, value)
        bucket = upload(site, server)
        yield Reached(bucket.source, proxy, site.source, bucket)


def upload(site: Site, server: S3Server) -> Bucket:
    """The site's files as objects; its manifest pins them."""
    bucket = Bucket.new(server)
    pinned = []
    for entry in site.manifest.files:
        stored = bucket.put(entry.path, (site.source / entry.path).read_bytes())
        pinned.append(replace(entry, etag=stored.etag))
    site.publish(replace(site.manifest, files=pinned))
    return bucket


def honest(site: Site, answer: StageAnswer) -> None:
    """Ready is said when, and only when, every byte is right."""
    assert (answer.state == "ready") == site.says_ready()
    if answer.state == "ready":
        assert site.truth()
        assert site.room_is_gone()
    else:
        assert answer.exit_code == 3 and answer.text
