"""conform/nightly: run, compare, write, publish: what a timer starts every night."""
