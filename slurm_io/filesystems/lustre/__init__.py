"""What a Lustre client counts: parsers of its procfs, sysfs and debugfs files, and where they lie.

Written for Lustre 2.5 to 2.17.
"""
