"""A tagger fine-tuned by us and by `transformers`: the same encoder, data, batches and schedule.

    regard import minilm --out runs/minilm
    python -m benchmarks.tag_hugging_face --data DIR --init runs/minilm -s model.crf=false
        -s train.epochs=4 -s train.batch_size=16 -s train.optimizer=adamw -s train.weight_decay=0.01
        -s train.lr=1e-4 -s train.schedule=linear -s train.warmup=300 -s train.clip=1
        -s model.dropout=0.1

Theirs is BertForTokenClassification; the loss is at the first piece of each word, and its tags are
those with the highest logits, scored by seqeval. Ours are the best valid sequences.
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
from regard.pretrained.names import BERT_CLASSES
from regard.tasks import Tag
from regard.tasks.tag_batch import TagBatch
from regard.training.loss import NONE_IS_PADDING


def labels_of(batch: TagBatch) -> Tensor:
    """The tag of each token, −100 where it is not the first piece of a word."""
    labels = torch.full_like(batch.source, NONE_IS_PADDING)
    real = batch.tags != NONE_IS_PADDING
    rows = torch.arange(len(batch.source))[:, None].expand_as(batch.tags)
    labels[rows[real], batch.starts[real]] = batch.tags[real]
    return labels


def attention(batch: Any) -> Tensor:
    """1 for real tokens."""
    return (torch.arange(batch.source.size(1)) < batch.lengths[:, None]).long()


def theirs(task: Tag, model: Any) -> Trained:
    """Fine-tune and measure `transformers`."""
    from seqeval.metrics import (  # type: ignore[import-untyped]
        f1_score,
        precision_score,
        recall_score,
    )

    def loss_of(model: nn.Module, batch: TagBatch) -> Tensor:
        mask = attention(batch)
        return model(batch.source, attention_mask=mask, labels=labels_of(batch)).loss

    speed, loss = fine_tune(task, model, loss_of)
    expected: list[list[str]] = []
    predicted: list[list[str]] = []
    with torch.inference_mode():
        for batch in task.batches_of("valid").epoch(0):
            best = model(batch.source, attention_mask=attention(batch)).logits.argmax(dim=-1)
            labels = labels_of(batch)
            for row, tags in zip(best, labels, strict=True):
                real = tags != NONE_IS_PADDING
                expected.append([task.labels[tag] for tag in tags[real].tolist()])
                predicted.append([task.labels[tag] for tag in row[real].tolist()])
    metrics = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    measured = {name: float(measure(expected, predicted)) for name, measure in metrics.items()}
    return Trained(speed, loss, measured)


def main() -> None:
    options = options_of(__doc__, recipe="conll2003")
    from transformers import BertForTokenClassification

    task, model = prepared(options.recipe, options.set, data=options.data, init=options.init)
    if not isinstance(task, Tag) or model.crf is not None:
        raise SystemExit("transformers has no conditional random field: -s model.crf=false")
    config = bert_config(task.config, vocab=len(task.tokenizer), num_labels=len(task.labels))
    peer = BertForTokenClassification(config)
    copy_weights(model, peer, BERT_CLASSES, d_model=task.config.model.d_model)
    report(ours(task, model), theirs(task, peer), ["precision", "recall", "f1"])


if __name__ == "__main__":
    main()
