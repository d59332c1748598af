"""Pull images from registries: references, logins, the distribution protocol over httpx."""
