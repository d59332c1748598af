"""Commands that other programs call: an agent its hook, Jupyter its kernel. Each becomes a `husk run`."""
