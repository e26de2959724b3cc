"""The decoding strategy that options belong to, where it is not named."""

from typing import Any

from regard.system.errors import UserError

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
"""Keys of `decode` that only sampling uses."""
BEAM_SEARCH = ("beam", "length_penalty")
"""Keys of `decode` that only beam search uses."""


def implied_strategy(changes: dict[str, Any], default: str) -> dict[str, str]:
    """{"strategy": ...} if the changed keys of `decode` imply one, else nothing.

    To name a beam is to ask for beam search, to name a temperature to ask for sampling; n_best
    belongs to both. default: the strategy of the run.
    """
    named = changes.get("strategy")
    sampling = [key for key in SAMPLING if key in changes]
    samples = bool(sampling) or (named or default) == "sample"
    beams = [key for key in (*BEAM_SEARCH, "n_best") if key in changes]
    if samples and "n_best" in beams:
        beams.remove("n_best")
    for keys, strategy, title in (
        (beams, "beam", "beam search"),
        (sampling, "sample", "sampling"),
    ):
        if keys and named not in (None, strategy):
            raise UserError(f"{keys[0]} goes with {title}, but strategy={named} was given.")
    if beams and sampling:
        raise UserError(f"{beams[0]} goes with beam search and {sampling[0]} with sampling.")
    return {"strategy": "beam"} if beams else {"strategy": "sample"} if sampling else {}
