"""torch.distributed collectives, NCCL's and Gloo's native frames among them.

Collectives that the backward pass starts itself run in native threads: without native frames
such a wait looks like the backward pass, so it is called compute.
"""

from slurm_io.frames.base import LIBRARIES, Library, at

_DIST = "torch/distributed"

LIBRARIES.register("c10d")(
    Library(
        "torch 1.13 to 2.14, NCCL 2",
        (
            at(f"{_DIST}/distributed_c10d.py", "collective", "all_reduce", "all_reduce_coalesced",
               "all_gather", "all_gather_object", "all_gather_into_tensor", "all_gather_single",
               "all_gather_coalesced", "_all_gather_base", "reduce", "reduce_scatter",
               "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base",
               "broadcast", "broadcast_object_list", "gather", "gather_object", "scatter",
               "scatter_object_list", "all_to_all", "all_to_all_single", "barrier",
               "monitored_barrier", "send", "recv", "isend", "irecv", "batch_isend_irecv",
               "send_object_list", "recv_object_list", "destroy_process_group"),
            at(f"{_DIST}/distributed_c10d.py", "collective", "init_process_group", "new_group",
               "split_group", "_new_process_group_helper", note="start-up"),
            at(f"{_DIST}/rendezvous.py", "collective", note="start-up"),
            at(f"{_DIST}/c10d_logger.py", "collective", "wrapper"),
            at(f"{_DIST}/_functional_collectives.py", "collective"),
            at(f"{_DIST}/nn/functional.py", "collective"),
            at(f"{_DIST}/utils.py", "collective", "_sync_module_states"),
            at("native:c10d::", "collective"),
            at("native:gloo::", "collective"),
            at("native:nccl", "collective"),
            at("library:libnccl", "collective"),
            at("library:librccl", "collective"),
        ),
    )
)  # fmt: skip
