from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from slurm_io.config import parse
from slurm_io.errors import SpecError, UsageError
from slurm_io.reservation.staging.by_command import wish_of
from slurm_io.reservation.staging.copying import Copying, stage_words
from slurm_io.reservation.staging.giving import Giving, serve_words
from slurm_io.reservation.staging.model import (
    Donor,
    NodeAnswer,
    NodesPlan,
    StagedNodes,
    Target,
    Wish,
)
from slurm_io.reservation.staging.planning import reservation_of, split_sources

WISH = Wish("c4", ("t2",), config_path="/etc/c.toml")
WORDS: dict[str, Any] = {
    "name": "c4", "to": ("t[1-2]", "t4"), "given": (), "reservation": None, "tier": None,
    "bandwidth": None, "delete_extra": False, "engine": None, "streams": None,
}  # fmt: skip


def over(rc: int | None, *lines: str) -> NodeAnswer:
    copying = Copying(Target("t2", "t2"), ("t1",))
    copying.errand = SimpleNamespace(rc=rc, last_words=lambda: "killed")  # type: ignore[assignment]
    for line in lines:
        copying.take_line(line)
    return copying.node_answer()


def test_ready_is_what_exit_code_and_answer_both_say() -> None:
    assert over(0, "noise", json.dumps({"state": "ready", "text": "all"})).rc == 0
    for lines in ((), ("{",), ('{"state": "failed"}',), ("[1]",), ('{"state": 1}',)):
        answer = over(0, *lines)
        assert answer.rc is None and "does not say that it is ready" in answer.text
    assert over(None).text == "killed"
    assert over(3, '{"state": "failed", "text": "no\\nspace"}').text == "no?space"


def test_the_exit_code_is_that_of_the_worst_node() -> None:
    plan = NodesPlan("c4", "c1-a", "spares", (), ())

    def code(*codes: int | None) -> int:
        return StagedNodes(plan, tuple(NodeAnswer("t", rc, "") for rc in codes)).exit_code

    assert (code(), code(0, 0), code(0, 1), code(1, 3), code(0, None), code(0, 137)) == (
        0, 0, 1, 3, 3, 3,
    )  # fmt: skip


def test_no_secret_is_among_the_words() -> None:
    giving = Giving(Donor("t1", "training", "10.0.0.1", 5), "s3cr3t")
    words = [
        *serve_words("c4@c1-a", giving.donor, ("10.0.0.2",), 60, ()),
        *stage_words("c4", WISH, ()),
    ]
    assert "--bwlimit=5" in words and "--sources=-" in words and "--secret-stdin" in words
    assert not any("s3cr3t" in word for word in words)
    giving.take_line("noise")
    giving.take_line('{"where": "http://x"}')
    giving.take_line('{"where": "rsync://stage@10.0.0.1:9/data"}')
    giving.take_line('{"where": "rsync://stage@evil:9/data"}')
    assert giving.source()["where"] == "rsync://stage@10.0.0.1:9/data"
    assert giving.source()["secret"] == "s3cr3t"


def test_sources_are_nodes_or_places() -> None:
    assert split_sources(("s3", "/mnt/c4", "s3://b/p")) == (("s3", "/mnt/c4", "s3://b/p"), ())
    assert split_sources(("t1", "t2")) == ((), ("t1", "t2"))
    assert split_sources(("peer",)) == split_sources(()) == ((), ())
    for bad in (("peer", "s3"), ("t1", "path"), ("t[1-2]",), ("ALL",)):
        with pytest.raises(UsageError):
            split_sources(bad)


def test_the_reservation_is_the_one_that_must_hold_the_dataset() -> None:
    one = {"reservation": {"a": {"dataset": "c4@c1-x"}, "b": {"dataset": "pile"}}}
    assert reservation_of(parse(one), "c4") == "a"
    two = {"reservation": {"a": {"dataset": "c4"}, "b": {"dataset": "c4"}}}
    spare = {**one, "dataset": {"other": {"local": "/d"}}}
    for tables, name in ((two, "c4"), (spare, "other")):
        with pytest.raises(UsageError, match="--reservation"):
            reservation_of(parse(tables), name)
    with pytest.raises(SpecError, match="no dataset 'third'; there are: other"):
        reservation_of(parse(spare), "third")


def test_a_commands_words_become_a_wish() -> None:
    wish = wish_of(WORDS, None)
    assert (wish.name, wish.targets) == ("c4", ("t1", "t2", "t4"))
    with pytest.raises(UsageError, match="--engine is for this node alone"):
        wish_of({**WORDS, "engine": "copy"}, None)
    with pytest.raises(UsageError, match="NAME"):
        wish_of({**WORDS, "name": None}, None)


@pytest.mark.parametrize(
    "line",
    [
        '{"state": "ready", "text": ' + "[" * 500 + "]" * 500 + "}",
        '{"state": "ready", "seconds": NaN}',
        '{"state": "ready", "seconds": -Infinity}',
    ],
)
def test_an_answer_that_would_trip_whoever_shows_it_is_none(line: str) -> None:
    answer = over(0, line)
    assert answer.rc is None and answer.answer is None
