"""mlm: the masked words of a text, and whether two texts belong together."""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from threading import RLock
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.config import Config, Decode
from regard.data.batches import BatchStream, padded
from regard.data.examples import Ids
from regard.data.frame import FRAME, framed
from regard.data.masking import NO_TARGET, MaskedBatch, MaskedRows, Masking, room_for
from regard.data.sentences import sentences
from regard.data.splits import Pair, Split
from regard.data.tokenizer import Tokenizer
from regard.data.vocabularies import MASK_TOKEN
from regard.models import MaskedLanguageModel
from regard.models.build import masked_language_model
from regard.nn import Trace
from regard.system.engine import Engine
from regard.system.errors import UserError
from regard.system.numbers import refuse_nan
from regard.system.ranks import World
from regard.tasks.evaluation import Evaluation
from regard.tasks.masked_words import CONTINUES, FilledMasks, MaskedWord, filled
from regard.tasks.prediction import Prediction
from regard.tasks.request import Answer, Request, read_lines
from regard.tasks.split_data import SplitData
from regard.tasks.split_sentences import read_sentences
from regard.tasks.task import VerifyInputs
from regard.tasks.text_task import MOST_SHOWN, Sources, TextTask, sources_of
from regard.training.gradients import Carried, sums_over_ranks
from regard.training.loss import Sum, Sums, count_correct, cross_entropy

EVALUATED_SEED = 0
"""What masks and pairs are made from in an evaluation: the same in every run, and every epoch."""
EVALUATED_TOGETHER = 4096
"""How many tokens are read at a time when evaluating."""
PREDICTED_TOGETHER = 64
"""How many lines are read at a time when predicting."""
UNIGRAM = "unigram"
"""The name of the sums of the loss by token frequencies alone."""


