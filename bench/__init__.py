"""Every figure of the README comes from a script here. Each compares with a peer in one run and reports a ratio."""
