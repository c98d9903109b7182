"""torch.cuda.graphs: a capture begins, takes what is launched, ends."""

import sys


class CUDAGraph:
    def capture_begin(self, pool=None, capture_error_mode="global"):
        cuda = sys.modules["torch.cuda"]
        if cuda.capturing is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        cuda.capturing = cuda.current_stream()

    def capture_end(self):
        cuda = sys.modules["torch.cuda"]
        if cuda.capturing is None:
            raise RuntimeError("no capture to end")
        cuda.capturing = None
