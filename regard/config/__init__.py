"""A run's whole configuration.

The same words stand in YAML, in Python, in `-s section.key=value` and in `--help`. Unknown keys
are refused, and every value is checked when the run starts.
"""

from regard.config.applies import refuse_idle
from regard.config.data_keys import Data, Tokenization
from regard.config.faults import shown
from regard.config.keys import About, Config
from regard.config.metrics import METRICS, OUTPUT_METRICS, TASK_METRICS, Metric
from regard.config.model_keys import Model
from regard.config.reading import (
    RECIPES,
    describe,
    dump,
    load,
    override,
    read_text,
    read_yaml,
    recipes,
    validate,
)
from regard.config.run_keys import Decode, Train

__all__ = [
    "METRICS",
    "OUTPUT_METRICS",
    "RECIPES",
    "TASK_METRICS",
    "About",
    "Config",
    "Data",
    "Decode",
    "Metric",
    "Model",
    "Tokenization",
    "Train",
    "describe",
    "dump",
    "load",
    "override",
    "read_text",
    "read_yaml",
    "recipes",
    "refuse_idle",
    "shown",
    "validate",
]
