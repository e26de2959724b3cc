"""Options that several commands take, each described once."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/sort.")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
DataDirectory = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="Where the files of data.* are.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "-s",
        "--set",
        metavar="KEY=VALUE",
        help="Change a key: -s model.n_heads=8; regard train --keys lists them.",
    ),
]
OtherData = Annotated[
    list[str] | None,
    typer.Option(
        "-s", "--set", metavar="KEY=VALUE", help="Score other data: -s data.test=more.tsv."
    ),
]
OnBadLine = Annotated[
    Literal["error", "skip"] | None,
    typer.Option(
        help="A line that cannot be used: stop and name it, or leave it out and count it."
    ),
]
OnUnreadable = Annotated[
    Literal["error", "skip"],
    typer.Option(
        "--on-bad-line",
        help="A line that cannot be read: stop and name it, or leave its place empty.",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where to compute; auto takes a GPU.")
]
Quantize = Annotated[
    Literal["int8"] | None,
    typer.Option(help="Compute a Transformer's linear maps in 8 bits: faster on a CPU."),
]
Strategy = Annotated[
    Literal["greedy", "beam", "sample"] | None,
    typer.Option(help="The best token each time, the best sequences of a beam, or a draw."),
]
Beam = Annotated[
    int | None, typer.Option(help="Hypotheses kept for each line; asks for beam search.")
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="α: log-probabilities are divided by ((5 + length) / 6)^α."),
]
MaxNewTokens = Annotated[int | None, typer.Option(help="Where to stop a line that does not end.")]
MinLengthRatio = Annotated[
    float | None, typer.Option(help="The fewest tokens of an output, for each of its source.")
]
MaxLengthRatio = Annotated[
    float | None, typer.Option(help="The most; then it must end. 0 for no such limit.")
]
NoRepeatNgram = Annotated[
    int | None, typer.Option(help="Write no stretch of so many tokens twice.")
]
Together = Annotated[
    list[Path] | None,
    typer.Option(
        "--ensemble", metavar="RUN", help="Write together with this run too; may be repeated."
    ),
]
NBest = Annotated[int | None, typer.Option(help="Outputs a line, with tabs between them.")]
Temperature = Annotated[
    float | None, typer.Option(help="Of sampling: below 1 the likely tokens become likelier.")
]
TopK = Annotated[int | None, typer.Option(help="Draw from so many of the best tokens.")]
TopP = Annotated[
    float | None, typer.Option(help="Draw from the fewest with this much probability.")
]
MinP = Annotated[
    float | None, typer.Option(help="Draw from those at least so likely, beside the best.")
]
Seed = Annotated[int | None, typer.Option(help="Of what is drawn.")]
Prefix = Annotated[
    str, typer.Option(help="What every output begins with, written whole whatever its length.")
]
Align = Annotated[
    bool,
    typer.Option(
        "--align",
        help="After a tab, which words come from which: 0-0 1-2 (characters, of zh and ja).",
    ),
]


def of_decoding(given: dict[str, Any]) -> dict[str, Any]:
    """The options on how to decode, of a command's arguments: those with the name of such a key."""
    from regard.config import Decode

    return {
        name: value
        for name, value in given.items()
        if name in Decode.model_fields and value is not None
    }
