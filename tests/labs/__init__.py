"""Fault machines the tests run against: a slow file system, a training job, block devices."""
