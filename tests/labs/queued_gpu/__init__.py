"""A GPU that works through its queues by the clock, behind a small stand-in of torch.

With this folder on PYTHONPATH `import torch` finds ``torch/`` here: just the seams the hook looks
at (loader, optimizer, cuda), on any Python from 3.8 on. :mod:`.torch._device` is the device: what
is launched keeps a stream busy for as long as it says, events complete when the work before them
is done, and calls that no profiler may make (a synchronisation, anything during a capture, an
event of the parent in a forked child) are noted in ``trespasses``.
"""
