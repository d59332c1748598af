"""cli/conform: the commands about conformance: `husk conform …`."""
