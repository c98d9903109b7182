"""Starts DLIO as its own command does, without TensorFlow.

The package imports it for a profiler that a run through torch never uses; where it is not
installed, an empty module stands in for it.
"""

import importlib.util
import sys
import types

if importlib.util.find_spec("tensorflow") is None:
    sys.modules["tensorflow"] = types.ModuleType("tensorflow")

from dlio_benchmark.main import main

if __name__ == "__main__":
    main()
