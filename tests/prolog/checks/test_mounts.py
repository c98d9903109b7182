"""The check of mounts: present, right, writable, answering; whose fault; one that hangs."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import Config, DatasetConfig
from slurm_io.errors import ConfigError
from slurm_io.model import CheckResult
from slurm_io.prolog.checks import mounts as check
from slurm_io.prolog.checks.base import CHECKS, CheckContext
from slurm_io.spec import JobSpec
from tests.filesystems.node_trees import NodeTree
from tests.labs.freezer import freezer_group, sleep_in_state_d
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings


class Node:
    """A fake node whose mount points are real folders of this test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = NodeTree(root / "node")
        self.scratch = self.folder("scratch")
        self.spool = self.folder("spool")
        self.spec = JobSpec()
        self.config = Config(spool_dir=str(self.spool))

    def folder(self, name: str) -> Path:
        path = self.root / name
        path.mkdir()
        return path

    def lustre(self, options: str = "rw,flock", source: str = "10.0.0.1@o2ib:/scratch") -> None:
        self.tree.mount(self.scratch, "0:40", "lustre", source, options)

    def context(
        self,
        *required: str,
        budget_s: float = 3.0,
        answer_s: float = 1.0,
        uid: int | None = None,
    ) -> CheckContext:
        own = {"required": list(required), "answer_s": answer_s}
        return CheckContext(
            "node1", self.config, self.spec, budget_s, "user1",
            os.getuid() if uid is None else uid, os.getgid(),
            own=own, proc_root=str(self.tree.proc), sys_root=str(self.tree.sys),
        )  # fmt: skip

    def results(self, *required: str, **more: Any) -> dict[str, CheckResult]:
        found = CHECKS.get("mounts").run(self.context(*required, **more))
        for result in found:
            assert result.text.isprintable() and CheckResult.from_dict(result.to_dict()) == result
        return {result.subject or "": result for result in found}

    def scratch_result(self, words: str = "", **more: float) -> CheckResult:
        return self.results(f"{self.scratch} {words}", **more)[str(self.scratch)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    yield Node(tmp_path)


def test_all_well(node: Node) -> None:
    node.lustre()
    found = node.results(
        f"{node.scratch} fstype=lustre source=10.0.0.1@o2ib:/scratch options=rw,flock"
    )
    assert {subject: result.answer for subject, result in found.items()} == {
        str(node.scratch): "OK",
        "/": "OK",  # holds the spool
    }
    assert found["/"].facts["for"] == ["spool"]


def test_a_missing_mount_is_the_nodes_fault_and_names_the_command(node: Node) -> None:
    result = node.scratch_result()
    assert (result.answer, result.kind) == ("FAIL", "node")
    assert "is not mounted" in result.text and result.commands == (f"mount {node.scratch}",)


@pytest.mark.parametrize(
    ("words", "answer", "said"),
    [
        ("fstype=nfs", "FAIL", "is lustre, not nfs"),
        ("source=10.0.0.1@o2ib:/home", "FAIL", "comes from 10.0.0.1@o2ib:/scratch"),
        ("source=10.0.0.9@o2ib:/scratch", "DEGRADED", "by another name"),
        ("options=noatime", "DEGRADED", "lacks the options noatime"),
        ("options=ro", "DEGRADED", "is writable, wanted read-only"),
        ("options=rw", "OK", "answers"),
    ],
)
def test_another_mount_than_wanted(node: Node, words: str, answer: str, said: str) -> None:
    node.lustre()
    result = node.scratch_result(words)
    assert (result.answer, result.kind) == (answer, "node")
    assert said in result.text


@pytest.mark.parametrize(
    ("options", "super_options", "said"),
    [
        ("ro", "ro", "mounted so"),
        ("rw", "ro,errors=remount-ro", "after an error"),
        ("rw", "rw,emergency_ro", "after an error"),
    ],
)
def test_read_only_where_it_must_be_written(
    node: Node, options: str, super_options: str, said: str
) -> None:
    node.tree.mount(node.spool, "9:0", "ext4", "/dev/md0", options, super_options)
    result = node.results()[str(node.spool)]
    assert (result.answer, result.kind) == ("FAIL", "node")
    assert said in result.text and "(holds: spool)" in result.text


def dataset_at(node: Node, path: Path | str) -> None:
    datasets = {"c4": DatasetConfig(local=str(path))}
    node.config = replace(node.config, datasets=datasets)
    node.spec = JobSpec(dataset="c4")


def test_a_dataset_may_be_read_only_unless_an_error_made_it_so(node: Node) -> None:
    dataset_at(node, node.scratch / "c4")
    node.tree.mount(node.scratch, "9:0", "ext4", "/dev/md0", "ro", "ro")
    assert node.results()[str(node.scratch)].answer == "OK"
    node.tree.mount(node.scratch, "9:0", "ext4", "/dev/md0", "rw", "ro")
    assert node.results()[str(node.scratch)].answer == "DEGRADED"


def test_the_dataset_is_found_behind_a_link(node: Node) -> None:
    (node.root / "link").symlink_to(node.scratch)
    dataset_at(node, node.root / "link" / "c4")
    node.lustre()
    assert node.results()[str(node.scratch)].facts["for"] == ["dataset c4"]


def test_of_stacked_mounts_the_last_counts(node: Node) -> None:
    node.tree.mount(node.scratch, "9:0", "ext4", "/dev/md0")
    node.lustre()
    result = node.scratch_result("fstype=lustre")
    assert (result.answer, result.facts["covers_mounts"]) == ("OK", 1)


def test_a_bind_mount_says_which_folder_it_is(node: Node) -> None:
    node.tree.mount(node.scratch, "8:1", "ext4", "/dev/sda1", root="/data")
    assert node.scratch_result().facts["root"] == "/data"


def test_what_autofs_did_not_mount_is_missing(node: Node) -> None:
    node.tree.mount(node.scratch, "0:50", "autofs", "/etc/auto.scratch")
    result = node.scratch_result("fstype=nfs")
    assert (result.answer, result.kind) == ("FAIL", "node")
    assert "autofs" in result.text


def test_a_dataset_that_autofs_does_not_bring_is_missing(node: Node) -> None:
    node.tree.mount(node.scratch, "0:50", "autofs", "/etc/auto.scratch")
    dataset_at(node, node.scratch / "c4")
    result = node.results()[str(node.scratch / "c4")]
    assert (result.answer, result.kind) == ("FAIL", "node")


def test_no_mountinfo_is_unknown(node: Node) -> None:
    (node.tree.proc / "self/mountinfo").unlink()
    assert [result.answer for result in node.results().values()] == ["UNKNOWN"]


@pytest.mark.parametrize("words", ["type=lustre", "options=rw,ro"])
def test_a_bad_setting_is_an_error_that_names_it(node: Node, words: str) -> None:
    with pytest.raises(ConfigError, match=r"check\.mounts\.required"):
        node.scratch_result(words)


def refuse(point: str, number: int) -> None:
    raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "answer", "kind"),
    [
        (errno.ESTALE, "FAIL", "shared"),
        (errno.ENOTCONN, "FAIL", "shared"),
        (errno.EACCES, "UNKNOWN", "shared"),
    ],
)
def test_a_mount_that_answers_with_an_error(
    node: Node, monkeypatch: pytest.MonkeyPatch, number: int, answer: str, kind: str
) -> None:
    node.lustre()
    look = check._look
    monkeypatch.setattr(
        check, "_look", lambda at: refuse(at, number) if at == str(node.scratch) else look(at)
    )
    result = node.scratch_result()
    assert (result.answer, result.kind) == (answer, kind)


