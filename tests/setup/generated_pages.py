"""Write, or with ``--check`` compare, every page of docs/ that is generated from code."""

from __future__ import annotations

import importlib
import sys

GENERATORS = (
    "slurm_io.store.schema_page",
    "slurm_io.config_page",
    "slurm_io.analysis.rule_pages",
    "slurm_io.sampler.collector_pages",
)


def main() -> int:
    """Run every generator; exit 1 when a page is stale."""
    stale = [name for name in GENERATORS if importlib.import_module(name).main(sys.argv[1:]) != 0]
    for name in stale:
        print(f"stale page: run `make docs` ({name})", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
