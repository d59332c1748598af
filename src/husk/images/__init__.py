"""images: from directories and archives to images of the store and back, and images made by a recipe.

Stands on the store, and for recipes on the sandbox. Nothing here is on the path of `husk run`. No archive is ever
unpacked onto a file system: contents go into blobs, names into a manifest.
"""
