"""compat/probe: A static C program, husk-probe, that measures the Linux it stands in, and what runs it.

Here: the program (probe.h tells how to add a check), running it natively or inside another sandbox, and turning its
lines into a measured profile. Not here: the profile's format (husk.compat.surface).
"""
