"""compat/look: what a program can ask of Linux, seen without running it."""
