"""Embedder: lines to vectors, those of like length together, the vectors in order."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import padded
from regard.data.examples import Ids
from regard.data.frame import FRAME, framed
from regard.data.tokenizer import Tokenizer
from regard.models import RecurrentClassifier, TextEmbedder
from regard.models.text_embedder import POOLS, Encode, Pool, embed
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.memory import naming_the_batch
from regard.system.threads import side_by_side
from regard.tasks.generating import MAX_THREADS, listener
from regard.tasks.request import Counts, Refusal, Request, read_lines
from regard.tasks.task import Task

BATCH_TOKENS = 2048
"""The most tokens of a batch, padding counted; a single longer text is a batch by itself."""

OnLong = Literal["error", "cut", "windows"]
"""What becomes of a text that is too long: refused, its beginning read, or read in parts."""


@dataclass(frozen=True)
class Embedder:
    """What makes vectors of lines: an encoder, its tokenizer, and a pooling."""

    encode: Encode
    tokenizer: Tokenizer
    engine: Engine
    _: KW_ONLY
    width: int
    """D: how many numbers a vector has."""
    longest: int | float
    """How many tokens the encoder can read, [CLS] and [SEP] among them."""
    framed: bool
    """Whether it expects `[CLS] text [SEP]`."""
    pool: Pool = "mean"
    normalize: bool = True
    on_long: OnLong = "error"

    @property
    def room(self) -> int | float:
        """How many tokens of a text fit."""
        return self.longest - FRAME if self.framed else self.longest

    def read(
        self, lines: Sequence[str], *, name: str = "line", first: int = 0, skip: bool = False
    ) -> "ReadTexts":
        """The token ids of each line; those of a line that is left out are empty.

        name, first: what the lines are called in a message, and how many went before them.
        skip: a line that cannot be read is left out, and not an error.
        """
        on_bad_line: Literal["error", "skip"] = "skip" if skip else "error"
        request = Request(lines, Decode(), name=name, first=first, on_bad_line=on_bad_line)
        read = read_lines(request, self.tokenizer, self._refusal)
        texts = [read.ids.get(number, []) for number in range(len(lines))]
        if self.on_long == "cut" and self.room < math.inf:
            texts = [ids[: int(self.room)] for ids in texts]
        long = sum(len(ids) > self.room for ids in read.ids.values())
        return ReadTexts(texts, read.counts, read.refusals, long=long)

    def _refusal(self, line: str, ids: Ids) -> str | None:
        fault = why_too_long(ids, self.room)
        if fault is None or self.on_long != "error":
            return None
        return (
            f"{fault[:-1]}, or choose with --on-long: cut reads its beginning, windows all of it."
        )

    def vectors(self, texts: Sequence[Ids]) -> Float[np.ndarray, "N D"]:
        """The vector of each text; of one without tokens, zeros.

        A text that is too long is read in parts as long as fit: its vector is the mean of theirs,
        weighted by their tokens (for `max`, the largest values).
        """
        parts = [(number, part) for number, ids in enumerate(texts) for part in self._parts(ids)]
        of_parts = self._of_rows([self.row(part) for _, part in parts])  # P D
        numbers = torch.tensor([number for number, _ in parts], dtype=torch.int64)
        if len(parts) == len(numbers.unique()):
            vectors = torch.zeros(len(texts), self.width).index_copy_(0, numbers, of_parts)
        else:
            vectors = self._joined(of_parts, numbers, [len(part) for _, part in parts], len(texts))
        return (F.normalize(vectors, dim=-1) if self.normalize else vectors).numpy()

    def _parts(self, ids: Ids) -> list[Ids]:
        if len(ids) <= self.room:
            return [ids] if ids else []
        room = int(self.room)
        return [ids[begin : begin + room] for begin in range(0, len(ids), room)]

    def row(self, ids: Ids) -> Ids:
        """A text as the encoder reads it."""
        return framed(ids, self.tokenizer.special) if self.framed else ids

    def _joined(
        self, vectors: Float[Tensor, "P D"], numbers: Tensor, lengths: Sequence[int], count: int
    ) -> Float[Tensor, "N D"]:
        """One vector per text from those of its parts."""
        joined = torch.zeros(count, self.width)
        if self.pool == "max":
            which = numbers[:, None].expand_as(vectors)
            return joined.scatter_reduce_(0, which, vectors, "amax", include_self=False)
        weights = torch.tensor(lengths, dtype=torch.float32)
        total = torch.zeros(count).index_add_(0, numbers, weights)
        joined.index_add_(0, numbers, vectors * weights[:, None])
        return joined / total.clamp(min=1)[:, None]

    def _of_rows(self, rows: Sequence[Ids]) -> Float[Tensor, "P D"]:
        """The vector of every row, not normalised; rows of like length are read together.

        On a CPU each thread has a batch of its own, the longest first.
        """
        vectors = torch.empty(len(rows), self.width)
        listen = listener.get()
        batches = batches_by_length([len(row) for row in rows])[::-1]
        threads = MAX_THREADS if self.engine.device.type == "cpu" else 1
        with side_by_side(min(threads, len(batches))) as mapped:
            of_batches = mapped(lambda batch: self._of_batch([rows[n] for n in batch]), batches)
            for numbers, output in zip(batches, of_batches, strict=True):
                vectors[numbers] = output
                if listen is not None:
                    listen(len(numbers), len(rows))
        if not vectors.isfinite().all():
            raise UserError(
                "The model gives vectors that are not finite: its weights are damaged. Put a good "
                "copy of them back."
            )
        return vectors

    def _of_batch(self, rows: Sequence[Ids]) -> Float[Tensor, "P D"]:
        batch = padded(rows, self.tokenizer.special)
        with (
            torch.inference_mode(),
            self.engine.autocast(cached=False),
            naming_the_batch("a batch of texts", remedy="shorter texts (--on-long)"),
        ):
            tokens, lengths = batch.to(self.engine.device)
            output = embed(self.encode, tokens, lengths, pool=self.pool, normalize=False)
        return output.float().cpu()


def why_too_long(ids: Ids, room: int | float) -> str | None:
    """Why a text with these token ids cannot be read whole; None if it can."""
    if len(ids) <= room:
        return None
    return f"the text has {len(ids):,} tokens, and this model reads at most {room:,}: split it."


def positions(config: Config) -> int:
    """How many tokens an encoder with learned positions can read."""
    return config.model.max_positions or config.data.max_length


@dataclass(frozen=True)
class ReadTexts:
    """Lines as token ids, and what could not be read as it is."""

    ids: list[Ids]
    """Of every line, in order."""
    counts: Counts
    refusals: list[Refusal]
    _: KW_ONLY
    long: int
    """How many are longer than the model reads at once."""


def batches_by_length(lengths: Sequence[int]) -> list[list[int]]:
    """Which rows are read together: sorted by length, each batch of about `BATCH_TOKENS`."""
    order = sorted(range(len(lengths)), key=lambda number: lengths[number])
    batches: list[list[int]] = []
    for number in order:
        # Sorted: the newest row is the longest of its batch.
        if not batches or (len(batches[-1]) + 1) * lengths[number] > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(number)
    return batches


def embedder_of(
    model: Any, task: Task, engine: Engine, *, where: str, options: dict[str, Any] | None = None
) -> Embedder:
    """What makes vectors with a model's encoder, pooled as the model says, or else by the mean.

    where: the run, for messages. options: fields of `Embedder`; those that are None are left out.
    """
    config, encode = task.config, _encoder(model)
    if encode is None:
        raise UserError(
            f"{where} has no encoder that reads a text whole, and gives no vectors: its task is "
            f"{config.task}, its model {config.model.kind}. Import one (regard import minilm), or "
            f"take a run of task=embed, mlm or classify."
        )
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if given.get("pool", POOLS[0]) not in POOLS:
        raise UserError(f"pool={given['pool']!r} is not one of {', '.join(POOLS)}.")
    if isinstance(model, TextEmbedder):
        given = {"pool": model.pooling, "normalize": model.normalize} | given
    is_framed = bool(getattr(encode, "framed", False))
    return Embedder(
        encode,
        task.tokenizer,
        engine,
        width=config.model.d_model,
        longest=positions(config) if is_framed else math.inf,
        framed=is_framed,
        **given,
    )


def _encoder(model: Any) -> Any:
    """What reads a text whole in a model, as it is called; None if nothing does."""
    if isinstance(model, RecurrentClassifier):
        return model.states
    return getattr(model, "body", None)
