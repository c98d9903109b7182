"""AMD GPUs as the amdgpu driver shows them in /sys: no ROCm library."""
