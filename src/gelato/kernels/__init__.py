"""The compiled loops (numba), each with a slow twin in the tests.

Kernels work on plain arrays, release the GIL, never ask how many threads there
are, and are cached on disk; callers split the work into fixed chunks, so that a
result does not depend on the number of threads.
"""
