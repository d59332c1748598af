"""The doctor: tries every mechanism husk stands on and says what is missing and what to do.

A probe says what it found or raises `Missing`; it never decides whether that matters (`rows`).
"""
