"""What Slurm says, behind one protocol."""
