"""GPUs that are not there: a small library in libnvidia-ml's place, driven by a script file."""
