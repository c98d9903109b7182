"""An object store near by: GET /bucket/NAME gives a file, after a delay; nothing else is known.

    with ObjectStore(folder, delay_s=0.025) as store:
        train(store.endpoint)

It runs as a process of its own (``python -m tests.labs.object_store FOLDER DELAY_S``), so that its
CPU time is not its client's. Connections stay open, as an object store's clients expect.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.labs.server_process import ServerProcess


class ObjectStore(ServerProcess):
    """The files of `folder` by name; every GET waits `delay_s` before its first byte."""

    def __init__(self, folder: Path, delay_s: float) -> None:
        super().__init__("tests.labs.object_store", os.fspath(folder.resolve()), str(delay_s))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, delay_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Get)
        self.folder = folder
        self.delay_s = delay_s


class _Get(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """One object; its name is the last part of the path."""
        server = self.server
        assert isinstance(server, _Server)
        time.sleep(server.delay_s)
        try:
            path = server.folder / Path(self.path).name
            size = path.stat().st_size
        except OSError:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        with path.open("rb") as file:
            shutil.copyfileobj(file, self.wfile)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silent."""


def main(arguments: list[str]) -> None:
    """Serve until killed; the first line of output is the address."""
    server = _Server(Path(arguments[0]), float(arguments[1]))
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
