"""Formats of other libraries, in and out."""
