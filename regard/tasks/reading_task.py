"""What tasks that read a text whole share: one text or two in a row, framed, and cut if it must."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.config import Config
from regard.data.batches import padded
from regard.data.examples import Ids
from regard.data.frame import beginnings, room_for, row_of, segment_rows
from regard.data.lines import why_unreadable
from regard.data.row_source import RowSource
from regard.data.rows import Fault, Row
from regard.data.splits import Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.numbers import refuse_nan
from regard.tasks.pair_task import PairTask, Sources
from regard.tasks.request import ReadLines, Refusal, Request, read_lines
from regard.tasks.split_data import Encoded
from regard.tasks.task import VerifyInputs

TOKENS_TOGETHER, MAX_ROWS = 8192, 256
"""The most tokens, padding counted, and the most rows of a batch when predicting."""

BETWEEN = "\t"
"""What stands between the two texts of a line."""

CUT = "data.too_long=cut"


class ReadingTask(PairTask):
    """A text, or two, as one row of token ids; a model of `model.kind` reads it whole.

    `<s> a </s>` and `<s> a </s> b </s>` where the encoder expects a frame; else `a`, `a </s> b`.
    """

    TOKEN_SIDES = 1
    generates = False

    def __init__(
        self, config: Config, tokenizer: Tokenizer, *, sources: Sources | None = None
    ) -> None:
        super().__init__(config, sources=sources)
        self.tokenizer = tokenizer
        self.texts = tuple(field.name for field in self.fields_of(config) if field.kind == "text")
        self.framed = config.model.framed

    @classmethod
    def learned_tokenizer(cls, config: Config, train: RowSource) -> Tokenizer:
        """A tokenizer of all texts of the training data."""
        return Tokenizer.train(
            (text for row in train.to_learn_from() for text in cls.texts_in(row)),
            kind=config.tokenizer.kind,
            **config.tokenizer.options,
        )

    @property
    def paired(self) -> bool:
        """Whether a row has two texts."""
        return len(self.texts) == 2

    @property
    def segmented(self) -> bool:
        """Whether batches say which of two texts each token belongs to."""
        return self.paired and self.framed and self.config.model.segments > 0

    @property
    def reading(self) -> tuple[object, ...]:
        return (self.framed, *self.texts)

    @staticmethod
    def texts_in(row: Row) -> list[str]:
        """The texts of a row: its first field, and the second one if that is a text."""
        return [row[name] for name in ("text", "text_pair") if name in row.values]

    def pair_of(self, row: Row) -> Pair:
        return BETWEEN.join(self.texts_in(row)), str(row[self.names[-1]])

    @property
    def positions(self) -> int | float:
        """How many tokens the model can read at most."""
        model = self.config.model
        if not self.framed or model.positions != "learned":
            return math.inf
        return model.max_positions or self.config.data.max_length

    def longest(self, *, generated: bool) -> int | float:
        """How many tokens a row may have: data.max_length is not about what a generator makes."""
        return self.positions if generated else self.config.data.max_length

    def encoded(self, rows: Sequence[Row]) -> list[Encoded]:
        encoded = super().encoded(rows)
        if self.config.data.too_long != "cut":
            return encoded
        most = self.config.data.max_length
        long = [number for number, line in enumerate(encoded) if len(line.source) > most]
        for number in long:
            line = encoded[number]
            encoded[number] = line._replace(source=self._cut(self.texts_in(line.row)), cut=True)
        return encoded

    def rows_of(self, texts: Sequence[Sequence[str]]) -> list[Ids]:
        """The rows of one text or two each, of any length."""
        sides = [self.tokenizer.encode(list(side)) for side in zip(*texts, strict=True)]
        return [self._row(ids) for ids in zip(*sides, strict=True)]

    def _row(self, texts: Sequence[Ids]) -> Ids:
        return row_of(texts, self.tokenizer.special, frame=self.framed)

    def _cut(self, texts: Sequence[str]) -> Ids:
        """The row of the beginnings of these texts, as long as a row may be."""
        most = self.config.data.max_length
        room = room_for(len(texts), most, frame=self.framed)
        return self._row(beginnings(self.tokenizer.encode(list(texts)), room))

    def side_anew(self, row: Row, side: int, cut: Callable[[str], Ids]) -> Ids:
        return self._row([cut(text) for text in self.texts_in(row)])

    def faults(self, encoded: Sequence[Encoded], source: RowSource) -> dict[int, Fault]:
        most = self.longest(generated=source.generated)
        return {
            number: self._too_long(line, most, source)
            for number, line in enumerate(encoded)
            if len(line.source) > most
        }

    def _too_long(self, line: Encoded, most: int | float, source: RowSource) -> Fault:
        count, key = len(line.source), "data.max_length"
        what = "text and the frame around it have" if self.framed else "text has"
        what = "two texts of this line have" if self.paired else what
        if source.generated:
            raise UserError(
                f"The model has {most} positions, and a text of data.{source.split}="
                f"{source.name} has {count} tokens: set model.max_positions={count} or more."
            )
        choice = self.config.data.too_long
        fault = Fault(
            source.place(0, line.row),
            line.row.line,
            f"the {what} {count:,} tokens where {key}={most}",
            f"the {what} more tokens than {key}={most}",
            remedy=f"Leave such lines out with --on-bad-line skip, or read their beginnings with "
            f"-s {CUT}; both are counted.",
        )
        if choice == "error":
            return replace(fault, otherwise="error", remedy=f"Set {CUT} or data.too_long=skip.")
        return replace(fault, otherwise="skip") if choice == "skip" else fault

    def read_request(self, request: Request) -> ReadLines:
        """The rows of the lines of a request; what is too long is refused, skipped or cut."""
        choice, most = self.config.data.too_long, self.config.data.max_length
        read = read_lines(request, self.tokenizer, self.refusal, self._of_lines)
        if choice not in ("cut", "skip"):
            return read
        long = [number for number, ids in read.ids.items() if len(ids) > most]
        if choice == "cut":
            rows = {number: self._cut(self._parts(request.lines[number])) for number in long}
            counts = replace(read.counts, shortened=len(long))
            return ReadLines(read.ids | rows, read.refusals, counts)
        refusals = [
            Refusal(line, f"{request.name}:{line}: {self._why_too_long(read.ids[number])}")
            for number, line in ((number, request.first + number + 1) for number in long)
        ]
        kept = {number: ids for number, ids in read.ids.items() if number not in long}
        return ReadLines(
            kept, sorted(read.refusals + refusals, key=lambda each: each.line), read.counts
        )

    def _of_lines(self, lines: list[str]) -> list[Ids]:
        """The rows of lines; a line with another number of texts has none, and is refused."""
        parts = [self._parts(line) for line in lines]
        whole = [number for number, texts in enumerate(parts) if len(texts) == len(self.texts)]
        rows: list[Ids] = [[] for _ in lines]
        for number, row in zip(whole, self.rows_of([parts[n] for n in whole]), strict=True):
            rows[number] = row
        return rows

    def _parts(self, line: str) -> list[str]:
        """The texts of a line."""
        return line.split(BETWEEN) if self.paired else [line]

    def refusal(self, line: str, ids: Ids) -> str | None:
        texts = self._parts(line)
        if self.paired and len(texts) != 2:
            return f"there should be two texts with one tab between them, not {len(texts)}."
        if not all(text.split() for text in texts) or not self._has_text(ids):
            what = "one of the two texts is" if self.paired else "the line is"
            return f"{what} empty: there is nothing to classify."
        too_long = len(ids) > self._most_of_a_line
        if too_long and self.config.data.too_long in ("bad-line", "error"):
            return self._why_too_long(ids)
        return super().refusal(line, ids)

    def _has_text(self, ids: Ids) -> bool:
        special = self.tokenizer.special
        return any(token not in (special.first, special.end) for token in ids)

    @property
    def _most_of_a_line(self) -> int | float:
        """How many tokens a line to predict may have; a model without a frame reads any number."""
        if not self.framed and self.config.data.too_long == "bad-line":
            return math.inf
        return self.longest(generated=self.sources["train"].generated)

    def _why_too_long(self, ids: Ids) -> str:
        return (
            f"it has {len(ids):,} tokens where this run reads {self._most_of_a_line} "
            f"(data.max_length); train or open it with {CUT} to read the beginning."
        )

    def read_one(self, text: str, *, where: str) -> Ids:
        fault = why_unreadable(text)
        if fault is not None:
            raise UserError(f"{where}: {fault}.")
        (ids,) = self._of_lines([text])
        fault = self.refusal(text, ids)
        if fault is not None:
            raise UserError(f"{where}: {fault}")
        long = self.config.data.too_long == "cut" and len(ids) > self.config.data.max_length
        return self._cut(self._parts(text)) if long else ids

    def rows_in(self, split: Split) -> list[Ids]:
        """The rows of a split, as the model reads them."""
        examples = self.examples(split)
        return examples.rows(np.arange(len(examples)))[0]

    def outputs_of(
        self, model: Any, rows: Sequence[Ids], *, width: int, engine: Engine
    ) -> Float[Tensor, "N C"]:
        """The output of the model for every row; rows of like length are read together."""
        outputs = torch.empty(len(rows), width)
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        while order:
            longest = len(rows[order[-1]])
            count = max(1, min(MAX_ROWS, TOKENS_TOGETHER // max(1, longest)))
            numbers, order = order[-count:], order[:-count]
            batch = padded([rows[number] for number in numbers], self.tokenizer.special)
            with torch.inference_mode(), engine.autocast():
                outputs[numbers] = self._run(model, *batch.to(engine.device)).float().cpu()
        refuse_nan(outputs)
        return outputs

    def _run(self, model: Any, tokens: Tensor, lengths: Tensor, **options: Any) -> Tensor:
        segments = None
        if self.segmented:
            segments = segment_rows(tokens, lengths, self.tokenizer.special)
        output: Tensor = model(tokens, lengths, segments=segments, **options)
        return output

    def traced(self, model: Any, text: str, *, engine: Engine, trace: Trace) -> Tensor:
        """The output of the model for one text; all that it computes goes into the trace."""
        ids = self.read_one(text, where="trace")
        trace.tokens["source"] = self.tokenizer.tokens(ids)
        batch = padded([ids], self.tokenizer.special).to(engine.device)
        with torch.inference_mode():
            return self._run(model, *batch, trace=trace)

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        return VerifyInputs(self.rows_of([self._parts(line) for line, _ in pairs]))