def test_a_path_of_the_users_choice_is_not_looked_at_by_root(node: Node) -> None:
    node.tree.mount(node.scratch, "9:0", "ext4", "/dev/md0")
    node.spec = JobSpec(dataset=str(node.scratch / "mine"))
    assert list(node.results()) == ["/"]


@pytest.mark.root
def test_where_a_users_link_leads_is_no_fault_of_the_node(node: Node) -> None:
    """Else he drains it with a link to what autofs does not mount."""
    node.tree.mount(node.scratch, "0:50", "autofs", "/etc/auto.scratch")
    mine = node.folder("mine")
    (mine / "c4").symlink_to(node.scratch / "nothing")
    os.lchown(mine / "c4", 5, -1)
    dataset_at(node, mine / "c4")
    found = {subject: result.answer for subject, result in node.results(uid=5).items()}
    assert found == {"/": "OK"}


def never_looked_at(point: str) -> dict[str, object]:
    raise AssertionError(point)


def test_a_users_mount_over_a_required_one_is_named_and_not_touched(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.lustre()
    options = "rw,user_id=1000,allow_other"
    node.tree.mount(node.scratch, "0:66", "fuse.lustre", "x", super_options=options)
    look = check._look
    asked = str(node.scratch)
    monkeypatch.setattr(check, "_look", lambda at: never_looked_at(at) if at == asked else look(at))
    result = node.scratch_result("fstype=lustre")
    assert (result.answer, result.kind) == ("FAIL", "node")
    assert "covered by a file system of user 1000" in result.text


@pytest.mark.root
def test_many_mounts_that_hang_cost_no_more_than_one(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    points = [str(node.folder(f"dead{number}")) for number in range(40)]
    for number, point in enumerate(points):
        node.tree.mount(point, f"0:{100 + number}", "nfs4", "server:/x")
    look = check._look
    with freezer_group() as group:
        monkeypatch.setattr(
            check, "_look", lambda at: sleep_in_state_d(group) if at in points else look(at)
        )
        began_s = time.monotonic()
        found = node.results(*points, budget_s=20.0, answer_s=4.0)
        assert time.monotonic() - began_s < 12.0, "one after the other they take minutes"
    assert {found[point].answer for point in points} == {"FAIL"}
    assert found["/"].answer == "OK"


def sleep_at(point: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at this mount point takes longer than any deadline."""
    import time

    look = check._look

    def slow(at: str) -> dict[str, object]:
        if at == str(point):
            time.sleep(60)
        return look(at)

    monkeypatch.setattr(check, "_look", slow)


def test_a_local_mount_that_hangs_is_the_nodes_fault(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.tree.mount(node.scratch, "9:0", "xfs", "/dev/md0")
    sleep_at(node.scratch, monkeypatch)
    found = node.results(str(node.scratch), answer_s=0.3)
    assert (found[str(node.scratch)].answer, found[str(node.scratch)].kind) == ("FAIL", "node")
    assert found["/"].answer == "OK"


def test_a_node_too_busy_for_its_own_children_proves_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.lustre()
    monkeypatch.setattr(check, "_node_is_busy", lambda answers: True)
    sleep_at(node.scratch, monkeypatch)
    assert node.scratch_result(answer_s=0.2).answer == "UNKNOWN"


def test_a_size_that_is_not_told_is_degraded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.lustre()
    monkeypatch.setattr(check, "_look_at_space", lambda at: refuse(at, errno.EIO))
    result = node.scratch_result()
    assert (result.answer, result.kind) == ("DEGRADED", "shared")


@pytest.mark.fuse
@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_a_hung_mount_hides_no_other_and_costs_no_more_than_its_deadline(node: Node) -> None:
    import time

    with SlowFs(node.folder("backing"), node.scratch, SlowFsSettings()) as slow:
        node.tree.mount(node.scratch, "0:66", "fuse.slowfs", "slowfs")
        slow.change(hang_globs=("*",), hang_classes=("list", "open", "stat"))
        began_s = time.monotonic()
        found = node.results(str(node.scratch), answer_s=0.5)
        took_s = time.monotonic() - began_s
        slow.change(hang_globs=())
    hung = found[str(node.scratch)]
    assert (hung.answer, hung.kind) == ("FAIL", "shared")
    assert "hangs" in hung.text
    assert found["/"].answer == "OK"
    assert took_s < 2.5


@pytest.mark.fuse
@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_a_mount_that_lists_and_hangs_at_its_size_is_degraded(node: Node) -> None:
    with SlowFs(node.folder("backing"), node.scratch, SlowFsSettings()) as slow:
        node.tree.mount(node.scratch, "0:66", "fuse.slowfs", "slowfs")
        slow.change(hang_globs=("*",), hang_classes=("statfs",))
        result = node.scratch_result(answer_s=0.5)
        slow.change(hang_globs=())
    assert (result.answer, result.kind) == ("DEGRADED", "shared")
