"""A run's whole configuration.

The same words stand in YAML, in Python, in `-s section.key=value` and in `--help`. Unknown keys
are refused, and every value is checked when the run starts.
"""

from regard.config.keys import DECODED, WRITTEN, Config, Data, Decode, Model, Tokenizer, Train
from regard.config.reading import (
    RECIPES,
    describe,
    differences,
    dump,
    load,
    override,
    read_text,
    read_yaml,
    recipes,
    validate,
)

__all__ = [
    "DECODED",
    "RECIPES",
    "WRITTEN",
    "Config",
    "Data",
    "Decode",
    "Model",
    "Tokenizer",
    "Train",
    "describe",
    "differences",
    "dump",
    "load",
    "override",
    "read_text",
    "read_yaml",
    "recipes",
    "validate",
]
