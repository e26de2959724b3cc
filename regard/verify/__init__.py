"""The promised equalities: parts against torch.nn, fast paths against readable ones.

`regard verify` prints each with its largest difference, and the tests hold each to its tolerance.
"""

from collections.abc import Iterator

from regard.data.splits import Pair
from regard.runs.run import Run
from regard.verify.against_torch import torch_checks
from regard.verify.against_transformers import transformers_checks
from regard.verify.bert import bert_checks
from regard.verify.bert_heads import bert_head_checks
from regard.verify.check import Check
from regard.verify.decoder_only import decoder_only_checks
from regard.verify.parts import parts_checks
from regard.verify.recurrent import recurrent_checks
from regard.verify.sequences import random_sequence_models, sequence_checks
from regard.verify.within import decoding_checks, model_checks, random_models

__all__ = ["Check", "checks", "run_checks"]

RUN_TOLERANCE = 1e-4
"""The tolerance for a trained model: its logits are in the tens, and rounding grows with them."""


def checks(run: Run | None = None) -> list[Check]:
    """All equalities: on small random models and, if a run is given, on its model."""
    equalities = [*torch_checks(), *parts_checks(), *transformers_checks(), *decoder_only_checks()]
    equalities += [*bert_checks(), *bert_head_checks(), *recurrent_checks()]
    for label, model in random_models().items():
        equalities += [*model_checks(model, label=label), *decoding_checks(model, label=label)]
    for label, sequence_model in random_sequence_models().items():
        equalities += sequence_checks(sequence_model, label=label)
    return equalities + (list(run_checks(run)) if run else [])


def run_checks(run: Run) -> Iterator[Check]:
    """The equalities of a run's model, on a few of its own examples."""
    by_length = sorted(_examples(run), key=lambda pair: len(pair[0]))
    pairs = by_length[: len(by_length) // 2 + 1 : max(1, len(by_length) // 8)]
    inputs, label = run.task.verify_inputs(pairs), str(run.path)
    if inputs.targets is None:
        yield from sequence_checks(
            run.model, label=label, rows=inputs.sources, tolerance=RUN_TOLERANCE
        )
    else:
        yield from model_checks(
            run.model,
            label=label,
            sources=inputs.sources,
            targets=inputs.targets,
            tolerance=RUN_TOLERANCE,
        )


def _examples(run: Run) -> list[Pair]:
    """The validation examples of a run; without data, texts made of its vocabulary."""
    if run.config.data.valid:
        return run.task.pairs("valid")
    size = len(run.tokenizer)
    texts = [
        run.tokenizer.decode([(7 * position + 3 * length) % size for position in range(length)])
        for length in range(2, 18)
    ]
    return [(text, text) for text in texts if text.strip()]
