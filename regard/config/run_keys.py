"""The keys of training and of decoding: how a model learns, and how it generates."""

from typing import Literal

from pydantic import Field, model_validator

from regard.config.section import Section


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
    metric: Literal[
        "loss",
        "accuracy",
        "token_accuracy",
        "exact_match",
        "wer",
        "per",
        "bleu",
        "bleu_lc",
        "chrf",
        "ter",
    ] = Field("loss", description="the score that says which weights are best")

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
    """How outputs are generated."""

    strategy: Literal["greedy", "beam", "sample"] = Field(
        "greedy",
        description="take the most probable token each time (greedy), search for the most probable "
        "sequences (beam), or sample tokens by their probability (sample)",
    )
    beam: int = Field(4, ge=1, le=1_000, description="hypotheses kept per line by beam search")
    length_penalty: float = Field(
        0.6,
        ge=0,
        le=10,
        description="α of the length penalty ((5 + length) / 6)^α, which divides log-probabilities "
        "in beam search; a larger α favours longer outputs",
    )
    n_best: int = Field(
        1, ge=1, description="how many outputs per line, separated by tabs; at most beam"
    )
    max_new_tokens: int = Field(
        64, ge=1, le=100_000, description="the most tokens to generate per line"
    )
    min_length_ratio: float = Field(
        0.0, ge=0, le=100, description="the fewest output tokens per source token"
    )
    max_length_ratio: float = Field(
        0.0, ge=0, le=1_000, description="the most output tokens per source token; 0 for no limit"
    )
    no_repeat_ngram: int = Field(
        0,
        ge=0,
        le=1_000,
        description="do not repeat any n-gram of this many tokens; 0 allows all",
    )
    temperature: float = Field(
        1.0,
        gt=0,
        le=100,
        description="divide logits by this before sampling; below 1, likely tokens become likelier",
    )
    top_k: int = Field(
        0, ge=0, description="sample from this many of the most probable tokens; 0 for all"
    )
    top_p: float = Field(
        1.0,
        gt=0,
        le=1,
        description="sample from the fewest tokens whose probabilities add up to this",
    )
    min_p: float = Field(
        0.0,
        ge=0,
        le=1,
        description="keep tokens with at least this fraction of the top probability",
    )
    seed: int = Field(0, ge=0, lt=2**31, description="random seed for sampling")

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
