"""Trees that show a host directory, read-only or read-write.

Every host file is opened beneath a directory descriptor and without following links.
"""
