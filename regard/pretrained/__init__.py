"""Formats of other libraries: export to them."""
