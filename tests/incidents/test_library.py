"""Every incident's file holds all keys and no other; bad files are refused with their reason."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io import analysis
from slurm_io.analysis.reports.text import WIDTH
from slurm_io.errors import RegistryError
from slurm_io.incidents import page
from slurm_io.incidents.library import Incident, incidents, parse_incident

FOLDER = Path(page.__file__).parent
FILES = sorted(FOLDER.glob("*.toml"))
GOOD = (FOLDER / "fsx-lazy-load.toml").read_text()
KEYS = [line.partition(" = ")[0] for line in GOOD.splitlines() if re.match(r"\w+ = ", line)][:-1]


def without(key: str) -> str:
    """GOOD without one of its top keys."""
    return re.sub(rf"^{key} = (\[.*?^\]|[^\n]*)\n", "", GOOD, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_is_an_incident_with_all_its_keys(path: Path) -> None:
    incident = parse_incident(path.stem, path.read_text())
    assert incident in incidents()
    assert "https://" in incident.source or re.search(r"\(.*20\d\d", incident.source)
    assert len(f"similar   {incident.id}: {incident.title}") <= WIDTH  # one line of a report


def test_there_are_both_causes_of_smollm3_and_ids_are_unique() -> None:
    ids = [one.id for one in incidents()]
    assert {"smollm3-evicted-shards", "smollm3-index-growth"} <= set(ids)
    assert len(ids) == len(set(ids)) == len(FILES) >= 20


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_key_is_named(key: str) -> None:
    assert without(key) != GOOD
    with pytest.raises(RegistryError, match=rf"x: missing keys \['{key}'\]"):
        parse_incident("x", without(key))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: 'severity = "bad"\n' + text, r"unknown keys \['severity'\]"),
        (lambda text: text.replace("[rules]\n", "[rules]\nF00 = []\n"), "no rule is called F00"),
        (lambda text: text.replace("F08 = []", 'F08 = ["a > 1"]'), "a sign is"),
        (lambda text: text.replace("F08 = []", "F08 = 1"), "rules.F08 must be a list"),
        (lambda text: text.replace('"file system"', '"weather"'), "component is one of"),
        (lambda text: re.sub(r"trigger = .*", 'trigger = " "', text), "trigger must be a text"),
        (lambda text: re.sub(r"fstypes = .*", "fstypes = [1]", text), "fstypes must be a text"),
        (lambda text: without("lessons") and "lessons = []\n" + without("lessons"), "lessons must"),
        (lambda text: text + "x", "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_with_its_reason(change, says: str) -> None:  # type: ignore[no-untyped-def]
    changed = change(GOOD)
    assert changed != GOOD
    with pytest.raises(RegistryError, match=says):
        parse_incident("x", changed)


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(RegistryError, match="lower-case"):
        parse_incident("Big Crash", GOOD)


@given(st.text(max_size=300))
def test_any_text_is_an_incident_or_refused(text: str) -> None:
    with pytest.raises(RegistryError):
        parse_incident("x", text)


def test_signs_are_metrics_that_rules_give() -> None:
    """A sign nobody measures would make the incident similar to nothing."""
    folder = Path(analysis.__path__[0])
    sources = "".join(path.read_text() for path in folder.rglob("*.py"))
    signs = [sign for one in incidents() for those in one.rules.values() for sign in those]
    assert signs
    assert [sign for sign in signs if f'"{sign.metric}"' not in sources] == []


def test_the_page_is_fresh_and_names_all() -> None:
    assert page.main(["--check"]) == 0
    text = page.PAGE.read_text()
    assert all(f"## {one.id}\n" in text for one in incidents())


def test_an_incident_on_a_terminal_fits_it_and_holds_everything() -> None:
    for incident in incidents():
        shown = page.show(incident)
        assert all(len(line) <= 96 for line in shown.splitlines())
        flat = " ".join(shown.split())
        assert all(text in flat for text in _texts(incident))


def _texts(incident: Incident) -> list[str]:
    return [incident.trigger, incident.root_cause, *incident.lessons, *incident.symptoms]


def test_an_incident_fits_the_terminal() -> None:
    one = max(incidents(), key=lambda one: len(page.show(one)))
    body = page.show(one, 60).splitlines()[1:]
    assert max(map(len, body)) <= 60
    assert page.show(one, 500) == page.show(one)
