"""Answers found by us and by `transformers`: the same encoder, data, windows and schedule.

    regard import minilm --out runs/minilm
    python -m benchmarks.span_hugging_face --data DIR --init runs/minilm

Theirs is BertForQuestionAnswering. The best spans are chosen from the logits of both by the same
code, so that what is compared is the training.
"""

from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.fine_tuned import (
    Trained,
    bert_config,
    copy_weights,
    fine_tune,
    options_of,
    ours,
    prepared,
    report,
)
from regard.models import SpanLogits
from regard.pretrained.names import BERT_SPAN
from regard.system.engine import Engine
from regard.tasks import Span
from regard.tasks.span_batch import SpanBatch


class AsOurs(nn.Module):
    """Their model, called as ours is."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, lengths: Tensor, *, segments: Tensor) -> SpanLogits:
        mask = attention(source, lengths)
        output = self.model(source, attention_mask=mask, token_type_ids=segments)
        return SpanLogits(output.start_logits, output.end_logits)


def attention(source: Tensor, lengths: Tensor) -> Tensor:
    """1 for real tokens."""
    return (torch.arange(source.size(1)) < lengths[:, None]).long()


def theirs(task: Span, model: Any) -> Trained:
    """Fine-tune `transformers` with its own loss, and measure it with our choice of spans."""

    def loss_of(model: nn.Module, batch: SpanBatch) -> Tensor:
        return model(
            batch.source,
            attention_mask=attention(batch.source, batch.lengths),
            token_type_ids=batch.segments,
            start_positions=batch.first,
            end_positions=batch.last,
        ).loss

    speed, loss = fine_tune(task, model, loss_of)
    wrapped: Any = AsOurs(model)
    evaluation = task.evaluate(wrapped, "valid", engine=Engine(), metrics=["f1"])
    return Trained(speed, loss, evaluation.metrics)


def main() -> None:
    options = options_of(__doc__, recipe="squad")
    from transformers import BertForQuestionAnswering

    task, model = prepared(options.recipe, options.set, data=options.data, init=options.init)
    if not isinstance(task, Span):
        raise SystemExit("the recipe must be one of task=span")
    config = task.config
    peer = BertForQuestionAnswering(bert_config(config, vocab=len(task.tokenizer)))
    copy_weights(model, peer, BERT_SPAN, d_model=config.model.d_model)
    before = task.evaluate(model.eval(), "valid", engine=Engine(), metrics=["f1"]).metrics
    print(f"with an untrained head: em {before['em']:.4f}, f1 {before['f1']:.4f}")
    report(ours(task, model), theirs(task, peer), ["em", "f1"])


if __name__ == "__main__":
    main()
