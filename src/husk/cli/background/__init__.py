"""Boxes that run on when the command that started them has ended: `husk run -d` and the commands for them."""
