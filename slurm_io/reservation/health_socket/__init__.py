"""Answers NVRx's launcher, which asks each node's health over a Unix socket before a restart."""
