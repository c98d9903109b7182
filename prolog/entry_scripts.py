"""The three scripts that slurm.conf names, written with absolute paths filled in.

Slurm starts them without PATH or HOME, so nothing in them may be looked up. They run as root (the
task prolog excepted): the folder they lie in must be nobody's but root's.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
import sysconfig
from dataclasses import dataclass, field
from importlib import resources

import slurm_io
from slurm_io.config import DEFAULT_PATH, Config
from slurm_io.errors import HostError
from slurm_io.host.root_folders import trusted_folder, write_file

SHELL_MARGIN_S = 1  # the shell's watchdog gives Python's own deadline time to be logged
SCRIPT_MODE = 0o755
SCRIPTS = {
    "prolog.sh": "slurm_io.prolog",
    "task_prolog.sh": "slurm_io.prolog",
    "epilog.sh": "slurm_io.epilog",
}


def package_folders() -> str:
    """Where this interpreter finds us and what we need, for one that runs without site."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(slurm_io.__file__)))
    paths = (ours, sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return ":".join(dict.fromkeys(paths))


@dataclass(frozen=True)
class Filling:
    """What goes into the scripts: absolute paths (`packages`: with colons) and a limit in s."""

    python: str
    config_path: str
    limit_s: int
    runtime_dir: str
    packages: str = field(default_factory=package_folders)

    @classmethod
    def of(cls, config: Config, config_path: str | None) -> Filling:
        """For this interpreter and this configuration."""
        return cls(
            python=os.path.abspath(sys.executable),
            config_path=os.path.abspath(config_path or DEFAULT_PATH),
            limit_s=int(config.prolog.deadline_s + SHELL_MARGIN_S + 0.999),
            runtime_dir=config.runtime_dir,
        )


def script_text(name: str, filling: Filling) -> str:
    """One script with its values filled in, quoted for the shell."""
    text = resources.files(SCRIPTS[name]).joinpath(name).read_text("utf-8")
    for mark, value in (
        ("@PYTHON@", filling.python),
        ("@PACKAGES@", filling.packages),
        ("@CONFIG@", filling.config_path),
        ("@LIMIT_S@", str(filling.limit_s)),
        ("@RUNTIME_DIR@", filling.runtime_dir),
    ):
        text = text.replace(mark, shlex.quote(value))
    return text


def install(destination: str, filling: Filling) -> list[str]:
    """Write the scripts by rename; their paths. Raises HostError when others could change them."""
    if os.geteuid() != 0:
        raise HostError("slurmd runs these scripts as root: install them as root (sudo)")
    with trusted_folder(os.path.abspath(destination), create=True) as folder:
        if os.fstat(folder).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise HostError(f"{destination}: others can write here: choose a folder of root's own")
        for name in SCRIPTS:
            write_file(folder, name, script_text(name, filling).encode(), SCRIPT_MODE)
    compile_modules()
    return [os.path.join(os.path.abspath(destination), name) for name in SCRIPTS]


def compile_modules(package: str | None = None) -> bool:
    """Compile our modules where they lie, if we may; whether all are compiled now.

    Not every installer does it, and a prolog cannot where the folder is read-only or its check runs
    as a user: each would compile them anew, for twice its CPU. `package` is the folder, ours by
    default.
    """
    import compileall

    top = package or os.path.dirname(os.path.abspath(slurm_io.__file__))
    # In a checkout some rooms are links, which compileall does not follow.
    folders = [top, *(each.path for each in os.scandir(top) if each.is_symlink())]
    compiled = [compileall.compile_dir(each, quiet=2) for each in folders]
    return all(compiled)


def missing_scripts(destination: str) -> list[str]:
    """Those of the scripts that do not lie in `destination`."""
    paths = [os.path.join(destination, name) for name in SCRIPTS]
    return [path for path in paths if not os.path.isfile(path)]


def unreadable_for_users(path: str) -> str | None:
    """The first folder on the way to `path` that an ordinary user may not pass; None when none."""
    parts = path.split("/")
    for count in range(2, len(parts) + 1):
        folder = "/".join(parts[:count])
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            return folder
    return None


def changeable_by_others(filling: Filling) -> str | None:
    """The first path of what root will run that somebody else can change; None when none."""
    paths = (filling.python, *filling.packages.split(":"))
    return next((found for path in paths if (found := _not_roots_own(path)) is not None), None)


def _not_roots_own(path: str) -> str | None:
    """`path` itself or a folder above it, as named and with links resolved."""
    for name in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        parts = name.split("/") if os.path.exists(name) else []
        for count in range(2, len(parts) + 1):
            part = "/".join(parts[:count])
            status = os.stat(part)
            shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if status.st_uid != 0 or (shared and not status.st_mode & stat.S_ISVTX):
                return part
    return None


def slurm_conf_lines(destination: str) -> str:
    """What to put into slurm.conf, each line with its reason."""
    folder = os.path.abspath(destination)
    return f"""\
# slurm_io. Several Prolog= and Epilog= lines are allowed since Slurm 24.05; before that, call the
# script as the last line of your own, or name a glob (it runs in reverse order; every file
# it matches must be executable, and a glob that matches nothing drains nodes).
# Starts the sampler and checks what the job needs, on every node of a job. Exits 0, but for
# a faulty node where [checks] drain_exit says so.
Prolog={folder}/prolog.sh
# Stops it; sealing, delivery and analysis go on detached; always exits 0.
Epilog={folder}/epilog.sh
# Puts the hook on the job's PYTHONPATH and tells the user about a malformed request.
TaskProlog={folder}/task_prolog.sh
# Alloc: the prolog runs at allocation on all nodes, not at the first step on each.
# DeferBatch: the batch script waits for the prolog of all nodes. (Contain belongs here too where
# proctrack/cgroup is used.)
PrologFlags=Alloc,DeferBatch
"""
