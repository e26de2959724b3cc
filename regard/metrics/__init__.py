"""Metrics of predictions against references."""
