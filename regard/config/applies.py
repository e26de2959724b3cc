"""Which keys do something only beside certain values of others, and the refusal of the rest.

A key that a person sets and that nothing reads is a mistake: it is refused, with the reason. A
built-in recipe may have keys for several kinds of model, and the file of a run has every key.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from regard.config.data_keys import ENDLESS, GENERATORS, INSTALLED, Data, Tokenization
from regard.config.faults import shown
from regard.config.keys import Config
from regard.config.model_keys import BLOCKS as BLOCK_KINDS
from regard.config.model_keys import RECURRENT as RECURRENT_KINDS
from regard.config.model_keys import Model
from regard.config.run_keys import Decode, Train
from regard.config.section import Section, listed
from regard.system.errors import UserError

Values = dict[str, Any]
"""The values of a configuration by section and key; what is absent has its default."""
Chosen = Callable[[str], Any]
"""section.key -> the value that it has."""

SECTIONS: dict[str, type[Section]] = {
    "data": Data,
    "tokenizer": Tokenization,
    "model": Model,
    "train": Train,
    "decode": Decode,
}


@dataclass(frozen=True)
class Need:
    """What must hold for a key to do something."""

    holds: Callable[[Chosen], bool]
    words: str
    """What the key is for."""
    instead: Callable[[Chosen], str]
    """What there is in its place."""


def one_of(key: str, *values: str) -> Need:
    """Another key has one of these values."""
    return Need(
        lambda chosen: chosen(key) in values,
        f"{key}={listed(values)}",
        lambda chosen: f"{key}={_plain(chosen(key))}",
    )


def _plain(value: object) -> str:
    """A value without quotes, unless it needs them."""
    return value if isinstance(value, str) and value.isidentifier() else shown(value)


def _splits(chosen: Chosen) -> list[str]:
    return [name for split in ("train", "valid", "test") if (name := chosen(f"data.{split}"))]


def _generators(chosen: Chosen) -> str:
    names = dict.fromkeys(name for name in _splits(chosen) if name in GENERATORS)
    return f"the generator {listed(names)}" if names else "files"


def _named(chosen: Chosen) -> str:
    texts = dict.fromkeys(name for name in _splits(chosen) if name in INSTALLED)
    return f"the installed text {listed(texts)}" if texts else _generators(chosen)


TRANSLATE = one_of("task", "translate")
CLASSIFY = one_of("task", "classify")
MATCH = one_of("task", "match")
READS = one_of("task", "classify", "match")
TAG = one_of("task", "tag")
SPAN = one_of("task", "span")
NO_ANSWER = Need(
    lambda chosen: bool(chosen("data.no_answer")),
    "data.no_answer=true",
    lambda _: "data.no_answer=false",
)
LM = one_of("task", "lm")
EMBED = one_of("task", "embed")
POOLS = one_of("task", "classify", "match", "embed")
MLM = one_of("task", "mlm")
RUNNING_TEXT = one_of("task", "lm", "mlm")
ONE_TEXT = one_of("task", "classify", "match", "lm", "mlm")
LABELLED = one_of("task", "classify", "match", "lm")
GENERATES = one_of("task", "translate", "lm")
PAIRS = one_of("task", "translate", "classify", "match")
ENCODES = one_of("task", "translate", "classify", "match", "tag")
TRANSFORMER = one_of("model.kind", "transformer")
GPT = one_of("model.kind", "gpt")
BERT = one_of("model.kind", "bert")
SIZED = one_of("model.kind", "gpt", "bert")
BLOCKS = one_of("model.kind", *BLOCK_KINDS)
CNN = one_of("model.kind", "cnn")
BAG = one_of("model.kind", "bag")
RECURRENT = one_of("model.kind", *RECURRENT_KINDS)
ROTARY = one_of("model.positions", "rotary")
AVERAGED = Need(
    lambda chosen: chosen("train.average") != 1,
    "the average of several evaluations",
    lambda _: "train.average=1",
)
INIT = Need(
    lambda chosen: bool(chosen("init")),
    "training that begins with the weights of another run",
    lambda _: "new weights: there is no --init",
)
FILES = Need(
    lambda chosen: any(name not in GENERATORS for name in _splits(chosen)),
    "data that is read from files",
    _generators,
)
DIRECTORY = Need(
    lambda chosen: any(name not in (*GENERATORS, *INSTALLED) for name in _splits(chosen)),
    FILES.words,
    lambda chosen: f"{_named(chosen)}, which needs no directory",
)
COLUMNS = Need(
    lambda chosen: (
        "numbers" in _splits(chosen) or (chosen("task") == "translate" and FILES.holds(chosen))
    ),
    "task=translate with files, and for the generator numbers",
    lambda chosen: f"task={chosen('task')} with {_generators(chosen)}",
)
SPLIT_BY_HASH = Need(
    lambda chosen: (
        bool(chosen("data.held_out")) or any(name in GENERATORS for name in _splits(chosen))
    ),
    "generators, and for files with data.held_out",
    lambda _: "files that are split already",
)
NEW_EXAMPLES = one_of("data.train", *ENDLESS)

NEEDS: dict[str, tuple[Need, ...]] = {
    "data.directory": (DIRECTORY,),
    "data.source": (COLUMNS,),
    "data.target": (COLUMNS,),
    "data.source_language": (TRANSLATE,),
    "data.target_language": (TRANSLATE,),
    "data.scores": (TRANSLATE,),
    "data.text": (ONE_TEXT, FILES),
    "data.documents": (RUNNING_TEXT, FILES),
    **dict.fromkeys(("data.sentence_pairs", "data.mask_rate", "data.whole_words"), (MLM,)),
    "data.document_mask": (LM, GPT),
    "data.label": (LABELLED, FILES),
    **dict.fromkeys(
        (
            "data.context",
            "data.question",
            "data.answers",
            "data.stride",
            "data.max_answer_length",
            "data.no_answer",
        ),
        (SPAN,),
    ),
    "data.text_pair": (READS, FILES),
    "data.too_long": (READS, FILES),
    "data.score": (MATCH, FILES),
    "data.null_threshold": (SPAN, NO_ANSWER),
    **dict.fromkeys(("data.words", "data.tags", "data.scheme", "data.unit"), (TAG,)),
    "data.epoch_size": (NEW_EXAMPLES,),
    "data.fresh": (NEW_EXAMPLES, PAIRS),
    "data.split_seed": (SPLIT_BY_HASH,),
    "tokenizer.target_kind": (TRANSLATE,),
    "tokenizer.joint": (TRANSLATE,),
    "tokenizer.dropout": (PAIRS,),
    "model.decoder_layers": (TRANSFORMER,),
    "model.size": (SIZED,),
    **dict.fromkeys(
        ("model.max_positions", "model.segments", "model.embedding_norm", "model.pooler"), (BERT,)
    ),
    "model.zero_init": (GPT,),
    **dict.fromkeys(
        (
            "model.n_heads",
            "model.n_kv_heads",
            "model.d_head",
            "model.qk_norm",
            "model.window",
            "model.d_ff",
            "model.attention_dropout",
            "model.feed_forward_dropout",
            "model.norm",
            "model.norm_kind",
            "model.norm_epsilon",
            "model.positions",
            "model.scaled_embedding",
            "model.activation",
            "model.gated",
            "model.bias",
        ),
        (BLOCKS,),
    ),
    "model.rotary_base": (BLOCKS, ROTARY),
    "model.rotary_pairing": (BLOCKS, ROTARY),
    "model.attention": (TRANSLATE, RECURRENT),
    "model.bridge": (TRANSLATE, RECURRENT),
    "model.output_bias": (TRANSLATE, RECURRENT),
    "model.bidirectional": (ENCODES, RECURRENT),
    "model.crf": (TAG,),
    "model.pooling": (POOLS,),
    "model.normalize": (EMBED,),
    "model.filters": (CNN,),
    "model.filter_widths": (CNN,),
    "model.bag": (BAG,),
    "model.bigrams": (BAG,),
    "model.recurrent_init": (RECURRENT,),
    "model.tie_embeddings": (GENERATES,),
    "train.teacher_forcing": (TRANSLATE, RECURRENT),
    "train.layer_decay": (BLOCKS,),
    "train.reinit_layers": (BLOCKS, INIT),
    "train.contrastive": (CLASSIFY, BLOCKS),
    "train.average_of": (AVERAGED,),
    **{f"decode.{key}": (GENERATES,) for key in Decode.model_fields},
    "decode.cut_prompt": (GPT,),
    "decode.speculate": (GPT,),
}
"""Every key that not all configurations use, and what it needs: all of it."""


def refuse_idle(
    config: Config, keys: Iterable[str], *, where: str, written: Values | None = None
) -> None:
    """Refuse the first of these keys, which a person set, that does nothing in a configuration.

    written: the values that stand together in the person's file, if the keys are from there: one
    that does something among those may stay, where a setting on the command line makes it idle.
    """
    values = config.model_dump()
    for key in keys:
        section, _, name = key.partition(".")
        if key not in NEEDS or not values.get(section):
            continue
        value = values[section][name]
        if value == SECTIONS[section].model_fields[name].default:
            continue
        need = unmet(key, values)
        if need is None or (written is not None and unmet(key, written) is None):
            continue
        raise UserError(
            f"{where}: {key}={shown(value)} would do nothing: it is for {need.words}, not for "
            f"{need.instead(_chosen(values))}. Leave it out."
        )


def unmet(key: str, values: Values) -> Need | None:
    """The first need of a key that these values do not meet."""
    chosen = _chosen(values)
    return next((need for need in NEEDS.get(key, ()) if not need.holds(chosen)), None)


def _chosen(values: Values) -> Chosen:
    def chosen(key: str) -> Any:
        section, dot, name = key.rpartition(".")
        if not dot:
            return values.get(name, Config.model_fields[name].default)
        keys = values.get(section)
        default = SECTIONS[section].model_fields[name].default
        return keys.get(name, default) if isinstance(keys, dict) else default

    return chosen


def keys_of(values: Values) -> list[str]:
    """The keys that values hold, as section.key."""
    return [
        f"{section}.{name}"
        for section, keys in values.items()
        if isinstance(keys, dict)
        for name in keys
    ]