class MaskedLanguageModelling(TextTask):
    """Documents, an encoder, cross-entropy on the masked words and on pairs of texts.

    A row is whole sentences of one document, `[CLS] a [SEP] b [SEP]`. Masks and pairs are made
    anew in every epoch, from (seed, epoch, row); those of an evaluation are always the same.
    """

    generates = False

    def __init__(
        self, config: Config, tokenizer: Tokenizer, *, sources: Sources | None = None
    ) -> None:
        super().__init__(config)
        if tokenizer.special.mask is None:
            raise ValueError(f"the tokenizer has no {MASK_TOKEN}, which task=mlm needs")
        self.tokenizer = tokenizer
        self.sources = sources or sources_of(config)
        self._reading = RLock()  # held while a text is read and kept: requests come from threads
        self._texts: dict[Split, SplitData] = {}

    @classmethod
    def learn(cls, config: Config) -> "MaskedLanguageModelling":
        sources = sources_of(config)
        tokenizer = Tokenizer.train(
            sources["train"].to_learn_from(),
            kind=config.tokenizer.kind,
            masks=True,
            **config.tokenizer.options,
        )
        return cls(config, tokenizer, sources=sources)

    @classmethod
    def open(cls, config: Config, files: dict[str, str]) -> "MaskedLanguageModelling":
        return cls(config, Tokenizer.read(files, cls.FILES[0]))

    @property
    def files(self) -> dict[str, str]:
        return {self.FILES[0]: self.tokenizer.json}

    def text(self, split: Split) -> SplitData:
        with self._reading:
            if split not in self._texts:
                self._texts[split] = read_sentences(self.sources[split], self.tokenizer)
            return self._texts[split]

    def pairs(self, split: Split) -> list[Pair]:
        """Each of the first lines, with a word masked, and as it is."""
        lines = islice(self.lines(split), MOST_SHOWN)
        texts = (sentence for line in lines for sentence in islice(sentences(line), 1))
        return [(_with_mask(text), text) for text in texts]

    def new_model(self) -> MaskedLanguageModel:
        return masked_language_model(
            self.config, vocab=len(self.tokenizer), padding=self.tokenizer.padding
        )

    @property
    def _masking(self) -> Masking:
        data = self.config.data
        room, _ = room_for(data.sentence_pairs, data.max_length)
        return Masking(
            self.tokenizer,
            data.sentence_pairs,
            rate=data.mask_rate,
            whole_words=data.whole_words,
            room=room,
        )

    def batches(self) -> BatchStream:
        train, masking, seed = self.config.training, self._masking, self.config.seed
        rows = self.text("train").examples
        return BatchStream(
            lambda epoch: MaskedRows(rows, masking, seed=seed, epoch=epoch),
            masking.batch,
            seed=seed,
            batch_tokens=train.batch_tokens,
            batch_size=train.batch_size,
        )

    def loss(self, model: Callable[..., Any], batch: MaskedBatch, carried: Carried) -> Sums:
        """Σ −log p(masked word) and Σ −log p(class of a pair), each by its own count."""
        return self._sums(model, batch, smoothing=self.config.training.label_smoothing)

    def _sums(self, model: Callable[..., Any], batch: MaskedBatch, *, smoothing: float) -> Sums:
        targets = batch.targets.flatten()  # B L
        places = (targets != NO_TARGET).nonzero()[:, 0]  # N
        words, pair = model(batch.source, batch.lengths, segments=batch.segments, places=places)
        sums = Sums(mlm=_sum(words, targets[places], smoothing=smoothing))
        if pair is not None:
            sums[batch.pairs] = _sum(pair, batch.classes, smoothing=smoothing)
        return sums

    def means(self, sums: Sums) -> dict[str, float]:
        """The total `loss`, and loss and accuracy of each kind of target."""
        means = {"loss": sums.mean_loss}
        for name, part in sums.items():
            means |= {f"{name}_loss": part.mean_loss, f"{name}_accuracy": part.accuracy}
        return means

    def evaluate(
        self,
        model: MaskedLanguageModel,
        split: Split,
        *,
        engine: Engine,
        decode: Decode | None = None,
        metrics: Collection[str] | None = None,
        world: World | None = None,
    ) -> Evaluation:
        """The metrics of a split's masked words and pairs, masked in the same way every time.

        Beside them: `unigram_loss`, that of a guess by the frequencies of this split's tokens,
        which no text is read for; and `gap_closed`, the share of it that the model has gone.
        """
        total, world, guess = Sums(), world or World(), self._log_frequencies(split)
        with torch.inference_mode(), engine.autocast():
            for batch in world.share(self._to_evaluate(split)):
                targets = batch.targets[batch.targets != NO_TARGET]
                unigram = Sum(-float(guess[targets].sum()), len(targets))
                sums = self._sums(model, batch.to(engine.device), smoothing=0.0)
                total = total + sums + Sums({UNIGRAM: unigram})
        total = sums_over_ranks(total, world)
        unigram_loss = total.pop(UNIGRAM).mean_loss
        measured = self.means(total) | {"unigram_loss": unigram_loss}
        if unigram_loss:  # it is 0 where a text has only one token
            measured["gap_closed"] = 1 - measured["mlm_loss"] / unigram_loss
        return Evaluation(total["mlm"].count, measured, warnings=self.warnings([split]))

    def _to_evaluate(self, split: Split) -> Iterator[MaskedBatch]:
        masking, rows = self._masking, self.text(split).examples
        masked = MaskedRows(rows, masking, seed=EVALUATED_SEED, epoch=0)
        together = max(1, EVALUATED_TOGETHER // self.config.data.max_length)
        for begin in range(0, len(rows), together):
            numbers = np.arange(begin, min(begin + together, len(rows)))
            yield masking.batch(*masked.rows(numbers))

    def _log_frequencies(self, split: Split) -> Float[Tensor, "V"]:
        """log(count / all) of each token in a split."""
        counts = torch.zeros(len(self.tokenizer), dtype=torch.float64)
        ids = self.text(split).examples.sides()[0].ids
        for begin in range(0, len(ids), 2**20):  # mapped: never all of it in memory
            part = np.bincount(ids[begin : begin + 2**20], minlength=len(counts))
            counts += torch.from_numpy(part)
        counts[list(self.tokenizer.special.all)] = 0  # those are never asked for
        return (counts / counts.sum().clamp(min=1)).log()

    def predict(self, model: MaskedLanguageModel, request: Request, *, engine: Engine) -> Answer:
        """The n_best words of each mask of each line, with their probabilities."""
        n_best, words = request.decode.n_best, len(self.tokenizer.plain_ids)
        if n_best > words:
            raise UserError(f"n_best={n_best} is more than the {words:,} tokens there are.")
        read = read_lines(request, self.tokenizer, self.refusal, self._encode)
        predictions: list[Prediction] = [FilledMasks(line) for line in request.lines]
        numbers = sorted(read.ids, key=lambda number: len(read.ids[number]))
        for begin in range(0, len(numbers), PREDICTED_TOGETHER):
            chosen = numbers[begin : begin + PREDICTED_TOGETHER]
            masks = self._best_words(model, [read.ids[n] for n in chosen], n_best, engine=engine)
            for number in chosen:
                found = [next(masks) for _ in range(read.ids[number].count(self._mask))]
                line = request.lines[number]
                output = filled(line, [words[0].word for words in found])
                predictions[number] = FilledMasks(line, [output], masks=found)
        return Answer(predictions, read.counts, read.refusals)

    def _best_words(
        self, model: MaskedLanguageModel, rows: Sequence[Ids], n_best: int, *, engine: Engine
    ) -> Iterator[list[MaskedWord]]:
        """The most probable words of each mask, one mask after another."""
        special = self.tokenizer.special
        tokens, lengths = padded([framed(row, special) for row in rows], special)
        places = (tokens.flatten() == self._mask).nonzero()[:, 0]
        inputs = (part.to(engine.device) for part in (tokens, lengths))
        with torch.inference_mode(), engine.autocast():
            logits = model(*inputs, places=places.to(engine.device)).words.float()  # N V
        none = torch.tensor(sorted(special.all), device=logits.device)  # are no words
        probabilities = logits.index_fill(1, none, -torch.inf).softmax(dim=-1).cpu()
        refuse_nan(probabilities)
        for values, ids in zip(*probabilities.topk(n_best), strict=True):
            pairs = zip(ids.tolist(), values.tolist(), strict=True)
            yield [MaskedWord(self._word(token), value) for token, value in pairs]

    def _word(self, token: int) -> str:
        """A token as it is shown: its text, marked if it goes on with a word."""
        text = self.tokenizer.decode([token]).strip() or self.tokenizer.tokens([token])[0]
        mark = CONTINUES if self.tokenizer.continues_word[token] else ""
        return mark + text.removeprefix(CONTINUES)

    @property
    def _mask(self) -> int:
        assert self.tokenizer.special.mask is not None
        return self.tokenizer.special.mask

    def _encode(self, lines: list[str]) -> list[Ids]:
        return [self.tokenizer.encode_masked(line) for line in lines]

    def refusal(self, line: str, ids: Ids) -> str | None:
        if self._mask not in ids:
            return (
                f"there is no {MASK_TOKEN} in the line: write it in the place of each word that "
                f"is to be found."
            )
        return self._too_long(ids)

    def _too_long(self, ids: Ids) -> str | None:
        room = self.config.data.max_length - FRAME
        if len(ids) <= room:
            return None
        return (
            f"the text has {len(ids):,} tokens, and this model reads at most {room:,} "
            f"(data.max_length, with [CLS] and [SEP]). Shorten it."
        )

    def trace(
        self,
        model: MaskedLanguageModel,
        text: str,
        *,
        engine: Engine,
        trace: Trace,
        output: str | None = None,
    ) -> Trace:
        """Everything that the model computes while it reads a text, with masks or without."""
        request = Request([text], self.config.decode, name="trace")
        read = read_lines(request, self.tokenizer, lambda _, ids: self._too_long(ids), self._encode)
        ids = framed(read.ids[0], self.tokenizer.special)
        trace.tokens["source"] = self.tokenizer.tokens(ids)
        with torch.inference_mode():
            logits = model(torch.tensor([ids], device=engine.device), trace=trace).words
        trace.tokens["output"] = self.tokenizer.tokens(logits[0].argmax(-1).tolist())
        return trace

    def verify_inputs(self, pairs: Sequence[Pair]) -> VerifyInputs:
        """Lines in their frames; of a long one, the tokens that can be read."""
        rows, room = self._encode([source for source, _ in pairs]), self.config.data.max_length
        special = self.tokenizer.special
        return VerifyInputs([framed(row[: room - FRAME], special) for row in rows])

    def example(self, fits: Callable[[str], bool]) -> str | None:
        text = self.first_to_show((text for _, text in self.pairs("test")), fits)
        return None if text is None else _with_mask(text)


def _sum(logits: Float[Tensor, "N C"], targets: Tensor, *, smoothing: float) -> Sum:
    """Loss, count and right answers of one kind of target."""
    loss = cross_entropy(logits, targets, smoothing=smoothing, padding=NO_TARGET)
    correct = count_correct(logits[:, None], targets[:, None], padding=NO_TARGET)
    return Sum(loss, int((targets != NO_TARGET).sum()), correct)


def _with_mask(text: str) -> str:
    """A text with the mask in place of the word in its middle."""
    words = text.split()
    words[len(words) // 2] = MASK_TOKEN
    return " ".join(words)
