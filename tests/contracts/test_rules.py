"""What every registered rule keeps to, whoever wrote it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from slurm_io import config
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rule_pages import page, rule_text
from slurm_io.analysis.rules.base import HEADINGS, RULES, Answer, Finding, ask
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.store.schema import TABLES
from tests.analysis.rules.stores import (
    HEALTHY,
    answer,
    healthy,
    job,
    put,
    starved,
    with_healthy_tables,
)
from tests.analysis.stand_in import StandInNode, StandInStore

NAMES = sorted(RULES.discover())
DOCS = Path(__file__).parents[2] / "docs" / "rules"
TESTS = Path(__file__).parents[1] / "analysis"
KEYS = set(config.Thresholds.__dataclass_fields__)


def holds(said: Answer, code: str) -> None:
    """An answer is one of three, gives its reason, and its findings are whole."""
    assert said.state in ("fired", "quiet", "not enough evidence")
    assert (said.state == "fired") == bool(said.findings)
    assert said.findings or len(said.reason) > 5
    for finding in said.findings:
        whole(finding, code)


def whole(finding: Finding, code: str) -> None:
    """Code, evidence with figures, a remedy; nothing a terminal or a report could choke on."""
    assert finding.rule == code
    assert finding.evidence and all(one.text and one.metric for one in finding.evidence)
    assert any(one.value is not None for one in finding.evidence)
    assert finding.title and finding.remedy
    assert not finding.title.endswith(".") and "\n" not in finding.title
    assert finding.lost_gpu_s is None or finding.lost_gpu_s >= 0
    assert all("\n" not in command for command in finding.commands)


@pytest.mark.parametrize("name", NAMES)
class TestEveryRule:
    def test_lies_in_the_file_of_its_name(self, name: str) -> None:
        rule = RULES.get(name)
        module = inspect.getmodule(rule)
        assert module is not None
        assert module.__name__ == f"slurm_io.analysis.rules.{name}"
        assert re.fullmatch(r"f[0-9]{2}_[a-z0-9_]+", name)
        assert name.startswith(rule.code.lower() + "_")

    def test_has_a_page_with_all_headings_and_words_under_each(self, name: str) -> None:
        text = (DOCS / f"{name}.md").read_text("utf-8")
        assert text == page(name)
        parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
        assert tuple(parts[::2]) == HEADINGS
        assert all(len(body.split()) >= 8 for body in parts[1::2])

    def test_names_config_keys_that_exist(self, name: str) -> None:
        under = rule_text(name).rpartition("Thresholds\n----------")[2]
        named = set(under.split("``")[1::2])
        assert named, "no key of [thresholds] moves this rule"
        assert named <= {f"thresholds.{key}" for key in KEYS}

    def test_has_tests_of_its_own(self, name: str) -> None:
        texts = [file.read_text("utf-8") for file in TESTS.rglob("test_*.py")]
        assert any(f'"{name}"' in text or f'"{RULES.get(name).code}"' in text for text in texts)

    def test_answers_on_an_empty_store(self, name: str) -> None:
        said = answer(name, StandInStore(None, {}, ()))
        holds(said, RULES.get(name).code)
        assert said.state == "not enough evidence"

    def test_answers_on_a_node_without_anything(self, name: str) -> None:
        said = answer(name, StandInStore(None, {"n1": StandInNode("n1", {})}, ("n1",)))
        holds(said, RULES.get(name).code)
        assert said.state == "not enough evidence"

    def test_looks_and_touches_nothing(self, name: str) -> None:
        picture = take_picture(with_healthy_tables(job(healthy(300))), Thresholds())
        before = picture.causes.rows, picture.losses.unit_steps, picture.timeline.events
        first, second = ask(RULES.get(name)(), picture), ask(RULES.get(name)(), picture)
        assert first == second
        after = picture.causes.rows, picture.losses.unit_steps, picture.timeline.events
        assert all(old.equals(new) for old, new in zip(before, after, strict=True))


def all_hold(store: StandInStore) -> dict[str, str]:
    """Every rule's state on `store`, one picture for all."""
    picture = take_picture(store, Thresholds())
    states = {}
    for rule in RULES:
        said = ask(rule(), picture)
        holds(said, rule.code)
        states[rule.code] = said.state
    return states


@pytest.mark.parametrize("table", sorted(TABLES))
def test_rules_answer_on_a_store_with_one_table_only(table: str) -> None:
    full = with_healthy_tables(job(healthy(300)))
    node = StandInNode("n1", {"end_ts_ns": full.nodes["n1"].meta["end_ts_ns"]})
    node.tables[table] = full.nodes["n1"].tables[table]
    assert "fired" not in all_hold(StandInStore(full.job, {"n1": node}, ("n1",))).values()


@pytest.mark.parametrize("table", sorted(TABLES.keys() - {"steps"}))
def test_no_rule_fires_because_one_table_is_missing(table: str) -> None:
    store = with_healthy_tables(job(healthy(300)))
    store.nodes["n1"].tables[table] = []
    assert "fired" not in all_hold(store).values()


def test_null_is_not_zero() -> None:
    """Rows that tell nothing but their keys: sources that were there and could not see."""
    store = job(healthy(300))
    for table, row in HEALTHY.items():
        keys = {*TABLES[table].key, "fstype", "source", "version", "role", "certain"}
        keys |= {column.name for column in TABLES[table].columns if not column.nullable}
        put(
            store,
            table,
            lambda second, row=row, keys=keys: _only(row(second), keys),
            interval=table != "capacity",
        )
    assert "fired" not in all_hold(store).values()


NONSENSE = [None, "x", [], [1], {"a": {}}, [{"mount": 1, "gpu": "x", "num_workers": "y"}], -5, True]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
@pytest.mark.parametrize("key", ["sources", "mounts", "loaders", "processes", "ncpu", "ranks"])
def test_nonsense_in_meta_stops_no_rule(key: str, value: object) -> None:
    store = with_healthy_tables(job(starved(300, "cpu")))
    store.nodes["n1"].meta[key] = value
    all_hold(store)


def _only(found: object, keys: set[str]) -> list[dict[str, object]]:
    rows = found if isinstance(found, list) else [found]
    return [{name: value for name, value in row.items() if name in keys} for row in rows]


def test_codes_are_unique() -> None:
    codes = [rule.code for rule in RULES]
    assert len(codes) == len(set(codes))


def test_no_two_rules_have_one_title() -> None:
    titles = [rule.title for rule in RULES]
    assert len(titles) == len(set(titles))
