"""Make a virtual environment, or say which Debian package is missing for it."""

from __future__ import annotations

import sys
import venv


def main() -> int:
    """Create the environment named on the command line."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the system's own Python runs this
        print(
            f"slurm_io needs Python 3.11 or newer, this is {sys.version.split()[0]}: "
            "call make with PYTHON=/path/to/python3.11",
            file=sys.stderr,
        )
        return 2
    try:
        venv.create(sys.argv[1], with_pip=True, clear=False)
    except Exception as error:  # noqa: BLE001 - ensurepip is a package of its own on Debian
        print(f"cannot make {sys.argv[1]} ({error}): apt-get install python3-venv", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
