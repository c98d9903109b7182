"""The training lab with a peer's own lines added: lab_under_peer.py TOOL OPTION...

TOOL is none, traceml or gpuprof; the options are those of tests/labs/train_job.py. Each peer gets
what its quick start asks for: TraceML `init` and a `trace_step` from the forward pass through the
optimizer, gpuprof one `profile` around everything. What stands in for the GPU's work is slept
inside the forward pass, where a peer without a GPU looks for compute: so for all tools alike.
"""

import argparse
import contextlib
import importlib
import sys
import time
from pathlib import Path

LABS = Path(__file__).resolve().parents[2] / "tests/labs"


def load_lab():
    """The training job as a module. It is a program and imports only what lies beside it."""
    sys.path.insert(0, str(LABS))
    return importlib.import_module("train_job")


def sleep_in_forward(lab):
    """Move the sleep of a step from behind backward into the forward pass."""
    compute = lab.compute

    def compute_with_sleep(options, model, *others):
        def sleep(*_):
            time.sleep(options.compute_ms / 1e3)

        hook = model.register_forward_pre_hook(sleep)
        try:
            compute(argparse.Namespace(**{**vars(options), "compute_ms": 0.0}), model, *others)
        finally:
            hook.remove()

    lab.compute = compute_with_sleep


@contextlib.contextmanager
def traceml(lab):
    """A step's `trace_step` opens before `compute` and closes after the optimizer's step."""
    import traceml_ai

    traceml_ai.init(mode="auto")
    timed, compute = lab.timed, lab.compute
    step = contextlib.ExitStack()

    def traced(call, *arguments):
        if call is compute:
            step.enter_context(traceml_ai.trace_step(arguments[1]))
        taken_ns = timed(call, *arguments)
        if getattr(call, "__name__", "") == "step":
            step.close()
        return taken_ns

    lab.timed = traced
    yield


@contextlib.contextmanager
def gpuprof(lab):
    """Everything inside one `profile`; its database in the current folder, as by default."""
    import gpuprof as profiler

    with profiler.profile("lab"):
        yield


TOOLS = {"none": contextlib.nullcontext, "traceml": traceml, "gpuprof": gpuprof}


def main():
    """Run the lab under the tool."""
    tool = TOOLS[sys.argv.pop(1)]
    lab = load_lab()
    sleep_in_forward(lab)
    with tool(lab):
        lab.main()


if __name__ == "__main__":
    main()
