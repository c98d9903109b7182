"""NVIDIA's management library (NVML), through ctypes: no package of theirs, no CUDA context."""
