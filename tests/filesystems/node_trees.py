"""A fake node for tests: /proc and /sys of its mounts, disks, arrays and PCI devices."""

from __future__ import annotations

from pathlib import Path


class NodeTree:
    """Builds the two trees below a folder; `proc` and `sys` are what a check is told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = root / "proc"
        self.sys = root / "sys"
        for folder in (self.proc / "self", self.sys / "block", self.sys / "class/block",
                       self.sys / "dev/block"):  # fmt: skip
            folder.mkdir(parents=True)
        self._mounts: list[str] = []
        self.mount("/", "8:1", "ext4", "/dev/sda1")

    def mount(
        self,
        point: str | Path,
        device: str,
        fstype: str,
        source: str,
        options: str = "rw",
        super_options: str = "rw",
        root: str = "/",
    ) -> None:
        """One more line of mountinfo; the first is the root."""
        number = len(self._mounts) + 1
        parent = 0 if number == 1 else 1
        for earlier in self._mounts:  # a mount on the same point is stacked on the earlier one
            if earlier.split(" ")[4] == str(point):
                parent = int(earlier.split(" ")[0])
        self._mounts.append(
            f"{number} {parent} {device} {root} {point} {options}"
            f" - {fstype} {source} {super_options}"
        )
        self.file(self.proc / "self/mountinfo", "\n".join(self._mounts) + "\n")

    def disk(
        self, name: str, device: str, serial: str = "", state: str = "", partitions: int = 0
    ) -> None:
        """A whole disk and its partitions ``<name>p1`` …, numbered from `device` on."""
        folder = self.sys / "block" / name
        major, minor = map(int, device.split(":"))
        self._block(name, device, folder)
        if serial:
            self.file(folder / "device/serial", serial + "\n")
        if state:
            self.file(folder / "device/state", state + "\n")
        for number in range(1, partitions + 1):
            part = f"{name}p{number}" if name[-1].isdigit() else f"{name}{number}"
            self.file(folder / part / "partition", f"{number}\n")
            self._block(part, f"{major}:{minor + number}", folder / part)

    def stack(self, name: str, device: str, members: list[str], **files: str) -> None:
        """A md or dm device on `members`; `files` by path with ``__`` for a slash."""
        folder = self.sys / "block" / name
        self._block(name, device, folder)
        for member in members:
            link = folder / "slaves" / member
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(self.sys / "class/block" / member)
        for path, text in files.items():
            self.file(folder / path.replace("__", "/"), text + "\n")

    def lose(self, name: str) -> None:
        """The device leaves the machine; what points to it dangles."""
        (self.sys / "class/block" / name).unlink()

    def mdstat(self, *lines: str) -> None:
        """The arrays' text, without first and last line."""
        text = "Personalities : [raid0] [raid1]\n" + "\n".join(lines) + "\nunused devices: <none>\n"
        self.file(self.proc / "mdstat", text)

    def pci(self, driver: str, address: str, nvme: str = "", port: str = "", **files: str) -> None:
        """A PCI device below a port, listed by its driver."""
        folder = self.sys / "devices/pci0000:00" / (port or "0000:00:01.0") / address
        for name, text in files.items():
            self.file(folder / name, text + "\n")
        if nvme:
            (folder / "nvme" / nvme).mkdir(parents=True)
        link = self.sys / "bus/pci/drivers" / driver / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)

    def port(self, address: str, **files: str) -> None:
        """Attributes of a port."""
        for name, text in files.items():
            self.file(self.sys / "devices/pci0000:00" / address / name, text + "\n")

    @staticmethod
    def file(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def _block(self, name: str, device: str, folder: Path) -> None:
        self.file(folder / "dev", device + "\n")
        self.file(folder / "size", "2097152\n")
        (self.sys / "class/block" / name).symlink_to(folder)
        (self.sys / "dev/block" / device).symlink_to(folder)


def gpu_node(root: Path, drives: int = 8) -> NodeTree:
    """A DGX-like node: /raid is md0, a RAID 0 over one partition of each NVMe drive."""
    tree = NodeTree(root)
    tree.disk("sda", "8:0", serial="SYSTEM1", state="running", partitions=1)
    members = [f"nvme{number}n1p1" for number in range(drives)]
    for number in range(drives):
        tree.disk(f"nvme{number}n1", f"259:{number * 4}", f"S6{number:04}", "live", partitions=1)
    raid = dict.fromkeys([f"md__dev-{name}__state" for name in members], "in_sync")
    tree.stack(
        "md0", "9:0", members, md__level="raid0", md__raid_disks=str(drives),
        md__array_state="clean", **raid,
    )  # fmt: skip
    listed = " ".join(f"{name}[{slot}]" for slot, name in enumerate(members))
    tree.mdstat(
        f"md0 : active raid0 {listed}", "      60005400576 blocks super 1.2 512k chunks", ""
    )
    return tree
