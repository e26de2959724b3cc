"""The keys of training and of decoding: how a model learns, and how it generates."""

import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from regard.config.metrics import SELECTABLE
from regard.config.section import Section, unusable

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[SELECTABLE]


class Train(Section):
    """How a model is trained."""

    steps: int | None = Field(
        None, ge=1, le=10**9, description="how many updates to make; or give epochs"
    )
    epochs: int | None = Field(
        None, ge=1, le=10**6, description="how many passes over the training data to make"
    )
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="size of a batch: rows × longest line, with padding; or give batch_size",
    )
    batch_size: int | None = Field(None, ge=1, description="size of a batch in rows")
    accumulate: int = Field(1, ge=1, le=10_000, description="how many batches make one update")
    shares: int = Field(
        1,
        ge=1,
        le=64,
        description="divide each batch into this many shares, computed side by side in threads of "
        "a CPU; faster for a Transformer; dropout depends on it",
    )
    lr: float = Field(
        1e-3,
        gt=0,
        le=1_000,
        description="the highest learning rate; for noam, a factor on the paper's",
    )
    lr_scale: str = Field(
        "",
        description="factors on the learning rate by part of the model, such as "
        "'encoder=0.1, output=2'; parts are prefixes of weight names",
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="factor on the learning rate for every layer of a body below the heads; its "
        "embeddings learn slowest",
    )
    reinit_layers: int = Field(
        0,
        ge=0,
        le=1_000,
        description="with --init: how many of the top layers of a body begin from the seed, and "
        "not with the weights of the other run",
    )
    freeze: str = Field(
        "",
        description="parts of the model that do not learn, such as 'encoder, source_embedding'",
    )
    schedule: Literal["noam", "inverse-sqrt", "cosine", "linear", "constant"] = Field(
        "inverse-sqrt",
        description="how the learning rate changes; all schedules begin with a warm-up",
    )
    cycles: int = Field(
        1, ge=1, le=1_000, description="how often the cosine schedule comes down to 0"
    )
    warmup: int = Field(
        400, ge=0, le=10**9, description="updates over which the learning rate rises"
    )
    optimizer: Literal["adam", "adamw", "muon"] = Field(
        "adam",
        description="Adam(0.9, 0.98, 1e-9), AdamW (decoupled weight decay), or Muon "
        "(orthogonal steps for matrices)",
    )
    weight_decay: float = Field(
        0.0, ge=0, description="weight decay of AdamW and Muon, for matrices only"
    )
    clip: float = Field(1.0, ge=0, description="the largest gradient norm; 0 does not clip")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="label smoothing ε, spread over all C classes as ε/C"
    )
    r_drop: float = Field(
        0.0,
        ge=0,
        le=1_000,
        description="α of R-Drop: each batch is run twice with different dropout, and α/2 times "
        "the divergence of the two is added to their mean loss; for task=translate",
    )
    contrastive: bool = Field(
        False,
        description="for few labels: the body learns that texts of one class are alike and others "
        "are not, by the cosines of all pairs in a batch, and the head alone learns the classes",
    )
    teacher_forcing: float = Field(
        1.0,
        ge=0,
        le=1,
        description="probability that a recurrent decoder is given the true last token in training",
    )
    eval_every: int = Field(500, ge=1, description="evaluate on valid every so many updates")
    save_every: int = Field(500, ge=1, description="save a checkpoint every so many updates")
    keep: int = Field(2, ge=1, description="how many of the newest checkpoints to keep")
    average: int = Field(
        1,
        ge=1,
        le=1_000,
        description="average the weights of this many evaluations when training ends",
    )
    average_of: Literal["last", "best"] = Field(
        "last", description="which evaluations to average: the last ones or the best ones"
    )
    ema: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="β of a moving average of the weights, which is evaluated and saved in their "
        "place; 0 for none",
    )
    patience: int | None = Field(
        None, ge=1, description="stop after this many evaluations without improvement"
    )
    metric: MetricName = Field("loss", description="the metric that decides which weights are best")

    @model_validator(mode="after")
    def _one_of_each_pair(self) -> "Train":
        for first, second in (("steps", "epochs"), ("batch_tokens", "batch_size")):
            if (getattr(self, first) is None) == (getattr(self, second) is None):
                raise ValueError(f"give {first} or {second}, and only one of them")
        if self.weight_decay and self.optimizer == "adam":
            raise ValueError("weight_decay needs optimizer=adamw or muon")
        if self.cycles > 1 and self.schedule != "cosine":
            raise ValueError(f"cycles={self.cycles} needs schedule=cosine, not {self.schedule}")
        return self

    @model_validator(mode="after")
    def _factors_are_numbers(self) -> "Train":
        _ = self.lr_scales
        return self

    @property
    def lr_scales(self) -> dict[str, float]:
        """The factors of lr_scale, by part of the model."""
        factors: dict[str, float] = {}
        for entry in _entries(self.lr_scale):
            part, _, text = (word.strip() for word in entry.partition("="))
            try:
                factor = float(text)
            except ValueError:
                factor = math.nan
            if not part or not 0 < factor < math.inf:
                raise ValueError(
                    f"lr_scale: {entry!r} is not a part and a factor above 0, as in encoder=0.1"
                )
            if part in factors:
                raise ValueError(f"lr_scale gives {part!r} two factors")
            factors[part] = factor
        return factors

    @property
    def frozen(self) -> list[str]:
        """The parts of the model that do not learn."""
        return _entries(self.freeze)


