"""Residency: whether a file's bytes are on the fast tier, asked without recalling them."""
