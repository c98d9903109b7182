"""Waits of Python's own library: queues, locks, pipes, children, futures."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("python_queues")(
    Library(
        "CPython 3.8 to 3.14",
        (
            at("std:queue.py", "get", "get"),
            at("std:queue.py", "put", "put"),
            at("std:multiprocessing/queues.py", "get", "get"),
            at("std:multiprocessing/queues.py", "put", "put"),
            at("std:multiprocessing/queues.py", "helper", "_feed"),
            at("std:multiprocessing/connection.py", "wait"),
            at("std:multiprocessing/popen_fork.py", "wait", "wait", "poll"),
            at("std:multiprocessing/process.py", "wait", "join"),
            at("std:multiprocessing/synchronize.py", "wait"),
            at("std:multiprocessing/managers.py", "wait"),
            at("std:selectors.py", "wait", "select"),
            at("std:threading.py", "wait", "wait", "wait_for", "acquire", "join",
               "_wait_for_tstate_lock"),
            at("std:subprocess.py", "wait", "wait", "_wait", "communicate", "_communicate"),
            at("std:concurrent/futures/_base.py", "wait", "result", "wait", "exception"),
            at("std:concurrent/futures/thread.py", "helper", "_worker"),
            at("std:concurrent/futures/process.py", "wait"),
            at("std:asyncio/base_events.py", "wait", "run_forever", "run_until_complete",
               "_run_once"),
            at("std:asyncio/runners.py", "wait", "run"),
            at("std:socket.py", "wait", "accept"),
        ),
    )
)  # fmt: skip
