"""The hook under the name it has in every attached job: `import slurm_io_hook`.

Its modules lie two folders up, in slurm_io/hook; only this name and `sitecustomize` are on the
job's import path, so that nothing of ours can shadow a module of the user's.
"""

import os

__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
__all__ = ["checkpoint", "enabled", "event", "watch"]

from slurm_io_hook.api import checkpoint, enabled, event, watch  # type: ignore[import-not-found]
from slurm_io_hook.start import start  # type: ignore[import-not-found]

start()
