"""images: import directories and archives as images of the store, pull, export and build them.

Stands on the store, and for recipes on the sandbox. Nothing here is on the path of `husk run`. No archive is ever
unpacked onto a file system: contents become blobs, names go into a manifest.
"""
