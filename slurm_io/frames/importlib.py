"""Python's import machinery: on network storage a storm of small reads before training starts."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("importlib")(
    Library(
        "CPython 3.8 to 3.14",
        (
            at("<frozen importlib._bootstrap>", "import"),
            at("<frozen importlib._bootstrap_external>", "import"),
            at("<frozen zipimport>", "import"),
            at("std:importlib/__init__.py", "import", "import_module", "reload"),
            at("std:importlib/metadata/__init__.py", "reading", note="metadata"),
            # libdrm looks for its table of device names below the whole prefix: import torch, ROCm
            at("native:check_for_location_of_amdgpuids", "import", note="metadata"),
            at("native:PyImport_", "import"),
        ),
    )
)
