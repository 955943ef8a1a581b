"""Resident memory of this process."""
from __future__ import annotations

import ctypes
import gc
import os


def resident_megabytes() -> float:
    """Without what has been freed: all peers are told to keep freed memory, and one that needed much to load would look large for good."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open('/proc/self/statm') as numbers:
        return int(numbers.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 1e6
