"""System call numbers of the calls that training processes are found waiting in.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h. What a
call's arguments mean decides how its wait is read, so calls are grouped by that.
"""

from __future__ import annotations

import os
from typing import Literal

Group = Literal[
    "fd",  # the first argument is the descriptor
    "fd2",  # the second argument is the descriptor read from (sendfile)
    "path",  # a path pointer: no descriptor to follow
    "memory",  # the address space: a wait for its lock is no storage
    "socket", "ioctl", "poll", "epoll", "select", "lock", "sleep", "child", "aio",
]  # fmt: skip

_GROUPS: dict[Group, str] = {
    "fd": "read pread64 readv preadv preadv2 write pwrite64 writev pwritev pwritev2 fsync "
    "fdatasync sync_file_range close getdents64 getdents fstat fstatfs ftruncate fallocate lseek "
    "fadvise64 readahead splice copy_file_range fgetxattr flistxattr syncfs flock",
    "fd2": "sendfile",
    "path": "open openat openat2 stat lstat newfstatat statx access faccessat faccessat2 readlink "
    "readlinkat mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink "
    "symlinkat truncate statfs getxattr lgetxattr listxattr utimensat chdir execve sync",
    "memory": "mmap munmap msync madvise",
    "socket": "recvfrom recvmsg recvmmsg sendto sendmsg sendmmsg connect accept accept4",
    "ioctl": "ioctl",
    "poll": "poll ppoll",
    "epoll": "epoll_wait epoll_pwait epoll_pwait2",
    "select": "select pselect6",
    "lock": "futex futex_waitv semop semtimedop",
    "sleep": "nanosleep clock_nanosleep pause rt_sigsuspend rt_sigtimedwait",
    "child": "wait4 waitid",
    "aio": "io_getevents io_pgetevents",
}
_WRITES = (
    "write pwrite64 writev pwritev pwritev2 fsync fdatasync sync_file_range ftruncate fallocate "
    "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat "
    "truncate msync sync syncfs utimensat"
)
WRITES = frozenset(_WRITES.split())
"""Calls that only a writer makes: in another thread they are a background save, not a reader."""

_X86_64 = (
    "0 read 1 write 2 open 3 close 4 stat 5 fstat 6 lstat 7 poll 8 lseek 9 mmap 11 munmap "
    "16 ioctl 17 pread64 18 pwrite64 19 readv 20 writev 21 access 23 select 26 msync 28 madvise "
    "34 pause 35 nanosleep 40 sendfile 42 connect 43 accept 44 sendto 45 recvfrom 46 sendmsg "
    "47 recvmsg 59 execve 61 wait4 65 semop 73 flock 74 fsync 75 fdatasync 76 truncate "
    "77 ftruncate 78 getdents 80 chdir 82 rename 83 mkdir 84 rmdir 86 link 87 unlink 88 symlink "
    "89 readlink 128 rt_sigtimedwait 130 rt_sigsuspend 137 statfs 138 fstatfs 162 sync "
    "187 readahead 191 getxattr 192 lgetxattr 193 fgetxattr 194 listxattr 196 flistxattr "
    "202 futex 208 io_getevents 217 getdents64 220 semtimedop 221 fadvise64 230 clock_nanosleep "
    "232 epoll_wait 247 waitid 257 openat 258 mkdirat 262 newfstatat 263 unlinkat 264 renameat "
    "265 linkat 266 symlinkat 267 readlinkat 269 faccessat 270 pselect6 271 ppoll 275 splice "
    "277 sync_file_range 280 utimensat 281 epoll_pwait 285 fallocate 288 accept4 295 preadv "
    "296 pwritev 299 recvmmsg 306 syncfs 307 sendmmsg 316 renameat2 326 copy_file_range "
    "327 preadv2 328 pwritev2 332 statx 333 io_pgetevents 437 openat2 439 faccessat2 "
    "441 epoll_pwait2 449 futex_waitv"
)
_AARCH64 = (
    "4 io_getevents 8 getxattr 9 lgetxattr 10 fgetxattr 11 listxattr 13 flistxattr 22 epoll_pwait "
    "29 ioctl 32 flock 34 mkdirat 35 unlinkat 36 symlinkat 37 linkat 38 renameat 43 statfs "
    "44 fstatfs 45 truncate 46 ftruncate 47 fallocate 48 faccessat 49 chdir 56 openat 57 close "
    "61 getdents64 62 lseek 63 read 64 write 65 readv 66 writev 67 pread64 68 pwrite64 69 preadv "
    "70 pwritev 71 sendfile 72 pselect6 73 ppoll 76 splice 78 readlinkat 79 newfstatat 80 fstat "
    "81 sync 82 fsync 83 fdatasync 84 sync_file_range 88 utimensat 95 waitid 98 futex "
    "101 nanosleep 115 clock_nanosleep 133 rt_sigsuspend 137 rt_sigtimedwait 192 semtimedop "
    "193 semop 202 accept 203 connect 206 sendto 207 recvfrom 211 sendmsg 212 recvmsg "
    "213 readahead 215 munmap 221 execve 222 mmap 223 fadvise64 227 msync 233 madvise 242 accept4 "
    "243 recvmmsg 260 wait4 267 syncfs 269 sendmmsg 276 renameat2 285 copy_file_range 286 preadv2 "
    "287 pwritev2 291 statx 292 io_pgetevents 437 openat2 439 faccessat2 441 epoll_pwait2 "
    "449 futex_waitv"
)


class Syscall:
    """One known call. `path_argument` is the number of its path pointer, None without one."""

    __slots__ = ("group", "is_write", "name", "path_argument")

    def __init__(self, name: str, group: Group) -> None:
        self.name = name
        self.group: Group = group
        self.is_write = name in WRITES
        is_relative = name.endswith(("at", "at2")) and name not in ("stat", "lstat")
        has_path = group == "path" and name != "sync"
        self.path_argument = (2 if is_relative or name == "statx" else 1) if has_path else None


def table_for(machine: str | None = None) -> dict[bytes, Syscall]:
    """Number as /proc/PID/syscall prints it -> call; empty for an architecture not known here."""
    words = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(machine or os.uname().machine, "").split()
    group_of = {name: group for group, names in _GROUPS.items() for name in names.split()}
    return {
        number.encode(): Syscall(name, group_of[name])
        for number, name in zip(words[::2], words[1::2], strict=True)
    }
