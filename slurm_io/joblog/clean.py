"""A line without what terminals, srun and torchrun put around it."""

from __future__ import annotations

import re

_ESCAPE = r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)?|[@-Z\\^_])"
_ESCAPES = re.compile(_ESCAPE)
_ESCAPES_IN_BYTES = re.compile(_ESCAPE.encode())
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), 127], "")
_LABELS = re.compile(
    r"""\s*(?:
      (?P<srun>[0-9]{1,7}):\ (?!\s*[0-9]+/)        # srun --label
    | \[(?P<role>[A-Za-z_]{1,32}[0-9]{1,6})\]:\ ?  # torchrun --tee, torch's [rank0]:
    | \[(?P<mpi>[0-9]{1,6},[0-9]{1,7})\]<std(?:out|err)>:\ ?   # mpirun --tag-output
    | \((?P<ray>[A-Za-z_.]{1,64}\ pid=[0-9]{1,10})[^)\n]{0,64}\)\   # Ray
    | (?:stdout|stderr):\                            # accelerate's own tests and some launchers
    )""",
    re.ASCII | re.VERBOSE,
)
_MOST_LABELS = 3


def without_escapes(raw: bytes) -> bytes:
    """The same without colours and cursor movements."""
    return _ESCAPES_IN_BYTES.sub(b"", raw) if b"\x1b" in raw else raw


def decoded(raw: bytes) -> str:
    """Text of a line: bytes that are no UTF-8 replaced, escape sequences and controls removed."""
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return text.translate(_CONTROLS) if not text.isprintable() else text


def without_labels(text: str) -> tuple[str, str]:
    """(label, rest) of a line: who printed it as far as a launcher says, and what.

    The label is empty when no launcher says. It tells printers apart and nothing else: a number
    may be a global rank, a local rank or a task.
    """
    label = ""
    for _ in range(_MOST_LABELS):
        found = _LABELS.match(text)
        if found is None:
            break
        label += "/" + next((name for name in found.groups() if name), "")
        text = text[found.end() :]
    return label.strip("/"), text
