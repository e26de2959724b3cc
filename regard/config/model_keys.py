"""The keys of models: what is trained."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from regard.config.section import Section, listed
from regard.config.sizes import OF_KIND, SIZES

if TYPE_CHECKING:
    SizeName = str
else:
    SizeName = Literal["", *SIZES]

RECURRENT = ("rnn", "gru", "lstm")
"""The kinds of model that carry a state from token to token."""
BLOCKS = ("transformer", "gpt", "bert")
"""The kinds of model that are stacks of blocks."""
MOST_WIDTH = 64
"""The most words that a filter of kind=cnn looks at."""


class Model(Section):
    """What is trained."""

    kind: Literal["transformer", "gpt", "bert", "rnn", "gru", "lstm", "cnn", "bag"] = Field(
        "transformer",
        description="the Transformer, a GPT (its decoder alone), a BERT (its encoder alone; both "
        "have the parts of GPT-2 and of BERT where a key is not set), recurrent layers of these "
        "cells, convolutions over words (cnn), or a bag of words (bag)",
    )
    size: SizeName = Field(
        "",
        description="a named size of a GPT or BERT, which stands for its layers, heads, widths and "
        "parts; keys that are set beside it win",
    )
    d_model: int = Field(64, ge=1, le=65_536, description="D: the width of the model")
    n_layers: int = Field(
        2,
        ge=1,
        le=1_000,
        description="layers; of the encoder and of the decoder, where there are both",
    )
    decoder_layers: int | None = Field(
        None,
        ge=1,
        le=1_000,
        description="layers of a Transformer's decoder, if different from n_layers",
    )
    n_heads: int = Field(
        4,
        ge=1,
        le=1_024,
        description="H: heads of a Transformer; must divide d_model, unless d_head is given",
    )
    n_kv_heads: int | None = Field(
        None,
        ge=1,
        le=1_024,
        description="heads of keys and values, if fewer than n_heads (grouped-query attention); "
        "must divide n_heads",
    )
    d_head: int | None = Field(
        None, ge=1, le=65_536, description="K: the width of a head, if not d_model / n_heads"
    )
    qk_norm: bool = Field(
        False, description="a norm on the queries and keys of every head of a Transformer"
    )
    window: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="how many positions a Transformer's decoder looks back at, its own included; "
        "null: all",
    )
    d_ff: int = Field(
        256, ge=1, le=1_000_000, description="F: the width of a Transformer's feed-forward network"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="on embeddings and on every sub-layer or recurrent layer"
    )
    attention_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="on a Transformer's attention weights; above 0 a CPU uses a slower kernel",
    )
    feed_forward_dropout: float = Field(
        0.0, ge=0, lt=1, description="on the hidden numbers of a Transformer's feed-forward network"
    )
    attention: Literal["none", "bahdanau", "luong-dot", "luong-general", "luong-concat"] = Field(
        "bahdanau", description="how a recurrent decoder looks at the source"
    )
    bridge: bool = Field(
        True,
        description="a layer between a recurrent encoder's last state and the decoder's first",
    )
    output_bias: bool = Field(
        False, description="a bias on the logits of a recurrent encoder-decoder"
    )
    bidirectional: bool = Field(
        True, description="a recurrent encoder or classifier reads both ways"
    )
    pooling: Literal["final", "mean", "max", "attention", "cls"] = Field(
        "final",
        description="what a classifier looks at, or what the vector of a text is: the last state "
        "(or BERT's pooler, or the summary of cnn and bag), all states, or that of the first token "
        "(cls)",
    )
    normalize: bool = Field(
        True,
        description="the vector of a text is divided by its length, so that a dot product of "
        "two is their cosine",
    )
    crf: bool = Field(
        False,
        description="a tagger learns which tags follow which, and scores whole sequences of them: "
        "a conditional random field",
    )
    filters: int = Field(
        100, ge=1, le=65_536, description="how many filters of each width kind=cnn has"
    )
    filter_widths: str = Field(
        "3, 4, 5", description="how many neighbouring words the filters of kind=cnn look at"
    )
    bag: Literal["counts", "presence"] = Field(
        "presence", description="whether a word that a text repeats counts each time, or once"
    )
    bigrams: int = Field(
        0,
        ge=0,
        le=100_000_000,
        description="rows for pairs of neighbouring words in kind=bag, which share them by a hash; "
        "0: single words alone",
    )
    recurrent_init: Literal["orthogonal", "uniform"] = Field(
        "orthogonal", description="how recurrent weights begin; uniform is torch's default"
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each sub-layer, or after its sum as in the paper"
    )
    norm_kind: Literal["layer", "rms"] = Field(
        "layer", description="layer norm, or RMS norm, which divides by the size alone"
    )
    norm_epsilon: float = Field(
        1e-5, gt=0, le=1, description="ε of a Transformer's norms: added before the square root"
    )
    positions: Literal["sinusoidal", "learned", "rotary", "none"] = Field(
        "sinusoidal",
        description="fixed waves, a trained vector per position, queries and keys rotated by "
        "their position, or none",
    )
    max_positions: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="how many learned positions a BERT has, if not data.max_length",
    )
    segments: int = Field(
        0,
        ge=0,
        le=64,
        description="how many texts a BERT tells apart in one row, by a vector of their own; 0: "
        "none",
    )
    embedding_norm: bool = Field(
        False, description="a norm after the sum of the embeddings of a BERT"
    )
    pooler: bool = Field(
        False,
        description="tanh(W h + b) of its first hidden state is what a BERT has for the whole text",
    )
    rotary_base: float = Field(
        10_000.0,
        gt=1,
        le=1e12,
        description="how slowly the last pair of rotary positions turns: larger is slower",
    )
    rotary_pairing: Literal["half", "interleaved"] = Field(
        "half",
        description="which dimensions rotary positions pair: half a head apart, or neighbours",
    )
    scaled_embedding: bool = Field(
        True, description="a Transformer's token embeddings are multiplied by √D"
    )
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "squared-relu"] = Field(
        "relu", description="activation of the feed-forward network"
    )
    gated: bool = Field(
        False,
        description="a gate in the feed-forward network, with weights of its own; with "
        "activation=silu this is SwiGLU",
    )
    bias: bool = Field(True, description="biases in a Transformer's linear layers and norms")
    tie_embeddings: Literal["none", "output", "all"] = Field(
        "all",
        description="one weight for the output and the target embedding (output), and for the "
        "source embedding too (all); true and false mean all and none",
    )
    zero_init: bool = Field(
        False,
        description="the last projection of every sub-layer of a GPT begins with zeros, so that "
        "each block begins by changing nothing",
    )
    cell: Literal["fast", "reference"] = Field(
        "fast", description="fused kernels, or every formula written out; the same numbers"
    )

    @model_validator(mode="before")
    @classmethod
    def _parts_of_the_kind_and_size(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        size = values.get("size")
        sized = (SIZES.get(size, {}) if isinstance(size, str) else {}) | values
        kind = sized.get("kind")
        return (OF_KIND.get(kind, {}) if isinstance(kind, str) else {}) | sized

    @property
    def recurrent(self) -> bool:
        """Whether it carries a state from token to token."""
        return self.kind in RECURRENT

    @property
    def framed(self) -> bool:
        """Whether an encoder of this kind reads `<s> text </s>`, as BERT its [CLS] and [SEP]."""
        return self.kind in ("bert", "transformer")

    @property
    def widths_of_filters(self) -> tuple[int, ...]:
        """The widths that filter_widths names."""
        widths = [word.strip() for word in self.filter_widths.split(",")]
        if not all(word.isdecimal() and 0 < int(word) <= MOST_WIDTH for word in widths):
            raise ValueError(
                f"filter_widths={self.filter_widths!r} is not a list of numbers from 1 to "
                f"{MOST_WIDTH}, as in '3, 4, 5'"
            )
        return tuple(map(int, widths))

    @model_validator(mode="after")
    def _widths_are_numbers(self) -> "Model":
        _ = self.widths_of_filters
        return self

    @field_validator("tie_embeddings", mode="before")
    @classmethod
    def _yes_or_no(cls, value: Any) -> Any:
        words = {"true": "all", "yes": "all", "on": "all"} | {
            "false": "none",
            "no": "none",
            "off": "none",
        }
        is_word = isinstance(value, bool | str)
        return words.get(str(value).lower(), value) if is_word else value

    @model_validator(mode="after")
    def _heads_fit(self) -> "Model":
        if self.kind not in BLOCKS:
            return self
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}; "
                f"it may be {listed(str(n) for n in range(1, 65) if self.d_model % n == 0)}"
            )
        if self.n_kv_heads is not None and self.n_heads % self.n_kv_heads:
            divisors = (n for n in range(1, self.n_heads + 1) if self.n_heads % n == 0)
            raise ValueError(
                f"n_kv_heads={self.n_kv_heads} does not divide n_heads={self.n_heads}; "
                f"it may be {listed(str(n) for n in divisors)}"
            )
        width = self.d_model // self.n_heads if self.d_head is None else self.d_head
        if self.positions == "rotary" and width % 2:
            origin = f"d_model={self.d_model} / n_heads={self.n_heads} = {width}"
            raise ValueError(
                f"positions=rotary rotates pairs of dimensions, and "
                f"{origin if self.d_head is None else f'd_head={width}'} is odd"
            )
        return self
