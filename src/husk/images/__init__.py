"""images: import directories and archives as images of the store, export them, and build images by a recipe.

Stands on the store, and for recipes on the sandbox. Nothing here is on the path of `husk run`. No archive is ever
unpacked onto a file system: contents become blobs, names go into a manifest.
"""
