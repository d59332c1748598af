"""sandbox: what is known of a run before its box has a file system (`orders`), and begun with it (`launch_ahead`)."""
