"""The training step: forward, backward, optimizer, compiled code, waits for the GPU."""

from slurm_io.frames.base import LIBRARIES, Library, at

LIBRARIES.register("torch_compute")(
    Library(
        "torch 1.13 to 2.14, CUDA 11 to 13, ROCm 5 to 7, Level Zero 1",
        (
            at("torch/nn/modules/", "compute"),
            at("torch/nn/functional.py", "compute"),
            at("torch/nn/parallel/", "compute"),
            at("torch/_tensor.py", "compute", "backward"),
            at("torch/autograd/", "compute"),
            at("torch/optim/", "compute"),
            at("torch/amp/", "compute"),
            at("torch/_dynamo/", "compute"),
            at("torch/_inductor/codecache.py", "compute"),
            at("torch/_functorch/", "compute"),
            at("torch/utils/checkpoint.py", "compute"),
            at("torch/cuda/__init__.py", "compute", "synchronize", note="gpu"),
            at("torch/cuda/streams.py", "compute", "synchronize", note="gpu"),
            at("torch/cuda/memory.py", "compute", "empty_cache", note="gpu"),
            at("vllm/device_allocator/cumem.py", "compute", note="gpu"),
            at("native:cudaStreamSynchronize", "compute", note="gpu"),
            at("native:cudaDeviceSynchronize", "compute", note="gpu"),
            at("native:cudaEventSynchronize", "compute", note="gpu"),
            at("native:cuStreamSynchronize", "compute", note="gpu"),
            at("native:cuEventSynchronize", "compute", note="gpu"),
            at("native:cuCtxSynchronize", "compute", note="gpu"),
            at("native:hipStreamSynchronize", "compute", note="gpu"),
            at("native:hipDeviceSynchronize", "compute", note="gpu"),
            at("native:hipEventSynchronize", "compute", note="gpu"),
            at("native:urEventWait", "compute", note="gpu"),
            at("native:urQueueFinish", "compute", note="gpu"),
            at("native:zeFenceHostSynchronize", "compute", note="gpu"),
            at("native:zeEventHostSynchronize", "compute", note="gpu"),
            at("library:libcuda.so", "compute", note="gpu"),
            at("library:libcudart", "compute", note="gpu"),
            at("library:libamdhip64", "compute", note="gpu"),
            at("library:libze_intel_gpu", "compute", note="gpu"),
            at("native:torch::autograd::", "compute"),
            at("native:at::native::", "compute"),
        ),
    )
)
