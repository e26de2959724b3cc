"""Export of BERT to a Hugging Face folder, with the head of its task."""

from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from regard.config import Config, Model
from regard.pretrained.architecture import activation_named, refuse_export
from regard.pretrained.bert import HEADS
from regard.pretrained.hf_folder import WEIGHTS
from regard.pretrained.hf_tokenizer import write_json, write_tokenizer
from regard.pretrained.names import Tensors, to_theirs
from regard.pretrained.sentence_vectors import write_pooling
from regard.pretrained.wordpiece import SPECIAL, with_frame
from regard.system.errors import UserError
from regard.system.tensors import weights

UNPOOLED = ("BertForMaskedLM", "BertForTokenClassification", "BertForQuestionAnswering")
"""Architectures whose encoder has no pooler; its weights are left out."""


def export_bert(model: Any, task: Any, folder: Path) -> None:
    """Write a model on a BERT encoder, and its tokenizer, as transformers reads them."""
    config, tokenizer = task.config, task.tokenizer
    kind = architecture_of(config.task, model)
    _refuse_differences(config, kind)
    context = config.model.max_positions or config.data.max_length
    settings = {
        "architectures": [kind],
        "model_type": "bert",
        "vocab_size": len(tokenizer),
        "max_position_embeddings": context,
        "pad_token_id": tokenizer.padding,
        "dtype": "float32",
    }
    folder.mkdir(parents=True)
    save_file(weights_of(model, kind), folder / WEIGHTS, {"format": "pt"})
    write_json(folder / "config.json", settings | _sizes(config.model) | _labels(task, kind))
    write_tokenizer(
        folder,
        tokenizer,
        with_frame(tokenizer),
        names={ours: theirs for ours, (theirs, _) in SPECIAL.items()},
        context=context,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    if kind == "BertModel":
        write_pooling(folder, config.model)


def architecture_of(task: str, model: Any) -> str:
    """Which of transformers' classes has the head of a task."""
    if task == "mlm":
        return "BertForMaskedLM" if model.sentence_pair is None else "BertForPreTraining"
    for kind, head in HEADS.items():
        if head.task == task or (task, head.task) == ("match", "classify"):
            return kind
    raise UserError(f"--to hf: BERT has no head for task={task}.")


def weights_of(model: Any, kind: str) -> Tensors:
    """The weights under their names; a model without a head has no prefix."""
    ours, attention = weights(model), model.body.encoder.layers[0].self_attention
    if kind in UNPOOLED:
        ours = {name: value for name, value in ours.items() if ".pooler." not in name}
    theirs = to_theirs(ours, HEADS[kind].table, sizes=attention.projection.heights)
    if kind == "BertModel":
        return {name.removeprefix("bert."): value for name, value in theirs.items()}
    return theirs


def _sizes(model: Model) -> dict[str, Any]:
    return {
        "hidden_size": model.d_model,
        "num_hidden_layers": model.n_layers,
        "num_attention_heads": model.n_heads,
        "intermediate_size": model.d_ff,
        "hidden_act": activation_named(model.activation),
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "type_vocab_size": model.segments,
        "layer_norm_eps": model.norm_epsilon,
    }


def _labels(task: Any, kind: str) -> dict[str, Any]:
    """The names of the classes; one without a name where the output is a number."""
    if not HEADS[kind].labelled:
        return {}
    labels = getattr(task, "labels", None)
    if labels is None:
        return {"id2label": {0: "score"}, "label2id": {"score": 0}, "problem_type": "regression"}
    names = dict(enumerate(labels.names))
    return {"id2label": names, "label2id": {name: number for number, name in names.items()}}


def _refuse_differences(config: Config, kind: str) -> None:
    model = config.model
    pooled = kind in ("BertForPreTraining", "BertForSequenceClassification")
    refuse_export(
        "BERT",
        {
            f"positions={model.positions}": model.positions != "learned",
            f"norm={model.norm}": model.norm != "post",
            "norm_kind=rms": model.norm_kind == "rms",
            "gated=true": model.gated,
            "bias=false": not model.bias,
            "qk_norm=true": model.qk_norm,
            "n_kv_heads": model.n_kv_heads not in (None, model.n_heads),
            "d_head": model.d_head not in (None, model.d_model // model.n_heads),
            "scaled_embedding=true": model.scaled_embedding,
            "embedding_norm=false": not model.embedding_norm,
            "segments=0": model.segments == 0,
            "pooler=false": pooled and not model.pooler,
            f"pooling={model.pooling}": kind == "BertForSequenceClassification"
            and model.pooling != "final",
            "crf=true": model.crf and kind == "BertForTokenClassification",
        },
    )
