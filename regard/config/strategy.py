"""The decoding strategy that options belong to, where it is not named."""

import itertools
from typing import Any

from regard.system.errors import UserError

SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical",
    "epsilon",
    "eta",
    "top_n_sigma",
    "seed",
)
"""Keys of `decode` that only strategies that sample use."""
BEAM_SEARCH = ("beam", "length_penalty", "early_stopping")
"""Keys of `decode` that only strategies with a beam use."""

USED_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SAMPLING, ("sample", "best-of", "beam-sample")),
    **dict.fromkeys(BEAM_SEARCH, ("beam", "diverse-beam", "beam-sample")),
    "beam_groups": ("diverse-beam",),
    "diversity": ("diverse-beam",),
    "contrast": ("contrastive",),
    "candidates": ("contrastive",),
    "best_of": ("best-of",),
    "n_best": ("beam", "sample", "best-of", "beam-sample", "diverse-beam"),
    "speculate": ("greedy", "sample", "best-of"),
}
"""The strategies that use a key of `decode`; to name the key is to ask for the first of them.

Keys that are not here are used by all.
"""

TITLES = {
    "greedy": "greedy search",
    "sample": "sampling",
    "beam": "beam search",
    "diverse-beam": "diverse beam search",
    "beam-sample": "beam sampling",
    "contrastive": "contrastive search",
    "best-of": "the best of several samples",
}


def implied_strategy(changes: dict[str, Any], default: str) -> dict[str, str]:
    """{"strategy": ...} if the changed keys of `decode` imply one, else nothing.

    To name a beam is to ask for beam search, to name a temperature to ask for sampling, unless the
    strategy that is named, or else the run's own (`default`), uses the key too.
    """
    keys = [key for key in changes if key in USED_BY]
    named = changes.get("strategy")
    if named is not None:
        for key in keys:
            if named in TITLES and named not in USED_BY[key]:
                title = TITLES[USED_BY[key][0]]
                raise UserError(f"{key} goes with {title}, but strategy={named} was given.")
        return {}
    for strategy in (default, *(USED_BY[key][0] for key in keys)):
        if all(strategy in USED_BY[key] for key in keys):
            return {} if strategy == default else {"strategy": strategy}
    first, second = next(
        (one, other) for one, other in itertools.combinations(keys, 2) if not _agree(one, other)
    )
    both = [name for name in TITLES if all(name in USED_BY[key] for key in keys)]
    hint = f" strategy={both[0]} uses both." if both else ""
    raise UserError(
        f"{first} goes with {TITLES[USED_BY[first][0]]} and {second} with "
        f"{TITLES[USED_BY[second][0]]}.{hint}"
    )


def _agree(one: str, other: str) -> bool:
    """Whether what one of two keys asks for uses the other key too."""
    return USED_BY[one][0] in USED_BY[other] or USED_BY[other][0] in USED_BY[one]
