"""A request to predict lines, and the answer to it: predictions, counts, and refused lines."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Literal

from regard.config import Config, Decode
from regard.data.examples import Ids
from regard.data.lines import why_unreadable
from regard.data.tokenizer import Tokenizer
from regard.decoding import Stepper
from regard.system.errors import UserError
from regard.tasks.prediction import Prediction


@dataclass(frozen=True)
class Request:
    """Lines to predict, and how."""

    lines: Sequence[str]
    decode: Decode
    _: KW_ONLY
    name: str = "line"
    """What the input is called in a message."""
    first: int = 0
    """How many lines of the same input went before these."""
    prefix: str = ""
    """What every output begins with."""
    stop: Sequence[str] = ()
    """An output ends where its text contains one of these, and without it."""
    choices: Sequence[str] = ()
    """The only outputs there may be; none: any."""
    regex: str = ""
    """A regular expression that outputs must match; empty: any output."""
    draft: Stepper | None = None
    """A smaller model that guesses tokens ahead, with the same vocabulary."""
    alternatives: int = 0
    """Of each token, keep its probability and this many of the most probable ones; 0: neither."""
    aligned: bool = False
    """Whether to say which words of the source each word of the output comes from."""
    on_bad_line: Literal["error", "skip"] = "error"
    """A line that cannot be read is an error, or it has no output and is named in the answer."""

    def __post_init__(self) -> None:
        if isinstance(self.lines, str):
            raise TypeError("predict takes a list of lines, not one string")
        for name in ("stop", "choices"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} takes a list of texts, not one string")
        if "" in self.stop:
            raise UserError("stop: an empty text would end every output before its first token.")
        if self.prefix and (self.regex or self.choices):
            raise UserError(
                "prefix says how an output begins, regex and choice what all of it is: give one."
            )

    @property
    def special_options(self) -> list[str]:
        """The options given here that not every task takes, by the names that users know."""
        given = {
            "prefix": bool(self.prefix),
            "align": self.aligned,
            "stop": bool(self.stop),
            "choice": bool(self.choices),
            "regex": bool(self.regex),
            "draft": self.draft is not None,
        }
        return [option for option, is_given in given.items() if is_given]


@dataclass(frozen=True)
class Refusal:
    """A line that cannot be read."""

    line: int
    """Its number in the input, counted from 1."""
    sentence: str
    """Where it is, and why it was refused."""


@dataclass(frozen=True)
class Counts:
    """How much was read and generated; counts of several answers add up."""

    tokens: int = 0
    """Tokens of the lines that were read."""
    unknown: int = 0
    """Those of them that have no id of their own."""
    outputs: int = 0
    """Lines for which an output was generated."""
    cut: int = 0
    """Those of them whose best output did not end before max_new_tokens."""
    shortened: int = 0
    """Lines of which only the beginning was read."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(Counts))
        )

    def warnings(self) -> list[str]:
        """One sentence on what could not be read, and one on what could not be finished."""
        sentences = unknown_warning("the input", self.unknown, self.tokens)
        if self.cut:
            sentences.append(
                f"{self.cut:,} of {self.outputs:,} outputs were cut at max_new_tokens."
            )
        if self.shortened:
            lines = "line has" if self.shortened == 1 else "lines have"
            sentences.append(
                f"{self.shortened:,} {lines} more tokens than data.max_length: the beginning was "
                f"read."
            )
        return sentences


@dataclass(frozen=True)
class Answer:
    """What became of a request: one prediction per line, in order."""

    predictions: list[Prediction]
    counts: Counts
    refusals: list[Refusal]
    """The lines that could not be read, whose predictions have no outputs."""


@dataclass(frozen=True)
class ReadLines:
    """The lines of a request as token ids; and those that could not be read."""

    ids: dict[int, Ids]
    """By the line's place in the request, in order."""
    refusals: list[Refusal]
    counts: Counts


def read_lines(
    request: Request,
    tokenizer: Tokenizer,
    refusal: Callable[[str, Ids], str | None],
    encode: Callable[[list[str]], list[Ids]] | None = None,
) -> ReadLines:
    """Token ids of every line, or why it is refused; the first refusal is raised if on_bad_line is.

    refusal: says of a line and its token ids why the model cannot read it; None if it can.
    encode: lines to token ids, if that is not done by the tokenizer alone.
    """
    faults = {
        number: f"{fault}; save the file as UTF-8."
        for number, line in enumerate(request.lines)
        if (fault := why_unreadable(line)) is not None
    }
    whole = [number for number in range(len(request.lines)) if number not in faults]
    encoded = (encode or tokenizer.encode)([request.lines[number] for number in whole])
    ids: dict[int, Ids] = {}
    for number, row in zip(whole, encoded, strict=True):
        fault = refusal(request.lines[number], row)
        if fault is None:
            ids[number] = row
        else:
            faults[number] = fault
    refusals = [
        Refusal(line, f"{request.name}:{line}: {faults[number]}")
        for number, line in ((number, request.first + number + 1) for number in sorted(faults))
    ]
    if refusals and request.on_bad_line == "error":
        raise UserError(refusals[0].sentence)
    return ReadLines(ids, refusals, count_read(list(ids.values()), tokenizer))


def count_read(rows: Sequence[Ids], tokenizer: Tokenizer) -> Counts:
    """How many tokens were read, and how many of them are unknown."""
    unknown = tokenizer.unknown
    return Counts(
        tokens=sum(map(len, rows)),
        unknown=0 if unknown is None else sum(row.count(unknown) for row in rows),
    )


def too_long(config: Config, count: int) -> str | None:
    """Why a model with learned positions cannot read a line of so many tokens, if it cannot."""
    model = config.model
    most = model.max_positions or config.data.max_length
    if model.recurrent or model.positions != "learned" or count <= most:
        return None
    return f"the line has {count:,} tokens, and the model has only {most:,} positions."


def unknown_refusal(tokenizer: Tokenizer, text: str, ids: Ids) -> str | None:
    """Which token of a text the run has never seen, as a reason to refuse it, if there is one."""
    token = tokenizer.first_unknown(text) if tokenizer.unknown in ids else None
    if token is None:
        return None
    known = tokenizer.sample()
    return f"{token[:40]!r} is not in the vocabulary of this run, which knows {known}."


def unknown_warning(where: str, unknown: int, tokens: int) -> list[str]:
    """A sentence on the tokens of a text that have no id of their own, if there are any."""
    if not unknown:
        return []
    count = f"{unknown:,} of {tokens:,} tokens"
    return [f"{where}: {count} are not in the vocabulary, and are read as <unk>."]
