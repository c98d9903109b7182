"""All libraries' rules as one look-up: a frame in, its meaning or None out."""

from __future__ import annotations

import re

from slurm_io.frames.base import LIBRARIES, Library, Meaning, Rule
from slurm_io.stacktext.model import Frame

_MOST_REMEMBERED = 20_000
# .../lib/python3.11/queue.py, but not what is installed below site-packages.
_STANDARD = re.compile(
    r"(?:.*/)?(?:lib/)?python3(?:\.\d+t?)?/(?!site-packages/|dist-packages/)(.+)"
)
_SHORTENED = re.compile(r"[\w.]+\.py|(?:multiprocessing|concurrent|importlib|asyncio|json|logging|"
                        r"ctypes|urllib|http|email|encodings|xml|zoneinfo)/.*")  # fmt: skip

_MODULE_BODY = "<module>"


class FrameTable:
    """Looks frames up. What was asked before is remembered, up to a limit."""

    def __init__(self, libraries: dict[str, Library]) -> None:
        self._exact: dict[str, list[Rule]] = {}
        self._whole_files: list[Rule] = []
        self._native: list[Rule] = []
        for name, library in libraries.items():
            for rule in library.rules:
                self._add(rule._replace(meaning=rule.meaning._replace(library=name)))
        # The narrower rule first: numpy/lib/_npyio_impl.py before numpy/.
        for rules in (*self._exact.values(), self._whole_files, self._native):
            rules.sort(key=lambda rule: -len(rule.file))
        self._remembered: dict[Frame, Meaning | None] = {}
        self._of_files: dict[str, Meaning | None] = {}

    def meaning_of(self, frame: Frame) -> Meaning | None:
        """What the frame says, None when no library knows it."""
        key = frame if frame.line is None else frame._replace(line=None)
        if key in self._remembered:
            return self._remembered[key]
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
            self._of_files.clear()
        found = self._remembered[key] = self._look_up(key)
        return found

    def _add(self, rule: Rule) -> None:
        if rule.file.startswith(("native:", "library:")):
            self._native.append(rule)
        elif rule.names:
            for name in rule.names:
                self._exact.setdefault(name, []).append(rule)
        else:
            self._whole_files.append(rule)

    def _look_up(self, frame: Frame) -> Meaning | None:
        if frame.is_native:
            return self._of_native(frame)
        path = frame.file
        for rule in self._exact.get(frame.short_name, ()):
            if _lies_in(path, rule.file):
                return rule.meaning
        if frame.short_name == _MODULE_BODY:
            return None  # it runs while it is imported, whatever its functions do later
        if path not in self._of_files:
            whole = (rule.meaning for rule in self._whole_files if _lies_in(path, rule.file))
            self._of_files[path] = next(whole, None)
        return self._of_files[path]

    def _of_native(self, frame: Frame) -> Meaning | None:
        library = frame.file.rpartition("/")[2]
        for rule in self._native:
            kind, _, start = rule.file.partition(":")
            if (frame.name if kind == "native" else library).startswith(start):
                return rule.meaning
        return None


def _lies_in(path: str, rule_file: str) -> bool:
    if rule_file.startswith("std:"):
        return _standard_name(path) == rule_file[4:]
    if rule_file.endswith("/"):
        return path.startswith(rule_file) or _is_below(path, rule_file)
    if path == rule_file or path.endswith(f"/{rule_file}"):
        return True
    # A folder without __init__.py (megatron/, nvidia/) is left out when py-spy shortens a path.
    return "/" in path and rule_file.endswith(f"/{path}")


def _is_below(path: str, folder: str) -> bool:
    """A folder of one word (``av/``) may be anybody's: it counts where packages are installed."""
    if folder.count("/") > 1:
        return f"/{folder}" in path
    return f"-packages/{folder}" in path


def _standard_name(path: str) -> str | None:
    """``queue.py`` of ``/usr/lib/python3.11/queue.py``, or of the shortened form in a dump."""
    found = _STANDARD.fullmatch(path)
    if found is not None:
        return found[1]
    if path.startswith("<frozen "):  # os, posixpath and others from Python 3.11 on
        return path[len("<frozen ") :].rstrip(">").replace(".", "/") + ".py"
    return path if _SHORTENED.fullmatch(path) else None


def load_table() -> FrameTable:
    """The table of all libraries in this folder."""
    return FrameTable(LIBRARIES.discover())
