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
EVICTED = (
    "LustreError: 167-0: home-OST003a-osc-ffff3000ef06c000: This client was evicted by "
    "home-OST003a; in progress operations using this service will fail."
)
IMPORT = Path(__file__).parents[2] / "fixtures/node_checks/lustre_osc_import_2.10.yaml"
SILENT = "nfs: server filer1 not responding, still trying"


class Node:
    """A GPU node with a log; /raid holds the dataset, / the spool."""

    def __init__(self, root: Path) -> None:
        self.tree: NodeTree = gpu_node(root, drives=2)
        self.tree.mount("/raid", "9:0", "ext4", "/dev/md0")
        self.source = root / "kmsg"
        self.required: list[str] = []
        self.dataset = "c4"
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
            "node1", config, JobSpec(dataset=self.dataset), 2.0, "user1", os.getuid(), os.getgid(),
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

    def hosts_processes(self, **states: str) -> None:
        """/proc as on the host itself; processes ``p<pid>="D"``."""
        (self.tree.proc / "self/ns").mkdir()
        (self.tree.proc / "self/ns/pid").symlink_to("pid:[4026531836]")
        for name, letter in states.items():
            pid = name.removeprefix("p")
            self.tree.file(self.tree.proc / pid / "stat", f"{pid} (a) R (x) {letter} 1 1 1\n")


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
    node.tree.mount("/no-home", "0:50", "nfs4", source, super_options="rw,addr=10.0.0.5")
    node.required = ["/no-home"] if required else []
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


HUNG = "INFO: task {}:{} blocked for more than 120 seconds."
STALL = "rcu: INFO: rcu_preempt self-detected stall on CPU"


@pytest.mark.parametrize(
    "message",
    [
        HUNG.format("jfsmount", 4242),
        STALL,
        ERROR.format("loop3"),
        "Buffer I/O error on dev loop3p1, logical block 17, async page read",
        "EXT4-fs error (device loop0): ext4_find_entry:1455: inode #2: comm ls: reading",
        "EXT4-fs (loop0): Remounting filesystem read-only",
        "XFS (loop7): Filesystem has been shut down due to log error (0x2).",
        SILENT,
    ],
)
def test_what_any_user_can_cause_is_recorded_and_told_to_nobody(node: Node, message: str) -> None:
    node.tree.mount("/net/filer1/x", "0:50", "nfs4", "filer1:/x")
    node.log(message)
    result = node.only()
    assert (result.answer, result.record_only) == ("DEGRADED", True)
    assert not node.only(tell_all=True).record_only


@pytest.mark.parametrize(
    "message",
    [
        ERROR.format("nvme1n1"),
        ERROR.format("nvme7n1"),
        ERROR.format("sdq").replace("I/O error", "critical medium error"),
        "EXT4-fs (sdq1): Remounting filesystem read-only",
        "XFS (dm-3): Filesystem has been shut down due to log error (0x2).",
        "md/raid0md5: Disk failure on sdq detected, failing array.",
        "nvme nvme0: Removing after probe failure status: -19",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4242]",
        EVICTED,
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus.",
    ],
)
def test_faults_of_the_node_and_of_services_are_told(node: Node, message: str) -> None:
    node.tree.mount("/home", "0:51", "lustre", "10.0.0.1@tcp:/home")
    node.log(message)
    result = node.only()
    assert result.answer in ("FAIL", "DEGRADED")
    assert not result.record_only


def test_a_lockup_that_is_over_is_a_note(node: Node) -> None:
    node.up_s(20_000.0)
    node.log("watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [python:4242]")
    assert (node.only().answer, node.only().record_only) == ("DEGRADED", True)


def test_an_encrypted_image_of_a_container_is_its_users_and_a_volume_on_disks_is_not(
    node: Node,
) -> None:
    node.tree.disk("loop4", "7:4")
    node.tree.stack("dm-8", "253:8", ["loop4"])
    node.tree.stack("dm-9", "253:9", ["sda"])
    for device, noted in (("dm-8", True), ("dm-9", False), ("dm-77", False)):
        node.log(ERROR.format(device))
        assert [each.record_only for each in node.results()] == [noted], device


def test_a_loop_device_below_the_jobs_own_data_is_the_nodes(node: Node) -> None:
    node.tree.disk("loop5", "7:5")
    node.tree.mount("/var/spool", "7:5", "ext4", "/dev/loop5")
    node.log(ERROR.format("loop5"))
    assert (node.only().answer, node.only().record_only) == ("FAIL", False)


def test_a_path_of_the_users_choice_makes_no_disk_the_jobs(node: Node) -> None:
    node.tree.disk("sdq", "65:0")
    node.tree.mount("/old", "65:0", "ext4", "/dev/sdq")
    node.log(ERROR.format("sdq"))
    node.dataset = "/old/data"
    assert node.only().answer == "DEGRADED"


def test_users_notes_push_no_fault_of_the_node_out_of_the_list(node: Node) -> None:
    node.log(*[ERROR.format(f"loop{number}") for number in range(40)], ERROR.format("sdq"))
    found = node.results()
    assert (found[0].subject, found[0].record_only) == ("sdq", False)
    assert all(each.record_only for each in found[1:])


