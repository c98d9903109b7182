"""Slurm's records as text: ``Key=value`` pairs, as ``scontrol show`` prints them.

::

    NodeName=t1 Arch=x86_64 ... OS=Linux 6.1.0 #1 SMP  State=IDLE+DRAIN ... AllocTRES= CapWatts=n/a
    ... Reason=slurm_io: mounts: gone [root@1796012002] Comment=free text State=DOWN

Values may hold blanks, so a record is cut at its keys, not at blanks; a free text could hold what
looks like a key, so behind one only the keys that Slurm prints there count. With ``-o`` a record
is one line; a text of several lines is printed as it is, in the middle of it, and the long form
puts each record on several lines: what does not begin with the record's first key goes on with
the line before it.
"""

from __future__ import annotations

import re

from slurm_io.records import dataclass

_KEY = re.compile(r"(?:^| )([A-Z][A-Za-z0-9_:/]{1,31})=")
SIGNED = re.compile(r" \[([^\[\]@ ]{1,64})@([^\[\]]{1,32})\](?= |$)")


@dataclass(frozen=True)
class RecordForm:
    """How one kind of record is written.

    `first` is the key that each begins with. Behind a key of `free_text` only those of
    `behind_text` end it. A value of `signed` ends with ``[user@time]``, and may hold any key
    before that.
    """

    first: str
    free_text: frozenset[str] = frozenset()
    behind_text: frozenset[str] = frozenset()
    signed: frozenset[str] = frozenset()


NODE = RecordForm(
    first="NodeName",
    free_text=frozenset({"Comment", "Extra", "Reason"}),
    behind_text=frozenset(
        {"Comment", "Extra", "Reason", "ReservationName", "InstanceId", "InstanceType", "CapWatts",
         "CurrentWatts", "CfgTRES", "AllocTRES", "LastBusyTime", "ResumeAfterTime",
         "ExtSensorsJoules", "TLSCertTokenSet", "TLSCertLastRenewal", "Topology", "Parameters"}
    ),
    signed=frozenset({"Reason"}),
)  # fmt: skip
RESERVATION = RecordForm(
    first="ReservationName",
    free_text=frozenset({"Comment"}),
    behind_text=frozenset({"BurstBuffer", "MaxStartDelay", "State", "TRES", "Watts"}),
)
PARTITION = RecordForm(first="PartitionName")


def split_records(text: str, form: RecordForm) -> list[dict[str, str]]:
    """Key -> value of each record. A text before the first record is a record without `first`."""
    return [fields_of(line, form) for line in _whole_lines(text, form)]


def fields_of(line: str, form: RecordForm) -> dict[str, str]:
    """Key -> value; of a key that comes twice the first counts, a free text cannot replace it."""
    line = line.strip()
    cuts: list[re.Match[str]] = []
    text_until = 0
    for found in _KEY.finditer(line):
        if found.start() < text_until:
            continue
        if cuts and cuts[-1][1] in form.free_text and found[1] not in form.behind_text:
            continue
        cuts.append(found)
        if found[1] in form.signed and (signed := SIGNED.search(line, found.end())):
            text_until = signed.end()
    ends = [*(each.start() for each in cuts[1:]), len(line)][: len(cuts)]
    fields: dict[str, str] = {}
    for found, end in zip(cuts, ends, strict=True):
        fields.setdefault(found[1], line[found.end() : end].strip())
    return fields


def _whole_lines(text: str, form: RecordForm) -> list[str]:
    whole: list[list[str]] = []
    head = f"{form.first}="
    for line in filter(str.strip, text.split("\n")):
        if whole and not line.startswith(head):
            whole[-1].append(line.strip())
        else:
            whole.append([line.rstrip("\r")])
    return [" ".join(parts) for parts in whole]
