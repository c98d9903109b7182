"""Threads that sleep by trade and say nothing of the training: monitors, pools, loggers."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("housekeeping")(
    Library(
        "tqdm 4, torch 2, wandb 0.1x, tensorboard 2, CPython 3.8 to 3.14",
        (
            at("tqdm/_monitor.py", "housekeeping", "run"),
            at("torch/_inductor/compile_worker/subproc_pool.py", "housekeeping", "_read_thread",
               "_recv_msg"),
            at("torch/_inductor/compile_worker/watchdog.py", "housekeeping"),
            at("torch/distributed/elastic/timer/", "housekeeping"),
            at("torch/distributed/elastic/agent/server/api.py", "housekeeping", "_invoke_run"),
            at("wandb/", "housekeeping"),
            at("tensorboard/summary/writer/event_file_writer.py", "housekeeping", "run", "_run"),
            at("std:multiprocessing/resource_sharer.py", "housekeeping", "_serve"),
            at("std:multiprocessing/forkserver.py", "housekeeping", "main"),
            at("std:multiprocessing/resource_tracker.py", "housekeeping", "main"),
            at("std:multiprocessing/pool.py", "housekeeping", "_handle_workers", "_handle_tasks",
               "_handle_results"),
            at("std:logging/handlers.py", "housekeeping", "_monitor"),
            at("prometheus_client/", "housekeeping"),
        ),
    )
)  # fmt: skip
