"""What may be done with a file beyond its mode bits: POSIX ACLs, and the Landlock rules a program made for itself.

Pure decisions, loaded only where a file has an ACL or a program has restricted itself.
"""
