"""What slurmd runs as root after a job: stop, seal, deliver, analyse."""
