"""The process behind one slowfs mount; started by :class:`tests.labs.slowfs.SlowFs`.

It answers one JSON object a connection on a Unix socket: ``{"set": {settings}}`` or ``{}``; the
reply is the ledger, or ``{"error": text}``. It unmounts and ends on SIGTERM and when its parent is
gone. A mount of a killed server is taken away by fusermount3 (auto_unmount).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import mfusepy

from tests.labs.mounts import unmount_lazily
from tests.labs.slowfs_faults import Faults
from tests.labs.slowfs_operations import SlowOperations
from tests.labs.slowfs_settings import SlowFsSettings

WATCH_S = 0.25
THREADS_MAX = 128
"""Each hanging or sleeping request holds one of libfuse's threads; its default is 10."""


def main(argv: list[str]) -> None:
    """Arguments: one JSON object, see :meth:`tests.labs.slowfs.SlowFs._arguments`."""
    arguments = json.loads(argv[0])
    # Before any thread starts, so that only the watching thread takes the signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    os.umask(0)
    faults = Faults(SlowFsSettings.from_json(json.dumps(arguments["settings"])))
    listener = _listen(Path(arguments["socket"]))
    threading.Thread(target=_serve, args=(listener, faults), daemon=True).start()
    threading.Thread(target=_watch, args=(arguments,), daemon=True).start()
    operations = SlowOperations(Path(arguments["backing"]), faults)
    mfusepy.FUSE(operations, arguments["mountpoint"], foreground=True, **_options(arguments))


def _options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Mount options; ``nonempty`` and the like are libfuse 2's."""
    cache = arguments["cache"]
    return {
        "fsname": arguments["source"],
        "subtype": "slowfs",
        "default_permissions": True,
        "auto_unmount": True,
        "allow_other": arguments["allow_other"],
        "max_threads": THREADS_MAX,
        "direct_io": cache == "direct",
        "kernel_cache": cache == "kernel",
        "attr_timeout": arguments["attr_timeout_s"],
        "entry_timeout": arguments["attr_timeout_s"],
    }


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.fspath(path))
    path.chmod(0o600)
    listener.listen()
    return listener


def _serve(listener: socket.socket, faults: Faults) -> None:
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(json.dumps(_answer(stream.readline(), faults)))


def _answer(line: str, faults: Faults) -> dict[str, Any]:
    try:
        asked = json.loads(line)
        if "set" in asked:
            faults.change(SlowFsSettings.from_json(json.dumps(asked["set"])))
    except (ValueError, TypeError) as error:
        return {"error": str(error)}
    return faults.ledger.to_dict()


def _watch(arguments: dict[str, Any]) -> None:
    """Wait for SIGTERM or for the parent's death, then leave nothing behind."""
    while os.getppid() == arguments["parent"]:
        if signal.sigtimedwait({signal.SIGTERM}, WATCH_S) is not None:
            break
    else:
        shutil.rmtree(Path(arguments["socket"]).parent, ignore_errors=True)
    unmount_lazily(Path(arguments["mountpoint"]))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
