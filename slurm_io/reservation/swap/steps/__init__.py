"""The steps of a swap, one file each, in the order of `swap.sequence.STEPS`."""
