"""Buckets for tests of engines: objects and their manifest entries."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.model import SourceSpec
from tests.labs.s3_server import S3Server
from tests.staging.stage.peers import entry_of

_NUMBERS = itertools.count()
PREFIX = "sets/c4"


@dataclass
class Bucket:
    """One bucket of a server, with the objects below a prefix."""

    server: S3Server
    client: Any
    name: str

    @classmethod
    def new(cls, server: S3Server, versioned: bool = False) -> Bucket:
        bucket = cls(server, server.client(), f"bucket-{next(_NUMBERS)}")
        bucket.client.create_bucket(Bucket=bucket.name)
        return bucket

    def keep_versions(self) -> None:
        settings = {"Status": "Enabled"}
        self.client.put_bucket_versioning(Bucket=self.name, VersioningConfiguration=settings)

    def put(self, path: str, data: bytes) -> FileEntry:
        """Store an object; its manifest entry, pinned by ETag and version."""
        answer = self.client.put_object(Bucket=self.name, Key=f"{PREFIX}/{path}", Body=data)
        entry = entry_of(path.encode(), data)
        version = answer.get("VersionId")
        return replace(entry, etag=answer["ETag"].strip('"'), version_id=version)

    def fill(self, files: Mapping[str, bytes]) -> list[FileEntry]:
        return [self.put(path, data) for path, data in files.items()]

    @property
    def source(self) -> SourceSpec:
        return SourceSpec("s3", f"s3://{self.name}/{PREFIX}", self.name)


@contextmanager
def denying_store() -> Iterator[str]:
    """A store that lets nobody read anything."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Deny)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class _Deny(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent."""
