"""The version of a run directory's layout, and what weights were called in earlier ones."""

import re

SCHEMA = 2
"""The version that is written; a run made by a newer one is refused.

1: encoder and decoder layers had names of their own for their residuals.
2: every layer is a Block, and a residual is named after its sub-layer.
"""

RENAMED: dict[int, dict[str, str]] = {
    1: {
        r"^(encoder\.layers\.\d+)\.attention_residual\.": r"\1.self_attention_residual.",
        r"^(decoder\.layers\.\d+)\.self_residual\.": r"\1.self_attention_residual.",
        r"^(decoder\.layers\.\d+)\.cross_residual\.": r"\1.cross_attention_residual.",
    }
}
"""For each version, the patterns of weight names that the next version replaced."""


def current_name(name: str, *, schema: int) -> str:
    """What a weight that was written by a version of the layout is called now."""
    for version in range(schema, SCHEMA):
        for pattern, replacement in RENAMED[version].items():
            name = re.sub(pattern, replacement, name)
    return name
