"""cli/skill: the commands of `husk skill`, one module for each or for two that share their work."""
