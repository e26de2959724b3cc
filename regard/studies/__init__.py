"""The built-in comparisons."""
