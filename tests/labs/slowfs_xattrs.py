"""Extended attributes of slowfs, kept in memory: any name, ``lustre.lov`` included.

The backing file system would refuse names outside ``user.``; a checker of stripe layouts needs
them. The root carries two of slowfs's own: `SETTINGS` (get and set) and `LEDGER` (get).
"""

from __future__ import annotations

import errno
import json
import os

from tests.labs.slowfs_faults import Faults
from tests.labs.slowfs_settings import SlowFsSettings, matches

SETTINGS = "user.slowfs.settings"
LEDGER = "user.slowfs.ledger"


class Xattrs:
    """All attributes of one mount, by path and name."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._set: dict[str, dict[str, bytes]] = {}

    def get(self, path: str, name: str) -> bytes:
        """Raises ENODATA where there is none."""
        value = self._all(path).get(name)
        if value is None:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        return value

    def names(self, path: str) -> list[str]:
        """Sorted names."""
        return sorted(self._all(path))

    def put(self, path: str, name: str, value: bytes) -> None:
        """Set one; on the root `SETTINGS` changes the mount at once (EINVAL if it cannot)."""
        if path == "/" and name == SETTINGS:
            self._change_settings(value)
        else:
            self._set.setdefault(path, {})[name] = value

    def remove(self, path: str, name: str) -> None:
        """Raises ENODATA where there is none that was set by a caller."""
        if self._set.get(path, {}).pop(name, None) is None:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))

    def move(self, old: str, new: str) -> None:
        """Attributes follow a renamed file."""
        self.forget(new)
        if old in self._set:
            self._set[new] = self._set.pop(old)

    def forget(self, path: str) -> None:
        """The file is gone."""
        self._set.pop(path, None)

    def _all(self, path: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for glob, attributes in self._faults.settings.xattrs.items():
            if matches(path, (glob,)):
                found.update({name: bytes.fromhex(value) for name, value in attributes.items()})
        if path == "/":
            found[SETTINGS] = self._faults.settings.to_json().encode()
            found[LEDGER] = json.dumps(self._faults.ledger.to_dict()).encode()
        return found | self._set.get(path, {})

    def _change_settings(self, value: bytes) -> None:
        try:
            self._faults.change(SlowFsSettings.from_json(value.decode()))
        except (ValueError, TypeError) as error:
            raise OSError(errno.EINVAL, str(error)) from error
