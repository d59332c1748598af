"""skills/collections: folders of many skills: finding them, and what is said about all of them together."""
