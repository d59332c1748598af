"""The policy, the life of a box and of a run, and its result.

Not here: the command line and the Python API, which stand on this.
"""
