"""cli/compat: the commands about what programs need and what runtimes offer. Each module is one command."""
