"""The test cluster's slurm.conf and slurmdbd.conf.

The values are those of a cluster that several slurmd share one host in, without systemd or
cgroups, with every delay that a test would have to sit out made short.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.labs.cluster_parts import free_ports


@dataclass(frozen=True)
class Ports:
    """Ports of 127.0.0.1, none of them shared with another cluster."""

    slurmctld: int
    slurmdbd: int
    database: int
    slurmd: tuple[int, ...]

    @classmethod
    def pick(cls, nodes: int) -> Ports:
        """Free ports for a cluster of this many nodes."""
        first, second, third, *rest = free_ports(nodes + 3)
        return cls(first, second, third, tuple(rest))


BASE = """\
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort={slurmctld}
SlurmctldPidFile={root}/slurmctld.pid
SlurmctldLogFile={root}/log/slurmctld.log
StateSaveLocation={root}/state
SlurmdPidFile={root}/slurmd-%n.pid
SlurmdLogFile={root}/log/slurmd-%n.log
SlurmdSpoolDir={root}/spool-%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PrologFlags=Alloc,DeferBatch
PrologEpilogTimeout=30
ReturnToService=2
InactiveLimit=0
SlurmdTimeout=9
SlurmctldTimeout=10
KillWait=2
CompleteWait=0
MinJobAge=3600
BatchStartTimeout=20
SlurmdDebug=info
"""


def slurm_conf(
    root: Path, ports: Ports, dbd: bool, hooks: Mapping[str, Path | None], extra: str
) -> str:
    """Text of slurm.conf; `hooks` maps Prolog, Epilog, TaskProlog to scripts."""
    # Clusters that stand at once on this machine must not have jobs of the same numbers.
    lines = [
        BASE.format(root=root, slurmctld=ports.slurmctld),
        f"FirstJobId={ports.slurmctld}",
    ]
    if dbd:
        lines += [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={ports.slurmdbd}",
            f"AccountingStoragePass={root}/munge.sock",
            "AccountingStoreFlags=job_comment",
        ]
    lines += [f"{name}={path}" for name, path in hooks.items() if path is not None]
    lines.append(extra)
    for number, port in enumerate(ports.slurmd, start=1):
        lines.append(
            f"NodeName=t{number} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} "
            "CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=1000 State=UNKNOWN"
        )
    names = f"t[1-{len(ports.slurmd)}]"
    lines.append(f"PartitionName=main Nodes={names} Default=YES MaxTime=1:00:00 State=UP")
    return "\n".join(lines) + "\n"


# Plugins that "none" named in 22.05 and that later versions do without.
_GONE = ("SwitchType=", "JobAcctGatherType=", "CredType=")


def for_version(text: str, version: tuple[int, int]) -> str:
    """slurm.conf without what this Slurm no longer knows."""
    if version < (23, 11):
        return text
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(_GONE))


def slurmdbd_conf(root: Path, ports: Ports) -> str:
    """Text of slurmdbd.conf."""
    return f"""\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports.slurmdbd}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.sock
LogFile={root}/log/slurmdbd.log
PidFile={root}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={ports.database}
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct
"""