def _entries(text: str) -> list[str]:
    """What stands between commas."""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


Strategy = Literal[
    "greedy", "sample", "best-of", "beam", "diverse-beam", "beam-sample", "contrastive"
]


class Decode(Section):
    """How outputs are generated."""

    strategy: Strategy = Field(
        "greedy",
        description="take the most probable token each time (greedy), sample tokens by their "
        "probability (sample) and keep the best of several samples (best-of), search for the most "
        "probable sequences (beam), in groups that differ (diverse-beam) or with sampled "
        "candidates (beam-sample), or avoid hidden states that were there before (contrastive)",
    )
    beam: int = Field(4, ge=1, le=1_000, description="hypotheses kept per line by beam search")
    length_penalty: float = Field(
        0.6,
        ge=0,
        le=10,
        description="α of the length penalty ((5 + length) / 6)^α, which divides log-probabilities "
        "in beam search; a larger α favours longer outputs",
    )
    early_stopping: bool = Field(
        False,
        description="end beam search of a line when as many hypotheses as the beam have ended, "
        "even if one that goes on could still be better",
    )
    beam_groups: int = Field(
        2,
        ge=1,
        le=1_000,
        description="groups of diverse beam search, of equal size; each avoids the tokens of those "
        "before it",
    )
    diversity: float = Field(
        0.5,
        ge=0,
        le=1_000,
        description="λ of diverse beam search: what a token loses in log-probability for every "
        "time an earlier group has taken it in the same place",
    )
    contrast: float = Field(
        0.6,
        ge=0,
        le=1,
        description="α of contrastive search: how much a hidden state like an earlier one counts "
        "against a token; 0 is greedy",
    )
    candidates: int = Field(
        4,
        ge=1,
        le=1_000,
        description="how many of the most probable tokens contrastive search chooses among",
    )
    best_of: int = Field(
        8,
        ge=1,
        le=1_000,
        description="how many samples strategy=best-of makes, to keep the most probable ones",
    )
    n_best: int = Field(
        1,
        ge=1,
        description="how many outputs per line, separated by tabs; at most beam, or best_of",
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
    repetition_penalty: float = Field(
        1.0,
        gt=0,
        le=100,
        description="divide the positive logits of tokens that the prompt or the output has by "
        "this, and multiply the negative ones; above 1, repetition becomes less likely",
    )
    presence_penalty: float = Field(
        0.0,
        ge=0,
        le=100,
        description="subtract this from the logits of tokens that the prompt or the output has",
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
    typical: float = Field(
        1.0,
        gt=0,
        le=1,
        description="sample from the fewest tokens whose probabilities add up to this, of those "
        "about as surprising as tokens are here on average",
    )
    epsilon: float = Field(
        0.0, ge=0, lt=1, description="keep tokens with at least this probability"
    )
    eta: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="keep tokens with at least this probability, or with less where the next token "
        "is uncertain",
    )
    top_n_sigma: float = Field(
        0.0,
        ge=0,
        le=1_000,
        description="keep tokens whose logit is at most this many standard deviations below the "
        "largest; 0 for all",
    )
    seed: int = Field(0, ge=0, lt=2**31, description="random seed for sampling")
    cut_prompt: bool = Field(
        False,
        description="read only the last tokens of a prompt that is longer than the context of a "
        "GPT (data.max_length); otherwise it is refused",
    )
    speculate: int = Field(
        0,
        ge=0,
        le=64,
        description="guess this many tokens ahead, from what the text already has or with --draft, "
        "and check them in one step of a GPT; the output stays the same",
    )

    @field_validator("temperature", mode="before")
    @classmethod
    def _above_zero(cls, value: Any) -> Any:
        if value in (0, "0"):
            raise unusable(
                "logits cannot be divided by 0; strategy=greedy takes the most probable token"
            )
        return value

    @model_validator(mode="after")
    def _least_below_most(self) -> "Decode":
        if 0 < self.max_length_ratio < self.min_length_ratio:
            raise ValueError(
                f"min_length_ratio={self.min_length_ratio:g} is more than "
                f"max_length_ratio={self.max_length_ratio:g}"
            )
        return self

    @model_validator(mode="after")
    def _no_more_than_are_kept(self) -> "Decode":
        kept = self.most_outputs
        if self.n_best > kept:
            raise ValueError(
                f"n_best={self.n_best} is more than the {kept} that {self.strategy} keeps"
            )
        if self.strategy == "diverse-beam" and self.beam % self.beam_groups:
            raise ValueError(
                f"beam={self.beam} does not divide into beam_groups={self.beam_groups} groups of "
                f"equal size"
            )
        return self

    @property
    def most_outputs(self) -> int:
        """How many outputs per line the strategy can keep."""
        if self.strategy in ("greedy", "contrastive"):
            return 1
        return {"sample": 1_000, "best-of": self.best_of}.get(self.strategy, self.beam)
