"""What Linux looks like: numbers, flags, struct layouts, how names are shown, and the registry.

Data and pure functions. Nothing here makes a system call or knows about guests.
"""
