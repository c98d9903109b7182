"""Garbage collection. A collection that Python starts by itself has no frame: only native frames
show it, or the trainer that collects on purpose."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("gc_collect")(
    Library(
        "CPython 3.8 to 3.14, torchtitan 0.1 to 0.3",
        (
            at("torchtitan/tools/utils.py", "gc", "collect", "run"),
            at("torchtitan/utils.py", "gc", "collect"),
            at("native:gc_collect", "gc"),
            at("native:PyGC_Collect", "gc"),
            at("native:_PyGC_", "gc"),
            at("native:deduce_unreachable", "gc"),
        ),
    )
)
