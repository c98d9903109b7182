"""A check about the user's data runs as the user, for good: what he cannot read, it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.probe import probe
from slurm_io.model import CheckResult
from slurm_io.prolog.check_plan import plan_checks
from slurm_io.prolog.checks.base import CheckContext, Identity
from slurm_io.prolog.entry_scripts import package_folders
from slurm_io.prolog.node_memory import NodeMemory
from slurm_io.prolog.run_checks import CheckRun
from tests.prolog.stand_ins import make_check, make_context, result

pytestmark = pytest.mark.root


def ask(function: Any, identity: Identity = "user", **changes: Any) -> CheckResult:
    context = replace(make_context(), **changes)
    plan = plan_checks({"who": make_check(function, identity=identity)}, context, 5.0)
    run = CheckRun(plan, NodeMemory())
    run.run()
    return run.ran[0].results[0]


def who(context: CheckContext) -> Any:
    ids = {"uids": list(os.getresuid()), "gids": list(os.getresgid()), "groups": os.getgroups()}
    return [result(facts=ids)]


def become_root(context: CheckContext) -> Any:
    for attempt in (os.setuid, os.seteuid, os.setgid, os.setegid):
        try:
            attempt(0)
        except PermissionError:
            continue
        return [result("FAIL")]
    return [result()]


def test_it_is_the_user_with_the_users_groups() -> None:
    facts = ask(who).facts
    assert facts["uids"] == [5] * 3
    assert facts["gids"] == [60] * 3
    assert sorted(facts["groups"]) == sorted(os.getgrouplist("games", 60))


def test_a_root_check_stays_root() -> None:
    assert ask(who, identity="root").facts["uids"] == [0] * 3


def test_there_is_no_way_back() -> None:
    assert ask(become_root).answer == "OK"


def test_a_user_without_a_line_in_the_password_file_has_the_jobs_group_only() -> None:
    facts = ask(who, uid=4_000_111, gid=4_000_222, user="gone").facts
    assert facts == {"uids": [4_000_111] * 3, "gids": [4_000_222] * 3, "groups": [4_000_222]}


def test_a_job_whose_gid_is_not_known_is_not_run_with_roots() -> None:
    assert ask(who, gid=0).facts["gids"] == [60] * 3
    assert ask(who, uid=4_000_111, gid=0, user="gone").facts["gids"] == [65534] * 3


def test_roots_own_job_is_checked_as_root() -> None:
    assert ask(who, uid=0, gid=0, user="root").facts["uids"] == [0] * 3


@pytest.mark.parametrize("target", ["/proc/1/environ", "/proc/1/root/etc/shadow", "/etc/shadow"])
def test_a_link_to_what_only_root_may_read_is_refused_by_the_kernel(
    tmp_path: Path, target: str
) -> None:
    tmp_path.parents[1].chmod(0o755)
    tmp_path.parents[0].chmod(0o755)
    tmp_path.chmod(0o755)
    link = tmp_path / "ckpt"
    link.symlink_to(target)
    found = ask(lambda context: [result(text=str(len(link.read_bytes())))])
    assert found.answer == "UNKNOWN"
    assert "Permission denied" in found.text


def test_a_fifo_in_the_paths_place_costs_the_deadline_and_no_more(tmp_path: Path) -> None:
    fifo = tmp_path / "ckpt"
    os.mkfifo(fifo)
    context = make_context(checks={"deadline_s": 0.3})
    check = make_check(lambda context: [result(text=fifo.read_text())], identity="root")
    run = CheckRun(plan_checks({"who": check}, context, 5.0), NodeMemory())
    run.run()
    assert run.ran[0].results[0].answer == "UNKNOWN"
    assert "0.3 s" in run.ran[0].results[0].text


def test_what_a_check_imports_on_its_way_is_found_behind_a_closed_door(tmp_path: Path) -> None:
    package = tmp_path / "closed" / "site" / "late_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "early.py").write_text("")
    (package / "late.py").write_text("answer = 42")
    (tmp_path / "closed").chmod(0o700)
    program = (
        "import sys; sys.path += sys.argv[1:]; import late_package.early;"
        "from slurm_io.prolog.check_child import become, keep_imports_working;"
        "keep_imports_working(); become(5, 60);"
        "import late_package.late, fcntl, xxhash; print(late_package.late.answer)"
    )
    folders = [str(package.parent), *package_folders().split(":")]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *folders],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("42\n", "")


def import_in_a_probe(context: CheckContext) -> Any:
    def import_new() -> str:
        import colorsys  # that nothing else here has loaded

        return colorsys.__name__

    sys.modules.pop("colorsys", None)
    answer = probe(import_new, timeout_s=5)
    return [result(text=answer.reason, facts={"imported": answer.value})]


def test_a_probe_below_a_users_check_can_still_import() -> None:
    found = ask(import_in_a_probe)
    assert found.facts == {"imported": "colorsys"}, found.text
