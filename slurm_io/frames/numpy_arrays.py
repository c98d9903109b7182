"""numpy. Reading through a memmap shows no read: the innermost frame is whatever numpy did with the
page, so numpy inside a loader's fetch proves neither computing nor reading."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("numpy_arrays")(
    Library(
        "1.20 to 2.4",
        (
            at("numpy/_core/memmap.py", "mapped", note="memmap"),
            at("numpy/core/memmap.py", "mapped", note="memmap"),
            at("numpy/", "mapped"),
        ),
    )
)
