"""Models on Bert against Hugging Face's: the logits of every head, on ragged rows of two texts."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.batches import padded
from regard.data.examples import Ids
from regard.data.frame import segments_of
from regard.models import Bert, MaskedLanguageModel, SpanFinder, Tagger, TextClassifier
from regard.pretrained.bert import HEADS, TIED
from regard.pretrained.bert_export import weights_of
from regard.verify.bert import LONGEST, ROWS, SIZES, SPECIAL, VOCAB, bert_config
from regard.verify.check import Check, largest

LABELS = 5
MODELS: dict[str, Callable[[Bert], nn.Module]] = {
    "BertForPreTraining": MaskedLanguageModel,
    "BertForMaskedLM": partial(MaskedLanguageModel, sentence_pair=False),
    "BertForSequenceClassification": partial(TextClassifier, classes=LABELS),
    "BertForTokenClassification": partial(Tagger, tags=LABELS),
    "BertForQuestionAnswering": SpanFinder,
}
"""What stands on our encoder, by the name of theirs."""


def both(kind: str, *, fast: bool) -> tuple[nn.Module, Any]:
    """Our model and theirs, with random weights of ours under their names."""
    import transformers

    body = Bert(VOCAB, max_length=LONGEST, padding=0, fast=fast, **SIZES)
    ours = MODELS[kind](body).eval()
    labels = {} if kind == "BertForQuestionAnswering" else {"num_labels": LABELS}
    theirs: Any = getattr(transformers, kind)(bert_config(**labels)).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in ours.parameters():
            weight.copy_(0.2 * torch.randn(weight.shape, generator=generator))
    keys = theirs.load_state_dict(weights_of(ours, kind), strict=False)
    if keys.unexpected_keys or set(keys.missing_keys) - TIED:
        raise ValueError(f"{kind}: not the same weights: {keys}")
    return ours, theirs


@torch.inference_mode()
def compare_head(kind: str, *, fast: bool, rows: list[Ids] = ROWS) -> float:
    """The largest difference of logits, at real tokens where there is one for each."""
    ours, theirs = both(kind, fast=fast)
    tokens, lengths = padded(rows, SPECIAL)
    segments = padded([segments_of(row, SPECIAL) for row in rows], SPECIAL).tokens
    real = torch.arange(tokens.size(1)) < lengths[:, None]  # B L
    output = ours(tokens, lengths, segments=segments)
    mine = [output] if isinstance(output, Tensor) else [part for part in output if part is not None]
    expected = theirs(input_ids=tokens, attention_mask=real.long(), token_type_ids=segments)
    others = [value for name, value in expected.items() if "logits" in name]
    per_token = [part.dim() == 3 or HEADS[kind].task == "span" for part in mine]
    return largest(
        (part[real], other[real]) if every else (part, other)
        for part, other, every in zip(mine, others, per_token, strict=True)
    )


def bert_head_checks() -> Iterator[Check]:
    """Every head, on the fast path; nothing without the package transformers."""
    if find_spec("transformers") is None:
        return
    for kind, make in MODELS.items():
        ours = getattr(make, "func", make).__name__
        yield Check(f"{ours} = transformers' {kind}", partial(compare_head, kind, fast=True))
