"""husk: a user-space Linux kernel that runs programs nobody has to trust."""

__version__ = "0.1.0"
