"""What happens in the user's own folders: always in a process that has become the user.

Whatever the user put there (links to other people's files, folders swapped while we look), it can
reach only what he could reach himself. Against others who can write in a shared work folder, the
store must be a folder of the user's own, and no file is replaced that we did not write.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any

from slurm_io.epilog.case import Case
from slurm_io.errors import StoreError
from slurm_io.store.deliver import Source, deliver
from slurm_io.store.files import write_json_atomic
from slurm_io.store.schema import SCHEMA_VERSION

PUBLISHED = "published.json"
REPORT_MAX_BYTES = 4 << 20


def store_of(case: Case) -> Path:
    """``<work dir>/slurm-io-<job>[.<restart>]``. StoreError when there is no work dir."""
    if case.job.work_dir is None:
        raise StoreError("Slurm named no usable work dir: data stays in the spool")
    return Path(case.job.work_dir) / case.store_name()


def bring_home(case: Case, source: Source, store: Path, missing: tuple[str, ...]) -> None:
    """Deliver one node's sealed folder into `store`. Raises StoreError, OSError.

    job.json goes first: once the node's DONE marker stands, a leader may begin to read.
    """
    make_own_folder(store)
    if not (store / "job.json").exists():
        write_json_atomic(store / "job.json", job_json(case))
    deliver(source, store, case.node, clean=not missing, missing=missing)


def job_json(case: Case) -> dict[str, Any]:
    """``job.json`` of a store (docs/development/contracts.md, 4)."""
    return {
        "schema": SCHEMA_VERSION,
        "job": case.job.to_dict(),
        "nodes_expected": list(case.nodes_expected()),
        "spool": None,
        "command": None,
        "exit_code": case.exit_code,
    }


def make_own_folder(path: Path) -> None:
    """Make `path` 0700, or accept one that is ours already. Raises StoreError, OSError."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    facts = os.lstat(path)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise StoreError(f"{path} is there and is not a folder of the job's user: move it away")


def publish(store: Path, target: Path) -> None:
    """Put the store's report.txt beside the job's output as `target`.

    The first time `target` must not exist; later it must be the very file we made. Raises
    StoreError when it is somebody else's, OSError.
    """
    text = (store / "report.txt").read_bytes()[:REPORT_MAX_BYTES]
    is_new = not os.path.lexists(target)
    if not is_new and _identity(target) != _published(store):
        raise StoreError(f"{target} is there and is not ours: the report is in {store}")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
        file.write(text)
    try:
        write_json_atomic(store / PUBLISHED, {"file": _identity(temporary)})
        if is_new:
            _link_or_rename(temporary, target)
        else:
            temporary.rename(target)
    finally:
        temporary.unlink(missing_ok=True)


def _link_or_rename(temporary: Path, target: Path) -> None:
    """A link fails where something appeared meanwhile; a rename would replace it."""
    try:
        os.link(temporary, target, follow_symlinks=False)
    except FileExistsError:
        raise StoreError(f"{target} appeared meanwhile and is not ours") from None
    except OSError:  # a file system without hard links
        temporary.rename(target)


def _identity(path: Path) -> list[int]:
    facts = os.lstat(path)
    return [facts.st_dev, facts.st_ino] if stat.S_ISREG(facts.st_mode) else []


def _published(store: Path) -> object:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return json.loads((store / PUBLISHED).read_text()).get("file")
    return None
