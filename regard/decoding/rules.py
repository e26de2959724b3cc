"""What may be generated next: rules that exclude tokens, and penalties on some of them."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.config import Decode
from regard.decoding.constraint import Constraint
from regard.decoding.penalties import NOTHING, occurring, presence_penalty, repetition_penalty


def repeating(tokens: Int[Tensor, "R T"], n: int, vocab: int) -> Bool[Tensor, "R V"]:
    """Which next tokens would complete an n-gram that a row already has."""
    R, T = tokens.shape
    repeats = torch.zeros(R, vocab + 1, dtype=torch.bool, device=tokens.device)
    if n < 1 or n > T:
        return repeats[:, :vocab]
    ngrams = tokens.unfold(1, n, 1)  # R T−n+1 n
    last = tokens[:, T - n + 1 :]  # R n−1: what the next token would be added to
    same = (ngrams[:, :, :-1] == last[:, None]).all(dim=-1)  # R T−n+1
    rows, places = same.nonzero(as_tuple=True)
    repeats[rows, ngrams[rows, places, -1]] = True  # NOTHING is the last
    return repeats[:, :vocab]


@dataclass(frozen=True)
class Rules:
    """The rules of a search over some sources."""

    end: int
    _: KW_ONLY
    shortest: Int[Tensor, "B"] | None = None
    """The fewest tokens of each source's output, `end` not counted."""
    longest: Int[Tensor, "B"] | None = None
    """The most tokens of each source's output, `end` not counted: then it must end."""
    no_repeat_ngram: int = 0
    """No n-gram of this many tokens is generated twice; 0 allows all."""
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    prompts: Int[Tensor, "B P"] | None = None
    """What a language model goes on from: penalties and n-grams count it too. Short prompts have
    NOTHING on their left."""
    prefixes: Sequence[Sequence[int]] | None = None
    """What each source's output begins with."""
    constraint: Constraint | None = None
    """The language that outputs must be of."""

    def __call__(
        self,
        logits: Float[Tensor, "R V"],
        generated: Int[Tensor, "R T"],
        sources: Int[Tensor, "R"],
    ) -> Float[Tensor, "R V"]:
        """Penalised logits, with −∞ where a rule forbids the token, after each row's tokens so far.

        sources: the source that each row belongs to. In beam search, logits are log-probabilities.
        """
        text = generated
        if self.prompts is not None:
            text = torch.cat([self.prompts.to(sources.device)[sources], generated], dim=1)
        penalised = self._penalised(logits, text)
        return penalised.masked_fill(
            self._forbidden(penalised, generated, text, sources), -torch.inf
        )

    def _penalised(
        self, logits: Float[Tensor, "R V"], text: Int[Tensor, "R L"]
    ) -> Float[Tensor, "R V"]:
        if self.repetition_penalty == 1 and self.presence_penalty == 0:
            return logits
        seen = occurring(text, logits.size(1))
        logits = repetition_penalty(logits, seen, self.repetition_penalty)
        return presence_penalty(logits, seen, self.presence_penalty)

    def _forbidden(
        self,
        logits: Float[Tensor, "R V"],
        generated: Int[Tensor, "R T"],
        text: Int[Tensor, "R L"],
        sources: Int[Tensor, "R"],
    ) -> Bool[Tensor, "R V"]:
        """True where a token may not come next."""
        length = generated.size(1)
        forbidden = repeating(text, self.no_repeat_ngram, logits.size(1))  # R V
        if self.shortest is not None:
            forbidden[:, self.end] |= length < self.shortest[sources]
        if self.longest is not None:
            over = length >= self.longest[sources]
            forbidden |= over[:, None]
            forbidden[:, self.end] &= ~over
        if self.constraint is not None:
            forbidden |= ~self.constraint.allowed(generated, end=self.end, vocab=logits.size(1))
        nothing = logits.masked_fill(forbidden, -torch.inf).amax(dim=1) == -torch.inf
        forbidden[:, self.end] &= ~nothing  # where nothing else is left, the output may end
        for row, source in enumerate(sources.tolist()):
            prefix = () if self.prefixes is None else self.prefixes[source]
            if length < len(prefix):
                forbidden[row] = True
                forbidden[row, prefix[length]] = False
        return forbidden

    def most_tokens(self, limit: int, source: int) -> int:
        """The most tokens that the output of a source can have, `end` counted."""
        return limit if self.longest is None else min(limit, int(self.longest[source]) + 1)


def make_rules(
    decode: Decode,
    *,
    end: int,
    lengths: Int[Tensor, "B"] | None = None,
    prompts: Sequence[Sequence[int]] | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    constraint: Constraint | None = None,
) -> Rules | None:
    """The rules of a configuration, for some sources; None if it has none.

    lengths: of the sources, for length ratios; the others are fields of `Rules`.
    """
    least, most = decode.min_length_ratio, decode.max_length_ratio
    penalised = decode.repetition_penalty != 1 or decode.presence_penalty != 0
    counted = penalised or bool(decode.no_repeat_ngram)
    if not (least or most or counted or prefixes or constraint):
        return None
    if (least or most) and lengths is None:
        raise ValueError("length ratios need the lengths of the sources, and none were given")
    longest = shortest = None
    if lengths is not None and least:
        shortest = (lengths * least).floor().long()
    if lengths is not None and most:
        longest = (lengths * most).ceil().long().clamp(min=1)
        if prefixes is not None:  # a prefix is generated whole, however long
            longest = longest.maximum(longest.new_tensor([len(prefix) for prefix in prefixes]))
    return Rules(
        end,
        shortest=shortest,
        longest=longest,
        no_repeat_ngram=decode.no_repeat_ngram,
        repetition_penalty=decode.repetition_penalty,
        presence_penalty=decode.presence_penalty,
        prompts=_on_the_right(prompts) if prompts and counted else None,
        prefixes=prefixes,
        constraint=constraint,
    )


def _on_the_right(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B P"]:
    """Rows that end together; short ones have NOTHING on their left."""
    longest = max(map(len, rows))
    filled = [[NOTHING] * (longest - len(row)) + list(row) for row in rows]
    return torch.tensor(filled, dtype=torch.long)
