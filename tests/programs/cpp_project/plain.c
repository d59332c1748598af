int plain(int x) { return x * 2; }
