"""Another user's process: what everybody may see of it is recorded, the rest is counted."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from slurm_io.collectors.base import Tick
from slurm_io.collectors.process import ProcessCollector
from slurm_io.collectors.waits import WaitsCollector
from slurm_io.store.schema import TABLES
from tests.collectors.real_process import context, member, running

NOBODY = 65534


def as_nobody(look: Any) -> Any:
    """What `look` returns in a child without rights, by way of JSON."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(write_end, json.dumps(look()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return json.loads(text)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_refused_processes_are_counted_once_and_their_columns_are_null() -> None:
    with running("ready()\ntime.sleep(60)") as one, running("ready()\ntime.sleep(60)") as two:
        members = [member(one), member(two)]

        def look() -> Any:
            process, waits = ProcessCollector(), WaitsCollector()
            process.open(context(members))
            waits.open(context(members))
            rows = []
            for second in range(1, 4):
                waits.sample(time.monotonic_ns())
                rows = process.collect(Tick(second, second * 10**9, None)) or rows
            return [process.facts(), waits.facts(), rows]

        process_facts, waits_facts, rows = as_nobody(look)
    assert process_facts["io_refused"] == 2
    assert (waits_facts["processes_refused"], waits_facts["samples_refused"]) == (2, 6)
    assert "run as root" in waits_facts["refused_reason"]
    named = [dict(zip(TABLES["process"].column_names(), row, strict=True)) for row in rows]
    assert {row["pid"] for row in named} == {one, two}
    assert {(row["rchar_bytes"], row["read_bytes"]) for row in named} == {(None, None)}
    assert all(row["rss_bytes"] > 0 for row in named)
