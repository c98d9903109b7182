"""The whole screen from scripted answers: text, JSON, page; nothing hostile gets through."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import Config
from slurm_io.errors import SlurmError, SlurmUnreachable
from slurm_io.reservation.history import DONE, History, HistoryRecord
from slurm_io.reservation.status.collect import MOST_PEERS, Sources, read_status
from slurm_io.reservation.status.model import Status
from slurm_io.reservation.status.show import show
from slurm_io.reservation.status.text import render
from slurm_io.slurm.gres import Gpus
from slurm_io.slurm.infos import ConfigFacts, NodeInfo, Reason
from slurm_io.slurm.topology import Topology
from tests.reservation.pools import (
    C1,
    C2,
    NODES,
    FakeReach,
    FakeSlurm,
    config_of,
    data_behind,
    filler,
    node,
    report,
    training,
)

EVIL = '"><script>alert(1)</script>{{ 7*7 }}[red]\x1b[31m'


def config_in(tmp_path: Path, **section: Any) -> Config:
    return replace(config_of(**section), state_dir=str(tmp_path))


def screen(
    tmp_path: Path,
    slurm: FakeSlurm | None = None,
    reach: FakeReach | None = None,
    topology: Callable[[], Topology | None] = lambda: None,
    **section: Any,
) -> Status:
    asked = reach or FakeReach({name: report() for name in (*NODES, "n5")})
    config = config_in(tmp_path, **section)
    return read_status(Sources(slurm or FakeSlurm(), asked, config, topology=topology), "train")


def test_a_ready_spare_with_everything_known(tmp_path: Path) -> None:
    leaves = Topology(dict.fromkeys(NODES, "leaf1"))
    found = screen(tmp_path, topology=lambda: leaves)
    (spare,) = found.spares
    assert (spare.node, spare.state, spare.membership) == ("n4", "ready", "reservation")
    assert (spare.same_content, spare.bytes_behind, spare.level) == (True, 0, 4)
    assert (spare.health, spare.same_switch, spare.drift) == ("OK", True, ())
    assert found.content_id == C1
    assert not found.fleet.is_short
    assert found.notes == ()


def test_only_some_nodes_of_a_large_run_are_asked(tmp_path: Path) -> None:
    names = tuple(f"n{number}" for number in range(1, 41))
    slurm = FakeSlurm(
        jobs_now=(training(nodes=names[:39]),),
        nodes_now=tuple(node(name) for name in names),
    )
    slurm.reservations_now = (replace(slurm.reservations_now[0], nodes=names),)
    reach = FakeReach({name: report() for name in names})
    found = screen(tmp_path, slurm, reach)
    assert len(reach.asked[0][0]) == 1 + MOST_PEERS
    assert found.fleet.run_nodes == 39


def test_quick_asks_no_node_and_calls_nothing_ready(tmp_path: Path) -> None:
    found = read_status(
        Sources(FakeSlurm(), None, config_in(tmp_path), topology=lambda: None), "train"
    )
    assert [spare.state for spare in found.spares] == ["unknown"]
    assert found.fleet.is_short
    assert found.spares[0].health is None


def test_spares_that_waiting_jobs_will_take_do_not_count_as_ready(tmp_path: Path) -> None:
    requeued = training(state="PENDING", nodes=(), reason="BeginTime")
    found = screen(tmp_path, FakeSlurm(jobs_now=(requeued,)))
    assert (found.fleet.ready, found.fleet.promised, found.fleet.run_nodes) == (4, 3, 3)
    assert not found.fleet.is_short
    assert "waiting jobs will take 3 nodes" in show(found, "text", to_terminal=False)
    assert screen(tmp_path, FakeSlurm(jobs_now=(requeued,)), needed=2).fleet.is_short


def test_the_last_time_it_really_took_over(tmp_path: Path) -> None:
    now_s = time.time()
    history = History(str(tmp_path), "train")
    for days, outcome in ((30, DONE), (3, "rolled back")):
        history.append(HistoryRecord("drill", now_s - days * 86400, None, "n4", "7", {}, outcome))
    (spare,) = screen(tmp_path).spares
    assert spare.last_swapped_s == pytest.approx(now_s - 30 * 86400)
    assert spare.last_swapped_kind == "drill"


def with_gpus(*names: str) -> tuple[NodeInfo, ...]:
    return tuple(node(name, gpus=Gpus({"h100": 8})) for name in names)


def test_the_fleet_s_numbers_have_their_bases(tmp_path: Path) -> None:
    now_s = time.time()
    history = History(str(tmp_path), "train")
    for days in (35, 28, 21, 14, 7, 2):
        history.append(HistoryRecord("failure", now_s - days * 86400, bad="n2"))
    phases = {"detect": 100.0, "init": 260.0}
    history.append(HistoryRecord("swap", now_s - 7 * 86400, "n2", "n4", "7", phases, DONE))
    data = {**report()["data"], "total_bytes": 24_000_000_000_000, "rate_bytes_s": 4.44e9}
    reach = FakeReach({name: report(data=data) for name in NODES})
    job = training(comment="slurm-io: price=2.5")
    found = screen(tmp_path, FakeSlurm(jobs_now=(job,), nodes_now=with_gpus(*NODES)), reach)
    fleet = found.fleet
    assert fleet.failures_per_week == pytest.approx(6 / 5)
    assert fleet.lemons == (("n2", 5),)
    assert "6 failures of 4 nodes in 35 days" in fleet.needed_base
    assert fleet.needed == 1
    assert fleet.money is not None
    assert fleet.money.spares_usd == pytest.approx(8 * 168 * 2.5)
    copy_h = 24e12 / 4.44e9 / 3600
    saved = 24 * (copy_h - 0.1) * 2.5 / (30 / 7)
    assert fleet.money.avoided_usd == pytest.approx(saved, rel=1e-3)


def test_without_a_price_or_a_history_nothing_is_made_up(tmp_path: Path) -> None:
    fleet = screen(tmp_path).fleet
    assert (fleet.money, fleet.failures_per_week, fleet.mttr_s) == (None, None, None)
    text = show(screen(tmp_path), "text", to_terminal=False)
    assert "no price of a GPU hour is known" in text
    assert "the history is shorter than two weeks" in text
    assert "there is no history yet" in text


def test_what_slurm_does_not_tell_is_a_note_and_no_end(tmp_path: Path) -> None:
    class Halting(FakeSlurm):
        def config(self) -> ConfigFacts:
            raise SlurmUnreachable("scontrol: no answer within 20 s")

    def silent() -> Topology | None:
        raise SlurmError("scontrol show topology: Socket timed out")

    found = screen(tmp_path, Halting(), topology=silent)
    assert found.notes == ("Slurm's configuration not read: scontrol: no answer within 20 s",)
    assert found.spares[0].same_switch is None
    assert "Socket timed out" in found.spares[0].switch_text


def hostile(tmp_path: Path) -> Status:
    """Everything that others can write holds markup, a template and an escape sequence."""
    nodes = (
        *map(node, NODES[:3]),
        node("n4", reason=Reason(EVIL, EVIL, 5)),
        node("n5", base="DOWN", reason=Reason(EVIL, EVIL, 5)),
    )
    jobs = (training(comment=f"slurm-io: {EVIL}"), filler(name=EVIL, user=EVIL))
    reach = FakeReach({name: report() for name in NODES[:3]})
    reach.reports["n4"] = report(
        data=data_behind(5, content_id=EVIL, problem=EVIL),
        health={EVIL: ["DEGRADED", EVIL]},
        skipped=[EVIL],
        drift={"kernel": EVIL, EVIL: EVIL},
        gpus=[EVIL],
        strays=[EVIL],
        unread={EVIL: EVIL},
    )
    History(str(tmp_path), "train").append(
        HistoryRecord("failure", time.time(), EVIL, gpus=(EVIL,))
    )
    return screen(tmp_path, FakeSlurm(jobs_now=jobs, nodes_now=nodes), reach, standby="n5")


def test_the_page_escapes_everything_and_loads_nothing(tmp_path: Path) -> None:
    page = show(hostile(tmp_path), "html")
    assert "<script" not in page
    assert "{{ 7*7 }}" in page  # as text: no template runs twice
    assert "\x1b" not in page
    assert not re.search(r"(?:src|href)\s*=|url\(|@import", page)
    assert "&lt;script&gt;" in page
    assert len(page) < 1_000_000


def test_the_text_holds_no_control_characters_and_keeps_to_100_columns(tmp_path: Path) -> None:
    text = show(hostile(tmp_path), "text", to_terminal=False)
    assert "\x1b" not in text
    assert "[red]" in text
    assert max(map(len, text.splitlines())) <= 100


def test_the_screen_cleans_what_reached_it_unclean(tmp_path: Path) -> None:
    found = screen(tmp_path)
    dirty = replace(found, spares=(replace(found.spares[0], reason=EVIL, skipped=(EVIL,)),))
    for form in ("text", "html"):
        assert "\x1b" not in show(dirty, form, to_terminal=False)


def test_the_json_is_json_and_says_what_the_screen_says(tmp_path: Path) -> None:
    told = json.loads(show(hostile(tmp_path), "json"), parse_constant=pytest.fail)
    assert told["schema"] == 1
    assert [spare["state"] for spare in told["spares"]] == ["stale", "unhealthy"]
    assert told["fleet"]["is_short"] is True
    assert told["spares"][0]["estimate"]["phases"][0]["name"] == "stage"


def test_a_page_of_many_spares_stays_small(tmp_path: Path) -> None:
    names = tuple(f"n{number}" for number in range(1, 601))
    slurm = FakeSlurm(jobs_now=(), nodes_now=tuple(node(name) for name in names))
    slurm.reservations_now = (replace(slurm.reservations_now[0], nodes=names),)
    page = show(screen(tmp_path, slurm, FakeReach({name: report() for name in names})), "html")
    assert len(page) < 1_000_000
    assert "more are left out here" in page


def test_each_state_is_shown_with_its_reason(tmp_path: Path) -> None:
    reach = FakeReach({name: report() for name in NODES})
    reach.reports["n4"] = report(data=data_behind(2_000_000_000, content_id=C2, rate_bytes_s=1e8))
    text = show(screen(tmp_path, reach=reach), "text", to_terminal=False)
    assert text.startswith("0 of 1 spares ready, 1 wanted")
    assert "stale: it holds version" in text
    assert "at least 2 GB in 3 files, about 20 s" in text


def test_no_spare_at_all_is_a_screen_too(tmp_path: Path) -> None:
    slurm = FakeSlurm(jobs_now=(training(nodes=NODES, node_count=4),))
    found = screen(tmp_path, slurm)
    assert found.fleet.is_short
    assert "0 of 0 spares ready" in show(found, "text", to_terminal=False)
    assert "has no spare" in show(found, "html")


def test_stale_spares_come_with_the_command_that_mends_them(tmp_path: Path) -> None:
    assert "slurm-io dataset stage" not in show(screen(tmp_path), "text", to_terminal=False)
    reach = FakeReach({name: report() for name in NODES} | {"n4": report(data=data_behind(10**9))})
    text = show(screen(tmp_path, reach=reach), "text", to_terminal=False)
    assert re.search(
        r"^  do  +slurm-io dataset stage c4 --to n4 --reservation \S+$", text, re.MULTILINE
    ), text


@pytest.mark.parametrize("width", range(60, 121, 5))
def test_no_line_ends_between_a_number_and_its_unit(tmp_path: Path, width: int) -> None:
    text = render(screen(tmp_path), width)
    assert not re.search(r"\d\n *(s|min|h|days|B|kB|MB|GB|TB|%)\b", text), text
    assert "\ue000" not in text


def test_exit_code_tells_too_few_from_nothing_known(tmp_path: Path) -> None:
    silent = {name: report() for name in NODES[:3]}
    stale = {**silent, "n4": report(data=data_behind(5))}
    down = FakeSlurm(nodes_now=(*map(node, NODES[:3]), node("n4", base="DOWN")))
    assert screen(tmp_path).exit_code == 0
    assert screen(tmp_path, reach=FakeReach(silent)).exit_code == 3
    assert screen(tmp_path, reach=FakeReach(silent), needed=0).exit_code == 0
    assert screen(tmp_path, reach=FakeReach(stale)).exit_code == 1
    assert screen(tmp_path, reach=FakeReach(stale), standby="n5").exit_code == 1
    assert screen(tmp_path, down, FakeReach(silent)).exit_code == 1
    full = FakeSlurm(jobs_now=(training(nodes=NODES, node_count=4),))
    assert screen(tmp_path, full).exit_code == 1
