"""Beam search with a key/value cache against the same search without one.

    python -m benchmarks.decode_speed                     (about three minutes)
    python -m benchmarks.decode_speed --against DIR       (this checkout against another one)

32 sentences to 64 tokens each, beam 5. The model is random and generates no end: all sides
generate all 64 tokens, and must generate the same ones. There are two ways
without a cache: to compute everything again at every step (regard.decoding.Replay), or to keep the
encoder output and compute again the target so far, and the logits of its last position only.

With --against, greedy and beam search of both checkouts take turns.
"""

import argparse
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard import decoding
from regard.decoding import Replay, Stepper
from regard.models import Transformer
from regard.nn import causal_mask

try:
    from regard.system.memory import keep_freed_memory
except ImportError:  # a checkout in which it stood elsewhere
    from regard.training.engine import keep_freed_memory  # type: ignore[no-redef,attr-defined,import-not-found,unused-ignore]

SENTENCES, LENGTH, NEW_TOKENS, BEAM, VOCAB = 32, 16, 64, 5, 8000
NO_TOKEN = VOCAB
"""An end that is never generated."""


@dataclass(frozen=True)
class Prefix:
    """The encoder output, and all tokens so far."""

    memory: Tensor
    mask: Tensor | None
    tokens: Tensor

    def select(self, rows: Tensor) -> "Prefix":
        mask = None if self.mask is None else self.mask[rows]
        return Prefix(self.memory[rows], mask, self.tokens[rows])


class Uncached:
    """A stepper that runs the decoder over the whole target at every step."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def start(self, source: Tensor, lengths: Tensor | None = None) -> Prefix:
        memory, mask = self.model.encode(source, lengths)
        return Prefix(memory, mask, source.new_empty(source.size(0), 0))

    def step(self, tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        target = torch.cat([state.tokens, tokens[:, None]], dim=1)
        hidden = self.model.decoder(
            self.model.target_embedding(target),
            state.memory,
            mask=causal_mask(target.size(1)),
            memory_mask=state.mask,
        )
        return self.model.output(hidden[:, -1]), Prefix(state.memory, state.mask, target)


@torch.inference_mode()
def search(stepper: Stepper, source: Tensor, *, beam: int = BEAM) -> list[list[int]]:
    """The best output of each source, by beam search; by greedy search where beam is 1."""
    strategy: Callable[..., Any] = decoding.greedy if beam == 1 else decoding.beam_search
    options = {} if beam == 1 else {"beam": beam, "alpha": 0.6}
    options |= {"end": NO_TOKEN, "max_new_tokens": NEW_TOKENS}
    if "state" in inspect.signature(strategy).parameters:
        first = torch.ones(len(source), dtype=torch.long)
        hypotheses = decoding.collect(strategy(stepper, stepper.start(source), first, **options))
    else:  # a checkout in which a search returned its hypotheses and not its steps
        hypotheses = strategy(stepper, source, start=1, **options)
    return [
        (of_source[0] if isinstance(of_source, list) else of_source).tokens
        for of_source in hypotheses
    ]


def make(width: int, name: str) -> tuple[Work, list[list[int]]]:
    torch.manual_seed(0)
    model = Transformer(
        VOCAB, VOCAB, d_model=width, n_layers=3, n_heads=width // 32, d_ff=4 * width
    ).eval()
    source = torch.randint(4, VOCAB, (SENTENCES, LENGTH))
    steppers: dict[str, Stepper] = {"target again": Uncached(model), "all again": Replay(model)}
    stepper = steppers.get(name, model)
    beam = 1 if name == "greedy" else BEAM

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        search(stepper, source, beam=beam)
        return time.perf_counter() - began, SENTENCES

    return work, search(stepper, source, beam=beam)


def against(checkout: Path, *, widths: list[int], rounds: int) -> None:
    """Greedy and beam search of this checkout and of another one, in turns."""
    rows = []
    for width in widths:
        for name in ("greedy", "beam"):
            ours = Contestant(__file__, name, "--widths", width)
            theirs = Contestant(__file__, name, "--widths", width, checkout=checkout)
            same = sum(
                a == b for a, b in zip(ours.facts["tokens"], theirs.facts["tokens"], strict=True)
            )
            take_turns([ours, theirs], rounds=rounds)
            speeds = [f"{side.speed * NEW_TOKENS:,.0f}" for side in (ours, theirs)]
            row = [str(width), name, *speeds, f"**{ratio(ours, theirs):.3f}**"]
            rows.append([*row, f"{same} of {SENTENCES}"])
            print(f"width {width}, {name} done", flush=True)
    header = ["width", "search", "this checkout, tokens/s", "the other", "ratio", "same output"]
    print_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout to compare")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        keep_freed_memory()  # as the command does
        work, tokens = make(options.widths[0], options.contestant)
        serve(work, {"tokens": tokens})
        return
    if options.against:
        against(options.against, widths=options.widths, rounds=options.rounds)
        return
    rows = []
    for width in options.widths:
        cached, target_again, all_again = (
            Contestant(__file__, name, "--widths", width)
            for name in ("cached", "target again", "all again")
        )
        outputs = (side.facts["tokens"] for side in (cached, target_again, all_again))
        same = sum(one == two == three for one, two, three in zip(*outputs, strict=True))
        take_turns([cached, target_again, all_again], rounds=options.rounds)
        rows.append(
            [
                str(width),
                f"{cached.speed:.1f}",
                f"{all_again.speed:.1f}",
                f"{target_again.speed:.1f}",
                f"**{ratio(cached, all_again):.1f}×**",
                f"**{ratio(cached, target_again):.1f}×**",
                f"{same} of {SENTENCES}",
            ]
        )
        print(f"width {width} done", flush=True)
    print_table(
        [
            "width",
            "cached, sentences/s",
            "all again",
            "target again",
            "cached / all again",
            "cached / target again",
            "same output",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
