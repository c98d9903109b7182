"""torchdata.nodes, which does without the DataLoader: threads of the training process."""

from slurm_io.frames.base import LIBRARIES, Library, at

_NODES = "torchdata/nodes"

LIBRARIES.register("torchdata_nodes")(
    Library(
        "0.10 and 0.11",
        (
            at(f"{_NODES}/loader.py", "data_wait", "next", "__next__", "has_next"),
            at(f"{_NODES}/loader.py", "data_wait", "__iter__", "reset", note="epoch"),
            at(f"{_NODES}/base_node.py", "data_wait", "__next__"),
            at(f"{_NODES}/_populate_queue.py", "helper", "_populate_queue"),
            at(f"{_NODES}/_apply_udf.py", "helper", "_apply_udf"),
            at(f"{_NODES}/map.py", "helper", "_sort_worker"),
            at(f"{_NODES}/pin_memory.py", "helper", "_pin_memory_loop"),
        ),
    )
)
