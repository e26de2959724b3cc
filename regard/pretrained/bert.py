"""BERT in a Hugging Face folder: its `config.json`, and the task that its head is for."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.data.tag_schemes import are_iob2
from regard.pretrained.architecture import (
    Architecture,
    ForeignConfig,
    activation_of,
    read_config,
    refuse_differences,
)
from regard.pretrained.names import BERT, BERT_CLASSES, BERT_SPAN, BERT_WORDS, Table
from regard.pretrained.sentence_vectors import read_pooling
from regard.system.errors import UserError
from regard.tasks.match import MEAN, MatchScore

TOKENS, WORD_BIAS = "body.embedding.tokens.weight", "masked_words.output.bias"
POOLER, NEXT_SENTENCE = "pooler.dense.weight", "cls.seq_relationship.weight"
TIED = frozenset({"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"})
"""The output of masked words: the token embedding, and a bias that stands beside it as well."""


@dataclass(frozen=True)
class Head:
    """What stands on the encoder."""

    task: str
    table: Table
    labelled: bool = False
    """Whether it has classes with names."""


SEQUENCE = "BertForSequenceClassification"
"""A class for a text; with one output, a score of two."""

HEADS = {
    "BertModel": Head("embed", BERT),
    "BertForPreTraining": Head("mlm", BERT_WORDS),
    "BertForMaskedLM": Head("mlm", BERT_WORDS),
    SEQUENCE: Head("classify", BERT_CLASSES, labelled=True),
    "BertForTokenClassification": Head("tag", BERT_CLASSES, labelled=True),
    "BertForQuestionAnswering": Head("span", BERT_SPAN),
}
"""By the name of their architecture."""

STRIDE = 128
"""Tokens that neighbouring windows of a long text share (Devlin et al. 2019, in their code)."""
POOLED = ("BertForPreTraining", SEQUENCE)
"""Architectures that cannot do without the pooler; others may have one or not."""


class BertConfig(ForeignConfig):
    """`config.json` of BERT, with the defaults that the format has."""

    architectures: list[str] | None = None
    vocab_size: int = Field(30_522, ge=1)
    hidden_size: int = Field(768, ge=1)
    num_hidden_layers: int = Field(12, ge=1)
    num_attention_heads: int = Field(12, ge=1)
    intermediate_size: int = Field(3072, ge=1)
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = Field(512, ge=1)
    type_vocab_size: int = Field(2, ge=1)
    layer_norm_eps: float = 1e-12
    position_embedding_type: str | None = None
    is_decoder: bool = False
    tie_word_embeddings: bool = True
    problem_type: str | None = None
    num_labels: int = 2
    id2label: dict[int, str] | None = None

    @property
    def labels(self) -> list[str]:
        """The names of the classes, in order."""
        if self.id2label is None:
            return [f"LABEL_{number}" for number in range(self.num_labels)]
        return [name for _, name in sorted(self.id2label.items())]


def read_bert(folder: Path, names: Collection[str]) -> Architecture:
    """The encoder and head of a folder; names: those of its weights."""
    path = folder / "config.json"
    values: BertConfig = read_config(path, BertConfig)
    kind = (values.architectures or ["BertModel"])[0]
    if kind not in HEADS:
        raise UserError(
            f"{path}: a BERT of the architecture {kind!r} cannot be imported; it may be "
            f"{', '.join(HEADS)}."
        )
    head = HEADS[kind]
    positions = values.position_embedding_type or "absolute"
    refuse_differences(
        str(path),
        {
            f"position_embedding_type={positions}": positions != "absolute",
            "is_decoder": values.is_decoder,
            "tie_word_embeddings=false": head.task == "mlm" and not values.tie_word_embeddings,
            "problem_type=multi_label_classification": head.labelled
            and values.problem_type == "multi_label_classification",
        },
    )
    next_sentence = NEXT_SENTENCE in names
    pooler = kind in POOLED or next_sentence or any(name.endswith(POOLER) for name in names)
    keys = {
        "kind": "bert",
        "d_model": values.hidden_size,
        "n_layers": values.num_hidden_layers,
        "n_heads": values.num_attention_heads,
        "d_ff": values.intermediate_size,
        "activation": activation_of(values.hidden_act, where=str(path)),
        "norm_epsilon": values.layer_norm_eps,
        "dropout": values.hidden_dropout_prob,
        "attention_dropout": values.attention_probs_dropout_prob,
        "max_positions": values.max_position_embeddings,
        "segments": values.type_vocab_size,
        "pooler": pooler,
    }
    is_mlm, is_score = head.task == "mlm", kind == SEQUENCE and len(values.labels) == 1
    data: dict[str, Any] = {"score": "score"} if is_score else {}
    if is_mlm:
        data = {"sentence_pairs": "nsp" if next_sentence else "none"}
    elif head.task == "tag":
        data = {"scheme": "iob2" if are_iob2(values.labels) else "none"}
    elif head.task == "span":
        data = {"stride": min(STRIDE, values.max_position_embeddings // 4)}
    return Architecture(
        keys | (read_pooling(folder) if head.task == "embed" else {}),
        values.max_position_embeddings,
        values.vocab_size,
        head.table,
        copies=TIED if is_mlm else frozenset(),
        task="match" if is_score else head.task,
        data=data,
        rows=(TOKENS, WORD_BIAS) if is_mlm else (TOKENS,),
        files=_score_files() if is_score else _label_files(values, path) if head.labelled else {},
        framed=True,
    )


def _score_files() -> dict[str, str]:
    """A mean of 0: where the scores of a new model would begin, and this one is not new."""
    return {MatchScore.FILES[1]: json.dumps({MEAN: 0.0})}


def _label_files(values: BertConfig, path: Path) -> dict[str, str]:
    """The names of the classes, as a run keeps them."""
    labels = values.labels
    if values.id2label is not None and sorted(values.id2label) != list(range(len(labels))):
        raise UserError(f"{path}: id2label does not number its classes 0, 1, 2, …")
    if len(set(labels)) != len(labels):
        raise UserError(f"{path}: id2label has the same class twice: {_twice(labels)!r}.")
    return {"labels.json": json.dumps(labels, ensure_ascii=False, indent=1)}


def _twice(labels: list[str]) -> Any:
    return next(label for label in labels if labels.count(label) > 1)
