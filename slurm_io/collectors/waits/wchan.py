"""What the kernel function a thread sleeps in says about its wait.

Names change between kernel versions and carry suffixes (``.isra.0``), so they are matched by
prefix. State alone proves nothing: Lustre waits in S, FUSE in D or in S.
"""

from __future__ import annotations

import re
from typing import Literal

Place = Literal["storage", "pipe", "net", "lock", "gpu", "sleep", "child", "race", "elsewhere"]
"""`race`: the thread was already on its way when wchan was read. `elsewhere`: no verdict."""

_PREFIXES: dict[Place, str] = {
    # The page cache and the block layer; local file systems; network file systems and their
    # transports. GPFS sleeps in cxiWaitEventWait, ZFS in cv_wait_common.
    "storage": "folio_ __folio_ wait_on_page __wait_on_page lock_page __lock_page wait_on_buffer "
    "__wait_on_buffer __lock_buffer bit_wait_io out_of_line_wait_on_bit __wait_on_bit wait_on_bit "
    "io_schedule blk_ __blk bio_ submit_bio rq_qos wbt_ blkdev_ balance_dirty wb_wait "
    "wait_on_inode inode_wait __inode_ writeback_ __writeback filemap_ __filemap do_read_cache "
    "generic_file iomap_ __iomap dio_ __blockdev_direct do_blockdev_direct read_events "
    "request_wait_answer __fuse fuse_ virtio_fs nfs rpc_ __rpc xprt_ netfs_ fscache cachefiles "
    "cl_ ll_ lov_ osc_ ldlm_ ptlrpc_ obd_ mdc_ lmv_ lu_object ceph_ __ceph wait_mds cifs_ smb2_ "
    "SMB wait_for_response wait_for_free_credits weka wekafs beegfs_ Fhgfs fhgfs gpfs mmfs "
    "cxiWait kxWait ext4_ jbd2_ xfs_ xlog_ btrfs_ f2fs_ zfs_ zil_ zio_ dmu_ txg_ cv_wait "
    "squashfs z_erofs erofs_ ovl_ p9_ v9fs afs_ gfs2_ ocfs2_ nvme_ raid5_ md_ dm_ lookup_slow "
    "d_alloc_parallel d_wait_lookup",
    "pipe": "pipe_ anon_pipe fifo_ wait_for_partner unix_ __unix __skb_wait_for_more_packets "
    "eventfd_ signalfd inotify_ timerfd_ do_epoll ep_poll do_poll do_sys_poll do_select poll_ "
    "do_msgrcv mq_ n_tty tty_",
    "net": "sk_wait sk_stream tcp_ inet_ inet6_ udp_ __tcp kcm_ tls_ smc_ vsock",
    "lock": "futex rwsem __rwsem mutex_ __mutex down_ __down do_semtimedop flock_ locks_ fcntl_",
    "gpu": "nv_ _nv nvidia uvm_ os_acquire amdgpu_ kfd_ kgd drm_ dma_fence ttm_ amdttm",
    "sleep": "hrtimer_nanosleep do_nanosleep sigsuspend do_sigtimedwait __do_sys_pause",
    "child": "do_wait kernel_wait",
}  # fmt: skip
_PATTERNS: list[tuple[Place, re.Pattern[str]]] = [
    (place, re.compile("(?:" + "|".join(map(re.escape, names.split())) + ")"))
    for place, names in _PREFIXES.items()
]
_NETWORK_CLIENTS = (
    ("fuse", ("request_wait_answer", "fuse_", "__fuse", "virtio_fs")),
    ("nfs", ("nfs", "rpc_", "__rpc", "xprt_")),
    ("lustre", ("cl_", "ll_", "lov_", "osc_", "ldlm_", "ptlrpc_", "obd_", "mdc_", "lmv_")),
    ("ceph", ("ceph_", "__ceph", "wait_mds")),
    ("smb", ("cifs_", "smb2_", "SMB")),
    ("weka", ("weka",)),
    ("beegfs", ("beegfs_", "Fhgfs", "fhgfs")),
    ("gpfs", ("gpfs", "mmfs", "cxiWait", "kxWait")),
)
_MOST_REMEMBERED = 512


class WchanReader:
    """Verdicts, remembered by name. The names come from the kernel, so there are few."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[str, Place]] = {}
        self.works = False

    def read(self, raw: bytes) -> tuple[str, Place]:
        """(name, place). ``0`` and nothing at all are a race, or a kernel that will not say."""
        found = self._known.get(raw)
        if found is None:
            name = raw.decode("ascii", "replace").strip("\0\n ")
            found = (name, place_of(name))
            if len(self._known) < _MOST_REMEMBERED:
                self._known[raw] = found
        if found[1] != "race":
            self.works = True
        return found


def place_of(name: str) -> Place:
    """What one function name says."""
    if name in ("", "0"):
        return "race"
    for place, pattern in _PATTERNS:
        if pattern.match(name):
            return place
    return "elsewhere"


def client_of(name: str) -> str | None:
    """Kind (as slurm_io.filesystems.kinds names it) of the client the function belongs to."""
    for kind, prefixes in _NETWORK_CLIENTS:
        if name.startswith(prefixes):
            return kind
    return None
