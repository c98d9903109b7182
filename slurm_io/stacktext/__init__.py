"""Texts that show what threads are doing, turned into frames: py-spy, faulthandler, tracebacks,
gdb, ps. Pure: bytes in, frozen objects out, nothing of the machine is touched, nothing raises."""
