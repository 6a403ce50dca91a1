"""What a person reads: headers, progress, tables, from configurations and run folders. Torch-free."""
