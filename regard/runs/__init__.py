"""The run directory: create, train into, resume, open; what `regard.load(path)` returns."""