def test_tasks_that_woke_up_are_over(node: Node) -> None:
    node.hosts_processes(p11="D", p12="S")
    node.log(HUNG.format("a", 11), HUNG.format("b", 12), HUNG.format("gone", 13))
    result = node.only()
    assert (result.answer, result.facts["tasks"], result.facts["asleep_now"]) == ("DEGRADED", 3, 1)
    node.tree.file(node.tree.proc / "11/stat", "11 (a) S 1 1 1\n")
    result = node.only()
    assert result.answer == "OK"
    assert "none of them does so now" in result.facts["over"][0]


def test_in_a_container_nobody_knows_whether_a_task_woke_up(node: Node) -> None:
    (node.tree.proc / "self/ns").mkdir()
    (node.tree.proc / "self/ns/pid").symlink_to("pid:[4026532999]")
    node.log(HUNG.format("a", 11))
    assert node.only().facts["asleep_now"] == 1


def test_an_array_that_is_whole_again_is_over_and_its_read_errors_are_not(node: Node) -> None:
    node.tree.stack("md5", "9:5", ["sda"])
    node.tree.mount("/b", "9:5", "ext4", "/dev/md5")
    node.required = ["/b"]
    whole = "md5 : active raid1 sda[0] sda1[2]", "      976630464 blocks super 1.2 [2/2] [UU]"
    lost = "md/raid1:md5: Disk failure on sdq, disabling device."
    node.log(lost)
    node.tree.mdstat(whole[0], whole[1].replace("[2/2] [UU]", "[2/1] [U_]"))
    assert node.only().answer == "DEGRADED"
    node.tree.mdstat(*whole)
    assert node.only().answer == "OK"
    node.log(lost, "md/raid:md5: read error not correctable (sector 128 on sda1).")
    assert node.only().answer == "DEGRADED"


def test_a_raid_0_is_never_taken_for_whole(node: Node) -> None:
    node.log("md/raid0:md0: Disk failure on nvme0n1p1 detected, failing array.")
    assert node.only().answer == "FAIL"


def test_a_server_whose_mounts_answer_now_is_over(node: Node, tmp_path: Path) -> None:
    """The kernel suppressed its "OK"; statvfs of this folder stands for a server's answer."""
    point, number = tmp_path / "home", tmp_path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    node.tree.mount(point, device, "nfs4", "filer1:/home", super_options="rw,addr=10.0.0.5")
    node.required = [str(point)]
    node.log(SILENT)
    assert node.only().answer == "FAIL"
    point.mkdir()
    result = node.only()
    assert result.answer == "OK"
    assert "filer1 did not answer for a while and is back" in result.facts["over"][0]
    node.log(SILENT.replace("filer1", "10.0.0.5"))
    assert node.only().answer == "OK"


def test_the_folder_below_a_mount_that_is_gone_is_no_servers_answer(
    node: Node, tmp_path: Path
) -> None:
    node.tree.mount(tmp_path, "0:9999", "nfs4", "filer1:/home")
    node.required = [str(tmp_path)]
    node.log(SILENT)
    assert node.only().answer == "FAIL"


def test_a_server_of_other_mounts_is_asked_nothing(node: Node, tmp_path: Path) -> None:
    """A user may have led an automount to a server that hangs whoever asks."""
    number = tmp_path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    node.tree.mount(tmp_path, device, "nfs4", "filer1:/home")
    node.log(SILENT)
    assert (node.only().answer, node.only().record_only) == ("DEGRADED", True)


LOST = (
    "Lustre: scratch-OST003a-osc-ffff3000ef06c000: Connection to scratch-OST003a (at 10.0.0.4"
    "@tcp) was lost; in progress operations using this service will wait for recovery"
)


@pytest.mark.parametrize("where", ["proc/fs/lustre", "sys/kernel/debug/lustre"])
def test_a_lustre_target_that_is_connected_now_is_over(
    node: Node, tmp_path: Path, where: str
) -> None:
    node.tree.mount("/scratch", "0:51", "lustre", "10.0.0.1@o2ib:/scratch")
    node.required = ["/scratch"]
    node.log(LOST)
    folder = tmp_path / where / "osc/scratch-OST003a-osc-ffff3000ef06c000"
    text = IMPORT.read_text()
    node.tree.file(folder / "import", text.replace("FULL", "DISCONN"))
    assert node.only().answer == "FAIL"
    node.tree.file(folder / "import", text)
    assert node.only().answer == "OK"
    other = folder.with_name("scratch-OST003a-osc-ffff3000ef06c111") / "import"
    node.tree.file(other, text.replace("state: FULL", "state: CONNECTING"))
    assert node.only().answer == "FAIL", "each mount has an import of its own"


def test_many_findings_are_bounded_and_worst_come_first(node: Node) -> None:
    node.log(
        *[ERROR.format(f"sd{letter}") for letter in "bcdefghijklmnopqrstuvwxyz"],
        ERROR.format("sda"),
    )
    found = node.results()
    assert len(found) == 16 and (found[0].subject, found[0].answer) == ("sda", "FAIL")
