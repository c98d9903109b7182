"""Calculators: what something would take or cost, from numbers that are given. One a file."""
