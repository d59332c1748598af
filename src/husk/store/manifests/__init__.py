"""Manifests: the immutable index of a tree, written, read through a map, and checked.

Not here: which manifests an image names (`store/images`).
"""
