"""cli: `python -m husk.cli`."""

from husk.cli import main_of_process

main_of_process()
