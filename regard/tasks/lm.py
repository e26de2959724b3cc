"""lm: the next token of a running text."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from regard.config import Config, Decode
from regard.data.blocks import BlockBatch, BlockStream, Cutter
from regard.data.examples import Ids
from regard.data.splits import Pair, Split
from regard.data.text import TextBatch, TextStream
from regard.data.tokenizer import Tokenizer
from regard.decoding import Hypothesis, before_stop, stepper_for
from regard.models import GPT, RecurrentLanguageModel
from regard.models.build import language_model
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.generating import Generator, after_prompt, count_generated
from regard.tasks.output_text import OutputText, constraint_of
from regard.tasks.prediction import GeneratedText, Prediction
from regard.tasks.request import Answer, ReadLines, Request, read_lines
from regard.tasks.split_text import SplitText, read_split
from regard.tasks.task import VerifyInputs
from regard.tasks.text_task import MOST_SHOWN, Sources, TextTask, sources_of
from regard.training.gradients import Carried, sums_over_ranks
from regard.training.loss import Sums, token_sums

EVALUATED_CHUNK = 512
"""How many tokens a recurrent model reads at a time when evaluating."""
EVALUATED_TOGETHER = 8192
"""How many tokens a GPT reads at a time when evaluating."""

LanguageModel = GPT | RecurrentLanguageModel


@dataclass(frozen=True)
class Continuation(GeneratedText):
    """A prompt with what the model generated after it."""


class LanguageModelling(TextTask):
    """A text, a language model, cross-entropy on each next token, perplexity.

    The text is one stream: its documents (its lines, or as data.documents says), each closed by
    `</s>`. A GPT is trained on blocks of it, each
    data.max_length tokens long, in random order. A recurrent model goes through it in chunks of
    that length; the state is carried from one to the next, the gradient is not (truncated
    back-propagation through time, Williams & Peng 1990).
    """

    FILES = ("tokenizer.json", "chat_template.jinja")
    continues = True
    request_options = ("stop", "choice", "regex", "draft")

    def __init__(
        self,
        config: Config,
        tokenizer: Tokenizer,
        *,
        template: str | None = None,
        sources: Sources | None = None,
    ) -> None:
        super().__init__(config)
        self.tokenizer = tokenizer
        self.template = template
        """How a conversation becomes a prompt, if the model was trained on conversations."""
        self.sources = sources or sources_of(config)
        self._reading = RLock()  # held while a text is read and kept: requests come from threads
        self._texts: dict[Split, SplitText] = {}

    @classmethod
    def learn(cls, config: Config) -> "LanguageModelling":
        sources = sources_of(config)
        tokenizer = Tokenizer.train(
            sources["train"].to_learn_from(),
            kind=config.tokenizer.kind,
            keep_spaces=config.data.documents != "lines",
            **config.tokenizer.options,
        )
        return cls(config, tokenizer, sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "LanguageModelling":
        tokenizer, template = cls.FILES
        return cls(config, Tokenizer.read(files, tokenizer), template=files.get(template))

    @property
    def files(self) -> dict[str, str]:
        texts = (self.tokenizer.json, self.template)
        files = zip(self.FILES, texts, strict=True)
        return {name: text for name, text in files if text is not None}

    def text(self, split: Split) -> SplitText:
        """The text of a split, read once."""
        with self._reading:
            if split not in self._texts:
                self._texts[split] = read_split(self.sources[split], self.tokenizer)
            return self._texts[split]

    def pairs(self, split: Split) -> list[Pair]:
        """The first half of each of the first lines, and the line."""
        lines = islice(self.lines(split), MOST_SHOWN)
        return [(line[: len(line) // 2], line) for line in lines]

    def new_model(self) -> LanguageModel:
        return language_model(
            self.config, vocab=len(self.tokenizer), padding=self.tokenizer.padding
        )

    def batches(self) -> TextStream | BlockStream:
        train, length = self.config.training, self.config.data.max_length
        rows = train.batch_size or max(1, (train.batch_tokens or 1) // length)
        cutter = self._cutter("train", length)
        if self.config.model.recurrent:
            return TextStream(cutter, rows=rows)
        return BlockStream(cutter, rows=rows, seed=self.config.seed)

    def _to_evaluate(
        self, split: Split, world: World
    ) -> Iterator[TextBatch] | Iterator[BlockBatch]:
        """What this rank evaluates of a split's text, from left to right.

        A recurrent model reads a single row: each chunk needs the state after the one before it.
        """
        if self.config.model.recurrent:
            chunks = TextStream(self._cutter(split, EVALUATED_CHUNK), rows=1).epoch(0)
            return chunks if world.rank == 0 else iter(())
        length = self.config.data.max_length
        blocks = self._cutter(split, length).in_order(rows=max(1, EVALUATED_TOGETHER // length))
        return world.share(blocks)

    def _cutter(self, split: Split, length: int) -> Cutter:
        text, mask = self.text(split), self.config.data.document_mask
        return Cutter(text.ids, length, self.tokenizer.special, mark_documents=mask)

    def loss(
        self, model: Callable[..., Any], batch: TextBatch | BlockBatch, carried: Carried
    ) -> Sums:
        """Σ −log p(next token | the text so far), smoothed as the configuration says."""
        smoothing = self.config.training.label_smoothing
        return self._sums(model, batch, carried, smoothing=smoothing)

    def _sums(
        self,
        model: Callable[..., Any],
        batch: TextBatch | BlockBatch,
        carried: Carried,
        *,
        smoothing: float,
    ) -> Sums:
        if isinstance(batch, TextBatch):
            logits = _going_on(model, batch, carried)
        else:
            logits = model(batch.source, documents=batch.documents)
        return token_sums(
            logits,
            batch.target,
            tokens=batch.tokens,
            smoothing=smoothing,
            padding=self.tokenizer.special.ignored,
        )

    def evaluate(
        self,
        model: LanguageModel,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The metrics of a split's tokens, each of them predicted once.

        A recurrent model reads the text in one row, each token with all the text before it. A GPT
        reads blocks of data.max_length tokens, each after the end of the last: a token's context
        is what stands before it in its block, and the last token of the block before.
        """
        total, carried, world = Sums(), Carried(), world or World()
        with torch.inference_mode(), engine.autocast():
            for batch in self._to_evaluate(split, world):
                sums = self._sums(model, batch.to(engine.device), carried, smoothing=0.0)
                total = total + sums
        total = sums_over_ranks(total, world)
        measured = self.means(total)
        measured["ppl"] = math.exp(min(measured["loss"], 700.0))
        bits, tally = measured["loss"] * total.tokens / math.log(2), self.text(split).tally
        measured["bits_per_char"] = bits / tally.characters
        measured["bits_per_byte"] = bits / tally.bytes
        return Evaluation(total.tokens, measured, warnings=self.warnings([split]))

    def predict(self, model: LanguageModel, request: Request, *, engine: Engine) -> Answer:
        """Each line continued to its end; an empty one is a new line.

        A prompt that is longer than the context is refused, or its last tokens alone are read. An
        output may be longer: see `GPT.step`.
        """
        read = self._read_prompts(request)
        prompts = [self._last_tokens(ids) for ids in read.ids.values()]
        numbers = [request.first + number for number in read.ids]
        generator, text = self.generator(model, request, engine)
        generated = generator.hypotheses(prompts, numbers=numbers)
        predictions: list[Prediction] = [Continuation(line) for line in request.lines]
        for (number, prompt), hypotheses in zip(read.ids.items(), generated, strict=True):
            predictions[number] = Continuation(
                request.lines[number],
                [self._continued(prompt, output, request, text) for output in hypotheses],
                [output.score for output in hypotheses],
                [output.finished for output in hypotheses],
                tokens=text.tokens_of(hypotheses) if request.alternatives else None,
            )
        return Answer(predictions, read.counts + count_generated(generated), read.refusals)

    def _read_prompts(self, request: Request) -> ReadLines:
        refusal = super().refusal if request.decode.cut_prompt else self.refusal
        return read_lines(request, self.tokenizer, refusal)

    def _last_tokens(self, prompt: Ids) -> Ids:
        """As many tokens of a prompt as can be read."""
        return prompt[int(max(0, len(prompt) - self.longest_prompt)) :]

    def _continued(
        self, prompt: Ids, output: Hypothesis, request: Request, text: OutputText
    ) -> str:
        """A prompt and its continuation, up to a stop string."""
        if not request.stop:
            return self.tokenizer.decode([*prompt, *output.tokens])
        return self.tokenizer.decode(prompt) + before_stop(text(output.tokens), request.stop)

    def generator(
        self, model: LanguageModel, request: Request, engine: Engine
    ) -> tuple[Generator, OutputText]:
        tokenizer, text = self.tokenizer, OutputText(self.tokenizer, continues=True)
        stepper = stepper_for(model, request.decode, request.draft)
        begun, padding = tokenizer.begun, tokenizer.special.filler
        return Generator(
            stepper,
            after_prompt(stepper, engine.device, begun=begun, padding=padding),
            request.decode,
            engine,
            end=tokenizer.end,
            never=tokenizer.never_generated,
            continues=True,
            constraint=constraint_of(tokenizer, request.regex, tuple(request.choices)),
            stop=request.stop,
            text=text,
            alternatives=request.alternatives,
        ), text

    def prompts(self, request: Request) -> list[Ids]:
        return [self._last_tokens(ids) for ids in self._read_prompts(request).ids.values()]

    @property
    def longest_prompt(self) -> int | float:
        """How many tokens can be read before the first that is generated, with one before them."""
        return math.inf if self.config.model.recurrent else self.config.data.max_length - 1

    def refusal(self, line: str, ids: Ids) -> str | None:
        if len(ids) > self.longest_prompt:
            return (
                f"the text has {len(ids):,} tokens, and this model reads at most "
                f"{self.longest_prompt:,} (data.max_length). Shorten it, or pass --cut-prompt to "
                f"read its last tokens alone."
            )
        return super().refusal(line, ids)

    def trace(
        self,
        model: LanguageModel,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads a line, attention or gates among it."""
        ids = self.tokenizer.begun(self.read_one(text + (output or ""), where="trace"))
        trace.tokens["source"] = trace.tokens["target"] = self.tokenizer.tokens(ids)
        with torch.inference_mode():
            logits = _logits(model(torch.tensor([ids], device=engine.device), trace=trace))
        trace.tokens["output"] = self.tokenizer.tokens(logits[0].argmax(-1).tolist())
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        """A line begins after the end of another; of a long one, the tokens that can be read."""
        rows = self.tokenizer.encode([source for source, _ in pairs])
        cut = [row[: int(min(self.longest_prompt, len(row)))] for row in rows]
        return VerifyInputs([self.tokenizer.begun(row) for row in cut])


def _going_on(model: Callable[..., Any], batch: TextBatch, carried: Carried) -> Tensor:
    """The logits of a recurrent model that goes on with the state which the last batch left."""
    if batch.first:
        carried.clear()
    state = tuple(carried.values()) or None
    logits, state = model(batch.source, state, lengths=batch.lengths)
    # Detached: the gradient ends where the chunk began. float32, whatever it was computed in. And
    # contiguous, as what is read from a checkpoint: another layout may be rounded otherwise.
    parts = (part.detach().float().contiguous() for part in state)
    carried.update({f"state.{number}": part for number, part in enumerate(parts)})
    return logits


def _logits(output: Tensor | tuple[Tensor, Any]) -> Tensor:
    """The logits that a model gives, some with a state to go on from."""
    return output[0] if isinstance(output, tuple) else output
