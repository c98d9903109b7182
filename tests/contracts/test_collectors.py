"""What every registered collector keeps to, whoever wrote it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import COLLECTORS, Collector, Context, Tick
from slurm_io.store.schema import TABLES

HEADINGS = ("Source", "Columns", "Needs", "Cost")
NAMES = sorted(COLLECTORS.discover())
VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "int64": (int,),
    "int32": (int,),
    "float64": (float, int),
    "float32": (float, int),
    "string": (str,),
    "bool": (bool,),
}
RANGES = {"int64": (-(2**63), 2**63), "int32": (-(2**31), 2**31)}


def empty_context(root: Path) -> Context:
    return Context(
        proc_root=root / "proc",
        sys_root=root / "sys",
        members=lambda: (),
        cgroup_paths=lambda: (),
        capacity_mounts=lambda: (),
        phase_of=lambda pid: ("none", None),
    )


def real_context() -> Context:
    return Context(
        proc_root=Path("/proc"),
        sys_root=Path("/sys"),
        members=lambda: (),
        cgroup_paths=lambda: ("/",),
        capacity_mounts=lambda: ("/",),
        phase_of=lambda pid: ("none", None),
    )


def tick(second: int) -> Tick:
    mono_ns = second * 1_000_000_000
    return Tick(1_700_000_000_000_000_000 + mono_ns, mono_ns, None if second == 0 else 10**9)


def collector(name: str) -> Any:
    return COLLECTORS.get(name)()


def test_some_are_registered() -> None:
    assert {"block", "node", "cgroup", "capacity"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
class TestEveryCollector:
    def test_lies_in_the_file_of_its_name(self, name: str) -> None:
        module = inspect.getmodule(COLLECTORS.get(name))
        assert module is not None
        assert module.__name__.startswith(f"slurm_io.collectors.{name}")
        assert collector(name).name == name

    def test_fills_a_table_of_the_schema(self, name: str) -> None:
        one = collector(name)
        assert one.table in TABLES
        assert one.period_s > 0

    def test_docstring_has_the_four_headings_in_order(self, name: str) -> None:
        doc = importlib.import_module(f"slurm_io.collectors.{name}").__doc__ or ""
        # A heading stands alone or before a colon; something stands under or behind it.
        places = [re.search(rf"^{heading}(:| *$)", doc, re.MULTILINE) for heading in HEADINGS]
        assert None not in places
        starts = [place.start() for place in places if place is not None]
        assert starts == sorted(starts)
        ends = [*starts[1:], len(doc)]
        for start, end, heading in zip(starts, ends, HEADINGS, strict=True):
            assert len(doc[start:end].replace(heading, "").strip(":-=\n ")) > 5, heading

    def test_an_empty_machine_is_said_and_never_an_error(self, name: str, tmp_path: Path) -> None:
        one = collector(name)
        try:
            availability = one.open(empty_context(tmp_path))
            assert availability.state in ("off", "partial", "absent")
            assert availability.reason.strip()
            assert [list(one.collect(tick(second))) for second in (0, 1)] == [[], []]
            assert isinstance(one.facts(), dict)
        finally:
            one.close()

    def test_rows_fit_the_schema(self, name: str) -> None:
        one: Collector = collector(name)
        columns = TABLES[one.table].columns
        try:
            one.open(real_context())
            rows = [row for second in range(3) for row in one.collect(tick(second))]
        finally:
            one.close()
        for row in rows:
            assert len(row) == len(columns)
            for value, column in zip(row, columns, strict=True):
                if value is None:
                    assert column.nullable, column.name
                    continue
                assert isinstance(value, VALUE_TYPES[column.type]), column.name
                if column.type in RANGES:
                    low, high = RANGES[column.type]
                    assert isinstance(value, int) and low <= value < high, column.name

    def test_can_be_closed_unopened_and_twice(self, name: str) -> None:
        one = collector(name)
        one.close()
        one.close()

    def test_tells_its_facts_after_close_too(self, name: str) -> None:
        one = collector(name)
        one.open(real_context())
        one.collect(tick(0))
        before = one.facts()
        one.close()
        assert one.facts().keys() == before.keys()

    def test_keeps_no_descriptor_after_close(self, name: str) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        one = collector(name)
        one.open(real_context())
        one.collect(tick(0))
        one.close()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
