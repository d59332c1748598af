"""`husk apply`: a box's changes for the host directory, chosen by path or one by one."""
