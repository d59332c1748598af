"""What Python scripts use, from their syntax trees: modules, commands, hosts, variables. Nothing is imported or run."""
