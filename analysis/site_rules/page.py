"""docs/site-rules.md, made from the names and functions themselves.

``python -m slurm_io.analysis.site_rules.page`` writes the page, ``--check`` exits 1 when it is
stale.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from slurm_io.analysis.site_rules import names, tree
from slurm_io.analysis.site_rules.folder import MOST_RULES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "site-rules.md"

HEAD = f"""\
# Site rules

Made from `analysis/site_rules/` by `python -m slurm_io.analysis.site_rules.page`; change it there.

A site can add rules of its own: one TOML file for each, in the folder that `rules.site_dir` of the
configuration names (`*.toml`, at most {MOST_RULES}, readable by the jobs' users, for the report is
made as the user). Their findings stand in the report among all others, and a job silences them the
same way (`silence=S01`). They never change the verdict. A file that cannot be used is named in the
report under what was not seen, and hides no other rule.

```toml
code = "S01"                      # S01 to S99
title = "reads from /scratch are slower than the contract says"
expression = "p99(fsclient.rtt_ms, op_class='read', mount='/scratch')"
unit = "ms"                       # optional: checked against the expression's
threshold = 20
fires = "above"                   # or "below"; at the threshold it fires
guard = "time.steps >= 200 and idle.data_storage >= 0.03"   # optional: else it is quiet
severity = "warn"                 # info, warn or bad
remedy = "write to storage@example.org with the job id"
commands = ["nfsiostat 1 5 /scratch"]
```

`slurm-io rule check FILE.toml` says whether a rule is sound, with `--against STORE` what it says of
a job; `slurm-io rule list` shows all rules with the thresholds in force.

## Expressions

Numbers, the names below, `+ - * /`, parentheses, one comparison at a time (`< <= > >= == !=`),
`and`, `or`, `not`, and the functions below. Nothing else is taken, and nothing is run as a program.
At most {tree.MOST_CHARS} characters, {tree.MOST_NODES} parts, {tree.MOST_DEPTH} levels.

- A **field** is one number of the report. Where it is not known the rule says so, and is quiet.
- A **series** (`table.column`) has a value for each row that was recorded while the job trained
  (without a hook or stacks: while it was watched). A function makes one number of it. What is
  reckoned row by row must come from one table, beside bare numbers only; rows in which a value is
  missing, or which would divide by zero, are left out. `column='text'` behind the series chooses
  rows. Rows of all nodes, devices and processes that are left count together.
- **Units** are those of the tables ([schema](schema.md)). What is added or compared must have the
  same one; bare numbers go with any. `base_unit(x)` converts to s, B or a share (kB is 1024 B, as
  in iostat). A share is 0 to 1, a percentage is not.
- A division by zero, and a number that is not finite, are "not enough evidence", never a finding.

"""


def page() -> str:
    """The whole page as Markdown."""
    functions = "".join(f"| `{name}` | {doc} |\n" for name, doc in tree.FUNCTIONS.items())
    fields = "".join(
        f"| `{one.name}` | {_unit(one.unit)} | {one.doc} |\n" for one in names.fields().values()
    )
    parts = (
        f"{HEAD}## Functions\n\n| function | gives |\n|---|---|\n{functions}",
        "`share_of_time` is of the time that rows cover; where a row is a moment, of the rows.\n",
        f"## Fields\n\n| name | unit | meaning |\n|---|---|---|\n{fields}",
        f"## Series\n\n{_series()}",
    )
    return "\n".join(parts)


def _series() -> str:
    found = ["[schema](schema.md) says what each means. Rows are chosen by the columns behind.\n"]
    for table in names.SERIES_TABLES:
        columns = [
            f"`{one.name}`{f' ({one.unit})' if one.unit.powers else ''}"
            for one in names.series().values()
            if one.table == table
        ]
        chosen = ", ".join(f"`{name}`" for name in names.filters(table))
        found.append(f"- {', '.join(columns)}; chosen by {chosen or 'nothing'}\n")
    return "\n".join(found)


def _unit(unit: object) -> str:
    text = str(unit)
    return "" if text == "no unit" else text


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with ``--check`` compare it; 1 when it is stale."""
    text = page()
    if "--check" in arguments:
        return 0 if PAGE.exists() and PAGE.read_text("utf-8") == text else 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
