"""Public incidents as data: one TOML file each, in our own words, each with its source.

:mod:`.library` reads them strictly, :mod:`.search` finds them, :mod:`.page` writes
docs/incidents.md. Which ones a finding resembles is the analysis's affair
(:mod:`slurm_io.analysis.similar`).
"""
