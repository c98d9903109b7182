"""Whole scenarios: a lab, a profiled run, its report, and the lab's own truth beside it."""
