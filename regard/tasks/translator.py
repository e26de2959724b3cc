"""Outputs for sources: generated, begun with a prefix, and aligned with their sources."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import torch
from torch import Tensor

from regard.config import Decode
from regard.data.examples import Ids
from regard.data.lines import why_unreadable
from regard.data.tokenizer import Tokenizer
from regard.decoding import Ensemble, Hypothesis, Stepper, stepper_for
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.tasks.alignment import WordAlignment, align_all, words_or_characters
from regard.tasks.generating import Generator, after_source
from regard.tasks.output_text import OutputText, constraint_of
from regard.tasks.prediction import GeneratedText
from regard.tasks.request import Request, unknown_refusal


@dataclass(frozen=True)
class Translation(GeneratedText):
    """Outputs for a source, and which words of the best one come from which of the source."""

    alignment: WordAlignment | None = None
    """None where it was not requested."""

    @property
    def columns(self) -> list[str]:
        if self.alignment is None:
            return self.outputs
        pairs = " ".join(f"{source}-{output}" for source, output in self.alignment)
        return [*self.outputs, pairs]  # in Pharaoh's format, as the field prints it

    def details(self) -> dict[str, Any]:
        scores = {"scores": self.scores}
        alignment = {} if self.alignment is None else {"alignment": self.alignment}
        return scores | alignment | super().details()


@dataclass(frozen=True)
class Translator:
    """How the token ids of sources become hypotheses; it holds no model."""

    source: Tokenizer
    target: Tokenizer
    _: KW_ONLY
    languages: tuple[str, str]
    """Those of source and target, which say what a word is."""
    longest: int | float
    """How many tokens the model can generate at most."""

    def generator(
        self, model: Stepper, request: Request, engine: Engine
    ) -> tuple[Generator, OutputText]:
        """What generates the outputs of a request, and their text."""
        decode = request.decode
        if decode.max_new_tokens > self.longest:
            raise UserError(
                f"max_new_tokens={decode.max_new_tokens} is more than the {self.longest} "
                f"positions that this model learned."
            )
        start, end = self.target.special.first, self.source.end
        padding, text = self.source.special.filler, OutputText(self.target, continues=False)
        stepper = stepper_for(model, decode)
        return Generator(
            stepper,
            after_source(stepper, engine.device, start=start, end=end, padding=padding),
            decode,
            engine,
            end=self.target.end,
            never=self.target.never_generated,
            constraint=constraint_of(self.target, request.regex, tuple(request.choices)),
            stop=request.stop,
            text=text,
            alternatives=request.alternatives,
        ), text

    def generate(
        self,
        model: Stepper,
        sources: Sequence[Ids],
        decode: Decode,
        engine: Engine,
        *,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source; lines of like length are decoded together.

        numbers: the line number of each source, if they are not all lines.
        """
        generator, _ = self.generator(model, Request([], decode), engine)
        return generator.hypotheses(sources, numbers=numbers)

    def prefix(self, text: str, decode: Decode) -> Ids:
        """The tokens that every output begins with."""
        unreadable = why_unreadable(text)
        if unreadable is not None:
            raise UserError(f"prefix: {unreadable}.")
        (ids,) = self.target.encode([text])
        fault = unknown_refusal(self.target, text, ids)
        if fault is not None:
            raise UserError(f"prefix: {fault}")
        if len(ids) >= decode.max_new_tokens:
            raise UserError(
                f"prefix has {len(ids)} tokens, and max_new_tokens={decode.max_new_tokens} leaves "
                f"no room after it."
            )
        return ids

    def align(
        self, model: Stepper, sources: Sequence[Ids], outputs: Sequence[Ids], engine: Engine
    ) -> list[WordAlignment]:
        """Which words of its source each output comes from; of an ensemble, to its first member."""
        reader: Any = model.members[0] if isinstance(model, Ensemble) else model
        cut_source, cut_output = (words_or_characters(language) for language in self.languages)
        end, first = self.source.end, self.target.special.first
        return align_all(
            cast(Callable[..., Tensor], reader),
            [torch.tensor([[*source, end]], device=engine.device) for source in sources],
            [torch.tensor([[first, *output]], device=engine.device) for output in outputs],
            source_words=lambda ids: cut_source(self.source.decode(ids)),
            output_words=lambda ids: cut_output(self.target.decode(ids)),
        )
