"""The keys of models: what is trained."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from regard.config.section import Section, listed


class Model(Section):
    """What is trained."""

    kind: Literal["transformer", "rnn", "gru", "lstm"] = Field(
        "transformer", description="the Transformer, or recurrent layers of these cells"
    )
    d_model: int = Field(64, ge=1, le=65_536, description="D: the width of the model")
    n_layers: int = Field(
        2,
        ge=1,
        le=1_000,
        description="layers; of the encoder and of the decoder, where there are both",
    )
    decoder_layers: int | None = Field(
        None, ge=1, le=1_000, description="of a Transformer's decoder, where it has not n_layers"
    )
    n_heads: int = Field(
        4, ge=1, le=1_024, description="H: heads of a Transformer; must divide d_model"
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
    attention: Literal["none", "bahdanau", "luong-dot", "luong-general", "luong-concat"] = Field(
        "bahdanau", description="how a recurrent decoder looks at the source"
    )
    bidirectional: bool = Field(
        True, description="a recurrent encoder or classifier reads both ways"
    )
    pooling: Literal["final", "mean", "max", "attention"] = Field(
        "final", description="what a classifier looks at: the last state, or all of them"
    )
    recurrent_init: Literal["orthogonal", "uniform"] = Field(
        "orthogonal", description="how recurrent weights begin; uniform is torch's default"
    )
    norm: Literal["pre", "post"] = Field(
        "pre", description="layer norm before each sub-layer, or after its sum as in the paper"
    )
    positions: Literal["sinusoidal", "learned", "rotary"] = Field(
        "sinusoidal",
        description="fixed waves, a trained vector a position, or queries and keys turned by it",
    )
    activation: Literal["relu", "gelu"] = Field("relu", description="of the feed-forward network")
    tie_embeddings: Literal["none", "output", "all"] = Field(
        "all",
        description="one weight for the output and the target embedding (output), and for the "
        "source embedding too (all); true and false mean all and none",
    )
    cell: Literal["fast", "reference"] = Field(
        "fast", description="fused kernels, or every formula written out; the same numbers"
    )

    @field_validator("tie_embeddings", mode="before")
    @classmethod
    def _yes_or_no(cls, value: Any) -> Any:
        return {True: "all", False: "none"}[value] if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _width_divides(self) -> "Model":
        if self.kind == "transformer" and self.d_model % self.n_heads:
            raise ValueError(
                f"n_heads={self.n_heads} does not divide d_model={self.d_model}; "
                f"it may be {listed(str(n) for n in range(1, 65) if self.d_model % n == 0)}"
            )
        width = self.d_model // self.n_heads
        if self.kind == "transformer" and self.positions == "rotary" and width % 2:
            raise ValueError(
                f"positions=rotary turns pairs of numbers, and d_model={self.d_model} with "
                f"n_heads={self.n_heads} gives heads of {width}, which is odd"
            )
        return self
