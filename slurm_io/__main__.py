"""``python -m slurm_io`` is ``slurm-io``."""

from slurm_io.commands import main

if __name__ == "__main__":
    main()
