"""kernel: the HTTP gateway of a box: requests by method and path, and credentials that the guest never sees."""
