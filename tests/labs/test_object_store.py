"""The object store gives what lies in its folder, late as asked, over one connection."""

from __future__ import annotations

import http.client
import time
import urllib.parse
from pathlib import Path

from tests.labs.object_store import ObjectStore


def test_objects_come_late_over_a_connection_that_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"first" * 1000)
    (tmp_path / "b.bin").write_bytes(b"second")
    with ObjectStore(tmp_path, delay_s=0.05) as store:
        address = urllib.parse.urlsplit(store.endpoint)
        client = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        started_s = time.monotonic()
        got = []
        for name in ("a.bin", "b.bin", "../secret", "a.bin"):
            client.request("GET", f"/bucket/{name}")
            answer = client.getresponse()
            got.append((answer.status, len(answer.read())))
        client.close()
    assert got == [(200, 5000), (200, 6), (404, got[2][1]), (200, 5000)]
    assert time.monotonic() - started_s >= 4 * 0.05
