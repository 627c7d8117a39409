"""Shared by the peers of this folder."""

import ctypes


def keep_freed_memory():
    """Lets glibc reuse large blocks instead of returning them to the system: a fifth of the step would be page faults."""
    try:
        libc = ctypes.CDLL("libc.so.6")
        trim_threshold, top_pad, mmap_max = -1, -2, -4  # malloc.h
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**31 - 1)
        libc.mallopt(top_pad, 2**28)
    except (OSError, AttributeError):
        pass  # another C library: its own habits
