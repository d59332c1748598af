"""compat/verdict: does a program run in a runtime? What it asks for, held against what the runtime offers."""
