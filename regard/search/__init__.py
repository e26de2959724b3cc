"""Vectors of texts and words: written to files, searched, and put to use."""
