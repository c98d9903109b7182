"""The check of the kernel's log: what concerns this job, how old it is, and who may not speak."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.config import CheckSettings, Config, DatasetConfig
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext
from slurm_io.spec import JobSpec
from tests.filesystems.node_trees import NodeTree, gpu_node

ERROR = "I/O error, dev {}, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
SILENT = "nfs: server filer1 not responding, still trying"


class Node:
    """A GPU node with a log; /raid holds the dataset, / the spool."""

    def __init__(self, root: Path) -> None:
        self.tree: NodeTree = gpu_node(root, drives=2)
        self.tree.mount("/raid", "9:0", "ext4", "/dev/md0")
        self.source = root / "kmsg"
        self.required: list[str] = []
        self.up_s(1000.0)
        self.log()

    def up_s(self, seconds: float) -> None:
        self.tree.file(self.tree.proc / "uptime", f"{seconds} 1.0\n")

    def log(self, *messages: str, at_s: float = 900.0, first: int = 0, priority: int = 3) -> None:
        """Records of the kernel, a second apart."""
        lines = ["6,0,0,-;Linux version 6.1"] if first == 0 else []
        lines += [
            f"{priority},{first + number + 1},{int((at_s + number) * 1e6)},-;{message}"
            for number, message in enumerate(messages)
        ]
        self.source.write_text("\n".join(lines) + "\n")

    def results(self, **own: object) -> list[CheckResult]:
        config = Config(
            spool_dir="/var/spool/slurm_io",
            datasets={"c4": DatasetConfig("/raid/c4")},
            check={"mounts": CheckSettings(own={"required": self.required})},
        )
        context = CheckContext(
            "node1", config, JobSpec(dataset="c4"), 2.0, "user1", os.getuid(), os.getgid(),
            own={"source": str(self.source), **own},
            proc_root=str(self.tree.proc), sys_root=str(self.tree.sys),
        )  # fmt: skip
        found = CHECKS.get("kernel_log").run(context)
        for result in found:
            assert result.text.isprintable() and CheckResult.from_dict(result.to_dict()) == result
        return found

    def only(self, **own: object) -> CheckResult:
        (result,) = self.results(**own)
        return result


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_quiet_log(node: Node) -> None:
    result = node.only()
    assert (result.answer, result.facts["messages"], result.not_looked_at) == ("OK", 1, ())


def test_an_error_of_a_drive_below_the_dataset_is_the_nodes_fault(node: Node) -> None:
    node.log(ERROR.format("nvme1n1"))
    result = node.only()
    assert (result.answer, result.kind, result.subject) == ("FAIL", "node", "nvme1n1")
    assert result.facts["age_s"] == 100.0 and "2 min ago" in result.text


def test_an_error_of_another_drive_is_degraded(node: Node) -> None:
    node.log(ERROR.format("nvme7n1"))
    assert node.only().answer == "DEGRADED"


def test_the_disk_below_the_spool_matters_too(node: Node) -> None:
    node.log(ERROR.format("sda"))
    assert node.only().answer == "FAIL"


def test_old_errors_are_left_out_and_the_window_is_a_setting(node: Node) -> None:
    node.up_s(200_000.0)
    node.log(ERROR.format("nvme1n1"))
    assert node.only().answer == "OK"
    assert node.only(window_s=300_000.0).answer == "FAIL"


def test_a_container_that_shows_its_own_uptime_makes_nothing_older(node: Node) -> None:
    node.up_s(5.0)
    node.log(ERROR.format("nvme1n1"))
    assert node.only().facts["age_s"] == 0.0


@pytest.mark.parametrize(
    ("source", "required", "answer"),
    [
        ("filer1:/home", False, "DEGRADED"),
        ("filer1:/home", True, "FAIL"),
        ("filer2:/home", True, "OK"),
    ],
)
def test_a_silent_server_matters_by_its_mounts(
    node: Node, source: str, required: bool, answer: str
) -> None:
    node.tree.mount("/home", "0:50", "nfs4", source, super_options="rw,addr=10.0.0.5")
    node.required = ["/home"] if required else []
    node.log(SILENT)
    result = node.only()
    assert result.answer == answer
    assert answer == "OK" or result.kind == "shared"


def test_a_server_known_by_its_address_is_the_mounts(node: Node) -> None:
    node.tree.mount("/home", "0:50", "nfs4", "filer1:/home", super_options="rw,addr=10.0.0.5")
    node.log("nfs: server 10.0.0.5 not responding, still trying")
    assert node.only().answer == "DEGRADED"


def test_a_lustre_target_is_known_by_its_file_system(node: Node) -> None:
    node.tree.mount("/scratch", "0:51", "lustre", "10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch/sub")
    node.required = ["/scratch"]
    node.log(
        "Lustre: scratch-OST003a-osc-ffff3000ef06c000: Connection to scratch-OST003a (at 10.0.0.4"
        "@tcp) was lost; in progress operations using this service will wait for recovery"
    )
    result = node.only()
    assert (result.answer, result.kind, result.subject) == ("FAIL", "shared", "scratch")


def test_what_is_over_is_told_in_the_facts(node: Node) -> None:
    node.tree.mount("/home", "0:50", "nfs4", "filer1:/home")
    node.log(SILENT, "nfs: server filer1 OK")
    result = node.only()
    assert result.answer == "OK" and "filer1 did not answer for a while" in result.facts["over"][0]


def test_bus_errors_of_the_datasets_drive(node: Node) -> None:
    folder = node.tree.sys / "devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme1"
    folder.mkdir(parents=True)
    (node.tree.sys / "block/nvme1n1/device/serial").unlink()
    (node.tree.sys / "block/nvme1n1/device/state").unlink()
    (node.tree.sys / "block/nvme1n1/device").rmdir()
    (node.tree.sys / "block/nvme1n1/device").symlink_to(folder)
    said = "nvme 0000:{}:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer"
    node.log(said.format("01"))
    assert node.only().answer == "FAIL"
    node.log(said.format("99"))
    assert node.only().answer == "DEGRADED"


def test_a_log_that_was_overwritten_says_from_when_it_was_seen(node: Node) -> None:
    node.log(ERROR.format("nvme1n1"), first=7000)
    (left_out,) = node.only().not_looked_at
    assert left_out == "kernel messages before 900 s after boot: overwritten by newer ones"


def test_a_log_that_cannot_be_read_is_unknown(node: Node) -> None:
    node.source.unlink()
    result = node.only()
    assert result.answer == "UNKNOWN" and "No such file" in result.text


def test_what_user_space_wrote_is_not_the_kernels_word(node: Node) -> None:
    node.log(ERROR.format("nvme1n1"), priority=11)
    assert node.only().answer == "OK"


def test_a_users_mount_option_cannot_speak_for_the_kernel(node: Node) -> None:
    node.log(f"tmpfs: Unknown parameter 'x\\x0a{ERROR.format('nvme1n1')}'")
    assert node.only().answer == "OK"


def test_many_findings_are_bounded_and_worst_come_first(node: Node) -> None:
    node.log(
        *[ERROR.format(f"sd{letter}") for letter in "bcdefghijklmnopqrstuvwxyz"],
        ERROR.format("sda"),
    )
    found = node.results()
    assert len(found) == 16 and (found[0].subject, found[0].answer) == ("sda", "FAIL")
