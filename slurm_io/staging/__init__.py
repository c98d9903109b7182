"""Datasets: manifests, proof that a copy is whole and current, and (later) copying them."""
