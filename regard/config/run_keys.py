"""The keys of training and of decoding: how a model learns, and how it writes."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from regard.config.metrics import SELECTABLE
from regard.config.section import Section

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[SELECTABLE]


class Train(Section):
    """How it is trained."""

    steps: int | None = Field(None, ge=1, le=10**9, description="updates to make; or give epochs")
    epochs: int | None = Field(None, ge=1, le=10**6, description="passes over the training data")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="rows × longest line of a batch, padding counted; or give batch_size",
    )
    batch_size: int | None = Field(None, ge=1, description="rows of a batch")
    accumulate: int = Field(
        1, ge=1, le=10_000, description="batches whose gradients make one update"
    )
    shares: int = Field(
        1,
        ge=1,
        le=64,
        description="parts of a batch that a CPU computes side by side, a thread each; it pays for "
        "a Transformer, and what dropout draws depends on it",
    )
    lr: float = Field(
        1e-3,
        gt=0,
        le=1_000,
        description="the highest learning rate; for noam, a factor on the paper's",
    )
    schedule: Literal["noam", "inverse-sqrt", "cosine", "linear", "constant"] = Field(
        "inverse-sqrt", description="how the learning rate changes; all begin with a warm-up"
    )
    cycles: int = Field(
        1, ge=1, le=1_000, description="of the cosine schedule: how often it comes down to 0"
    )
    warmup: int = Field(
        400, ge=0, le=10**9, description="updates over which the learning rate rises"
    )
    optimizer: Literal["adam", "adamw", "muon"] = Field(
        "adam",
        description="Adam(0.9, 0.98, 1e-9), AdamW with decoupled weight decay, or Muon, which "
        "makes the steps of matrices orthogonal",
    )
    weight_decay: float = Field(0.0, ge=0, description="of AdamW and Muon, on matrices alone")
    clip: float = Field(1.0, ge=0, description="the largest gradient norm; 0 does not clip")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="ε: spread over all C classes as ε/C"
    )
    r_drop: float = Field(
        0.0,
        ge=0,
        le=1_000,
        description="α of R-Drop: each batch is read twice, and α/2 times what the two readings "
        "differ is added to their mean loss; translate alone",
    )
    teacher_forcing: float = Field(
        1.0,
        ge=0,
        le=1,
        description="how often a recurrent decoder is trained on the true last token",
    )
    eval_every: int = Field(500, ge=1, description="updates between evaluations on valid")
    save_every: int = Field(500, ge=1, description="updates between checkpoints")
    keep: int = Field(2, ge=1, description="how many checkpoints to keep, the newest")
    average: int = Field(
        1, ge=1, le=1_000, description="evaluations whose weights are averaged when training ends"
    )
    average_of: Literal["last", "best"] = Field(
        "last", description="which evaluations: the last ones, or the best ones"
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="β of a moving average of the weights, which is evaluated and kept in their "
        "place; 0 for none",
    )
    patience: int | None = Field(
        None, ge=1, description="stop after so many evaluations without a better score"
    )
    metric: MetricName = Field("loss", description="the score that says which weights are best")

    @model_validator(mode="after")
    def _one_of_each_pair(self) -> "Train":
        for one, other in (("steps", "epochs"), ("batch_tokens", "batch_size")):
            if (getattr(self, one) is None) == (getattr(self, other) is None):
                raise ValueError(f"give {one} or {other}, and only one of them")
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError("weight_decay needs optimizer=adamw or muon")
        if self.cycles > 1 and self.schedule != "cosine":
            raise ValueError(f"cycles are of schedule=cosine, and this is {self.schedule}")
        return self


class Decode(Section):
    """How sequences are found, given next-token scores."""

    strategy: Literal["greedy", "beam", "sample"] = Field(
        "greedy",
        description="the best token each time, the best sequences of a beam, or tokens drawn by "
        "their probability",
    )
    beam: int = Field(4, ge=1, le=1_000, description="hypotheses kept for each line by beam search")
    length_penalty: float = Field(
        0.6, ge=0, le=10, description="α of ((5 + length) / 6)^α, which divides log-probabilities"
    )
    n_best: int = Field(1, ge=1, description="hypotheses given back for each line; at most beam")
    max_new_tokens: int = Field(
        64, ge=1, le=100_000, description="where to stop a line that does not end"
    )
    min_length_ratio: float = Field(
        0.0, ge=0, le=100, description="the fewest tokens of an output, for each of its source"
    )
    max_length_ratio: float = Field(
        0.0, ge=0, le=1_000, description="the most, after which it must end; 0 for no such limit"
    )
    no_repeat_ngram: int = Field(
        0, ge=0, le=1_000, description="no stretch of so many tokens is written twice; 0 allows it"
    )
    temperature: float = Field(
        1.0, gt=0, le=100, description="of sampling: below 1 the likely tokens become likelier"
    )
    top_k: int = Field(0, ge=0, description="draw from so many of the best tokens; 0 from all")
    top_p: float = Field(
        1.0, gt=0, le=1, description="draw from the fewest tokens that have this much probability"
    )
    min_p: float = Field(
        0.0, ge=0, le=1, description="draw from tokens at least so likely, as a share of the best"
    )
    seed: int = Field(0, ge=0, lt=2**31, description="of what is drawn")

    @model_validator(mode="after")
    def _least_below_most(self) -> "Decode":
        if 0 < self.max_length_ratio < self.min_length_ratio:
            raise ValueError(
                f"min_length_ratio={self.min_length_ratio:g} is more than "
                f"max_length_ratio={self.max_length_ratio:g}"
            )
        return self

    @model_validator(mode="after")
    def _no_more_than_the_beam(self) -> "Decode":
        kept = {"greedy": 1, "beam": self.beam, "sample": 1_000}[self.strategy]
        if self.n_best > kept:
            raise ValueError(
                f"n_best={self.n_best} is more than the {kept} that {self.strategy} keeps"
            )
        return self
