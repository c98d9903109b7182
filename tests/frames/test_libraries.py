"""Every library of frames against stacks recorded from the library itself.

``recorded/<library>/*.txt`` are py-spy dumps (0.4.3; a few 0.4.2, which prints bare names) of real
runs on CPython 3.11, paths neutralised; ``expected.json`` says what each is. A library that names a
meaning no recording shows stands in UNRECORDED with the reason.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from slurm_io.frames.base import LIBRARIES, Rule
from slurm_io.frames.process import judge_process
from slurm_io.frames.table import load_table
from slurm_io.frames.thread import SUB_STATES
from slurm_io.stacktext.faulthandler import parse_faulthandler
from slurm_io.stacktext.gdb import parse_backtrace
from slurm_io.stacktext.model import Dump, Frame
from slurm_io.stacktext.pyspy_dump import parse_dump
from slurm_io.stacktext.tracebacks import parse_tracebacks

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
TABLE = load_table()
NAMES = sorted(LIBRARIES.discover())
FILES = sorted(str(path.relative_to(RECORDED)) for path in RECORDED.glob("*/*.txt"))
EXPECTED: dict[str, list[str | None]] = json.loads((RECORDED / "expected.json").read_text())
_SHORT = "too short a call to be met by ten thousand looks; read in the source"
_NEEDS_GPU = "needs a GPU; the names are read in the source"
_NOT_INSTALLABLE = "is no package that installs here; the names are read in the source"
UNRECORDED: dict[str, dict[tuple[str, str], str]] = {
    "dali": {("data_wait", "epoch"): _SHORT},
    "deepspeed": {
        ("ckpt", "async"): "the decoupled engine needs its compiled writer; read in the source",
        ("writer", ""): "the decoupled engine needs its compiled writer; read in the source",
    },
    "ffcv": dict.fromkeys(
        [("data_wait", ""), ("data_wait", "epoch"), ("helper", ""), ("reading", "")],
        _NOT_INSTALLABLE,
    ),
    "lightning": {("data_wait", "epoch"): _SHORT},
    "litdata": {
        ("decoding", ""): "compressed chunks need a cloud bucket to be made; read in the source",
        ("wait", ""): _SHORT,
        ("helper", ""): _SHORT,
        ("reading", ""): _SHORT,
    },
    "megatron": dict.fromkeys(
        [("collective", ""), ("data_wait", ""), ("data_wait", "dispatcher"), ("writer", "")],
        "the training loop is no package, pipeline stages need GPUs; read in the source",
    ),
    "nanotron": dict.fromkeys(
        [
            ("ckpt", ""),
            ("collate", ""),
            ("data_wait", ""),
            ("mapped", "memmap"),
            ("reading", ""),
            ("restore", ""),
        ],
        _NOT_INSTALLABLE,
    ),
    "ray_data": dict.fromkeys(
        [
            ("collate", ""),
            ("data_wait", ""),
            ("data_wait", "epoch"),
            ("helper", ""),
            ("receiving", ""),
            ("transform", ""),
        ],
        "its node daemon does not start here; the names are read in the source",
    ),
    "tf_data": {("data_wait", "epoch"): _SHORT},
    "torch_compute": {},
    "torchdata_nodes": {("data_wait", "epoch"): _SHORT},
}


def read(name: str) -> Dump:
    return parse_dump((RECORDED / name).read_bytes())


@cache
def frames_seen() -> frozenset[Frame]:
    """Frames of all recordings and of the published texts."""
    public = HERE / "public"
    stacks = [thread.frames for name in FILES for thread in read(name).threads]
    stacks += [
        t.frames
        for path in public.glob("*/dump*.txt")
        for t in parse_dump(path.read_bytes()).threads
    ]
    for path in public.glob("*/stderr.txt"):
        stacks += [thread.frames for thread in parse_faulthandler(path.read_bytes()).threads]
        stacks += [one.frames for one in parse_tracebacks(path.read_bytes())]
    for native in parse_backtrace((public / "b11" / "gdb_bt.txt").read_bytes()):
        stacks.append((*native.frames, *(Frame(name, "?") for name in native.callbacks)))
    return frozenset(frame for stack in stacks for frame in stack)


@cache
def meanings_seen() -> frozenset[tuple[str, str, str]]:
    told = (TABLE.meaning_of(frame) for frame in frames_seen())
    return frozenset((one.library, one.what, one.note) for one in told if one is not None)


def test_recordings_and_expectations_are_the_same_files() -> None:
    assert sorted(EXPECTED) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_recording_is_judged_as_what_it_is(name: str) -> None:
    dump = read(name)
    told = judge_process(dump.threads, TABLE)
    assert [told.role, told.state, told.sub] == EXPECTED[name]
    assert dump.dropped_lines == 0 and dump.dropped_frames <= ("native" in name)
    assert told.sub is None or told.sub in SUB_STATES


@pytest.mark.parametrize("name", FILES)
def test_bare_names_are_judged_like_qualified_ones(name: str) -> None:
    """py-spy 0.4.2, and every version for Python 3.10 and older, prints the last part only."""
    dump = read(name)
    bare = tuple(
        type(thread)(
            tuple(frame._replace(name=frame.short_name) for frame in thread.frames),
            thread.ident,
            thread.name,
            thread.status,
        )
        for thread in dump.threads
    )
    told = judge_process(bare, TABLE)
    assert [told.role, told.state, told.sub] == EXPECTED[name]


@pytest.mark.parametrize("name", NAMES)
class TestEveryLibrary:
    def test_says_of_which_versions_it_speaks_and_what_it_is(self, name: str) -> None:
        library = LIBRARIES.get(name)
        assert any(character.isdigit() for character in library.versions)
        module = __import__(f"slurm_io.frames.{name}", fromlist=["x"])
        assert len(module.__doc__ or "") > 30

    def test_each_meaning_is_shown_by_a_real_stack_or_says_why_not(self, name: str) -> None:
        wanted = {(r.meaning.what, r.meaning.note) for r in LIBRARIES.get(name).rules}
        seen = {(what, note) for library, what, note in meanings_seen() if library == name}
        excused = UNRECORDED.get(name, {})
        assert wanted - seen == set(excused), "record it, or say in UNRECORDED why that cannot be"

    def test_rules_are_written_as_they_are_read(self, name: str) -> None:
        rules = LIBRARIES.get(name).rules
        assert rules
        for rule in rules:
            assert rule.file == rule.file.strip() and "\\" not in rule.file
            assert not any("." in part for part in rule.names), "the last component only"
            if rule.file.startswith(("native:", "library:")):
                assert not rule.names

    def test_no_rule_says_twice_what_one_says(self, name: str) -> None:
        pairs = [
            (rule.file, one) for rule in LIBRARIES.get(name).rules for one in rule.names or {""}
        ]
        assert len(pairs) == len(set(pairs))


def test_no_two_libraries_claim_the_same_function() -> None:
    claims: dict[tuple[str, str], str] = {}
    for name in NAMES:
        for rule in LIBRARIES.get(name).rules:
            for function in rule.names or {""}:
                assert claims.setdefault((rule.file, function), name) == name


def test_a_rule_finds_its_own_function() -> None:
    """Whatever a rule names is looked up as that rule says, not as a broader one does."""
    for name in NAMES:
        for rule in LIBRARIES.get(name).rules:
            for frame in example_frames(rule):
                told = TABLE.meaning_of(frame)
                assert told is not None, frame
                assert (told.what, told.library) == (rule.meaning.what, name), frame


def example_frames(rule: Rule) -> list[Frame]:
    if rule.file.startswith("native:"):
        return [Frame(rule.file[len("native:") :] + "x", "libx.so")]
    if rule.file.startswith("library:"):
        return [Frame("f", rule.file[len("library:") :] + ".so.1")]
    file = rule.file
    if file.startswith("std:"):
        file = f"/usr/lib/python3.12/{file[4:]}"
    if file.endswith("/"):
        file = f"/opt/lib/python3.12/site-packages/{file}x.py"
    return [Frame(one, file, 3) for one in rule.names] or [Frame("anything", file, 3)]
