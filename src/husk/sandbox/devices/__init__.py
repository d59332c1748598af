"""Devices and servers of the host that a box may be given by name: which there are, and why others are refused."""
