"""Beam search with a key/value cache against the same search without one.

    python -m benchmarks.decode_speed                (about three minutes)

32 sentences to 64 tokens each, beam 5. The model is random and never ends by itself: both sides
write all 64 tokens, and must write the same ones. Two ways to do without a cache: to compute all
again at every step (regard.decoding.Replay), and to keep the encoded source, computing again the
target so far and scoring its last position alone.
"""

import argparse
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard.decoding import Replay, Stepper, beam_search
from regard.models import Transformer

SENTENCES, LENGTH, NEW_TOKENS, BEAM, VOCAB = 32, 16, 64, 5, 8000
NO_TOKEN = VOCAB
"""An end that is never written."""


@dataclass(frozen=True)
class Prefix:
    """The encoded source, and all tokens so far."""

    memory: Tensor
    mask: Tensor
    tokens: Tensor

    def select(self, rows: Tensor) -> "Prefix":
        return Prefix(self.memory[rows], self.mask[rows], self.tokens[rows])


class Uncached:
    """A stepper that runs the decoder over the whole target at every step."""

    def __init__(self, model: Transformer) -> None:
        self.model = model

    def start(self, source: Tensor, source_lengths: Tensor | None = None) -> Prefix:
        lengths = torch.full((source.size(0),), source.size(1))
        memory, mask = self.model.encode(source, lengths)
        assert mask is not None
        return Prefix(memory, mask, source.new_empty(source.size(0), 0))

    def step(self, tokens: Tensor, state: Prefix) -> tuple[Tensor, Prefix]:
        target = torch.cat([state.tokens, tokens[:, None]], dim=1)
        hidden = self.model.decoder(
            self.model.target_embedding(target),
            state.memory,
            is_causal=True,
            memory_mask=state.mask,
        )
        return self.model.output(hidden[:, -1]), Prefix(state.memory, state.mask, target)


def search(stepper: Stepper, source: torch.Tensor) -> list[list[int]]:
    found = beam_search(
        stepper, source, start=1, end=NO_TOKEN, max_new_tokens=NEW_TOKENS, beam=BEAM, alpha=0.6
    )
    return [hypotheses[0].tokens for hypotheses in found]


def make(width: int, name: str) -> tuple[Work, list[list[int]]]:
    torch.manual_seed(0)
    model = Transformer(
        VOCAB, VOCAB, d_model=width, n_layers=3, n_heads=width // 32, d_ff=4 * width
    ).eval()
    source = torch.randint(4, VOCAB, (SENTENCES, LENGTH))
    steppers: dict[str, Stepper] = {
        "cached": model,
        "target again": Uncached(model),
        "all again": Replay(model),
    }
    stepper = steppers[name]

    def work() -> tuple[float, float]:
        began = time.perf_counter()
        search(stepper, source)
        return time.perf_counter() - began, SENTENCES

    return work, search(stepper, source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contestant:
        work, tokens = make(options.widths[0], options.contestant)
        serve(work, {"tokens": tokens})
        return
    rows = []
    for width in options.widths:
        cached, target_again, all_again = (
            Contestant(__file__, name, "--widths", width)
            for name in ("cached", "target again", "all again")
        )
        outputs = (one.facts["tokens"] for one in (cached, target_again, all_again))
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
