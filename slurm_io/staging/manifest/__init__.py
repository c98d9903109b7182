"""Manifests: which files, of which size and content, one version of a dataset consists of."""
