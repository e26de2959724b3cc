"""Evaluation: what `evaluate` returns, one object for every task."""

from dataclasses import dataclass, field

from regard.metrics.output import Output


@dataclass(frozen=True)
class Evaluation:
    """How a model does on a split."""

    examples: int
    """How many examples there are."""
    metrics: dict[str, float]
    """By name; `regard.config.METRICS` says what each is."""
    outputs: list[Output] = field(default_factory=list)
    """Every source with its target and output, to look into; empty where no metric needs them."""
    warnings: list[str] = field(default_factory=list)
    """One sentence on each thing that could not be read or finished."""
    by_type: dict[str, dict[str, float]] = field(default_factory=dict)
    """The metrics of each kind of example by themselves, such as each type of entity."""
    signatures: dict[str, str] = field(default_factory=dict)
    """How metrics were computed, where a value cannot be compared without knowing it."""
