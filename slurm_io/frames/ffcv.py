"""FFCV: the wait for its thread; its reads are page faults in compiled code and not seen."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("ffcv")(
    Library(
        "1.0",
        (
            at("ffcv/loader/epoch_iterator.py", "data_wait", "__next__"),
            at("ffcv/loader/epoch_iterator.py", "data_wait", "__init__", note="epoch"),
            at("ffcv/loader/loader.py", "data_wait", "__iter__", "generate_code", note="epoch"),
            at("ffcv/loader/epoch_iterator.py", "helper", "run", "run_pipeline"),
            at("ffcv/memory_managers/", "reading", "start_batch"),
        ),
    )
)
