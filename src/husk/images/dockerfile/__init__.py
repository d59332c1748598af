"""Build images by a Dockerfile: its syntax, the context it copies from, and its stages."""
