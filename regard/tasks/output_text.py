"""Tokens of outputs as text: where to stop, what may be generated, and how probable it was."""

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

from regard.data.tokenizer import Tokenizer
from regard.decoding import Constraint, Hypothesis, make_constraint
from regard.decoding.streaming import INCOMPLETE
from regard.tasks.prediction import Token


class OutputText:
    """The text of outputs; of a language model's, the text that comes after something else.

    A tokenizer may leave out the space before a text's first word, so that a continuation is
    decoded after a token, whose text is cut off.
    """

    def __init__(self, tokenizer: Tokenizer, *, continues: bool) -> None:
        self._tokenizer = tokenizer
        self._continues = continues

    def __call__(self, tokens: Sequence[int]) -> str:
        """The text of an output."""
        return self._after(tokens) if self._continues else self._tokenizer.decode(tokens)

    def _after(self, tokens: Sequence[int]) -> str:
        before, text = self._before
        return self._tokenizer.decode([*before, *tokens])[len(text) :]

    @cached_property
    def _before(self) -> tuple[list[int], str]:
        """A token with a text of its own, and that text."""
        special = self._tokenizer.special.all
        for token in range(len(self._tokenizer)):
            text = "" if token in special else self._tokenizer.decode([token])
            if text.strip() and INCOMPLETE not in text:
                return [token], text
        return [], ""

    def pieces(self) -> list[str]:
        """The text of each token within a text; "" of special tokens and of parts of characters."""
        special = self._tokenizer.special.all
        texts = (
            "" if token in special else self._after([token])
            for token in range(len(self._tokenizer))
        )
        return ["" if INCOMPLETE in text else text for text in texts]

    def tokens_of(self, hypotheses: Sequence[Hypothesis]) -> list[list[Token]]:
        """The tokens of each hypothesis with their probabilities."""
        return [self._tokens(hypothesis) for hypothesis in hypotheses]

    def _tokens(self, hypothesis: Hypothesis) -> list[Token]:
        return [
            Token(
                self._name(one.token),
                math.exp(one.log_probability),
                [(self._name(token), math.exp(value)) for token, value in one.alternatives],
            )
            for one in hypothesis.probabilities or ()
        ]

    def _name(self, token: int) -> str:
        """A token as text; special ones, and parts of characters, by their names."""
        text = "" if token in self._tokenizer.special.all else self._after([token])
        return text if text and INCOMPLETE not in text else self._tokenizer.tokens([token])[0]


@lru_cache(maxsize=4)
def constraint_of(tokenizer: Tokenizer, regex: str, choices: tuple[str, ...]) -> Constraint | None:
    """What a request wants outputs to match; kept, for it is the same for all lines of an input."""
    if not regex and not choices:
        return None
    pieces = OutputText(tokenizer, continues=True).pieces()
    return make_constraint(pieces, regex=regex, choices=choices)
