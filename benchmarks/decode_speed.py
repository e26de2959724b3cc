"""Beam search with a key/value cache against the same search without one.

    python -m benchmarks.decode_speed                (about three minutes)

32 sentences to 64 tokens each, beam 5. The model is random and never ends by itself: both sides
write all 64 tokens, and must write the same ones.
"""

import argparse
import time

import torch

from benchmarks.interleave import Contestant, Work, print_table, ratio, serve, take_turns
from regard.decoding import Replay, Stepper, beam_search
from regard.models import Transformer

SENTENCES, LENGTH, NEW_TOKENS, BEAM, VOCAB = 32, 16, 64, 5, 8000
NO_TOKEN = VOCAB
"""An end that is never written."""


def search(stepper: Stepper, source: torch.Tensor) -> list[list[int]]:
    found = beam_search(
        stepper, source, start=1, end=NO_TOKEN, max_new_tokens=NEW_TOKENS, beam=BEAM, alpha=0.6
    )
    return [hypotheses[0].tokens for hypotheses in found]


def make(width: int, *, cached: bool) -> tuple[Work, list[list[int]]]:
    torch.manual_seed(0)
    model = Transformer(
        VOCAB, VOCAB, d_model=width, n_layers=3, n_heads=width // 32, d_ff=4 * width
    ).eval()
    source = torch.randint(4, VOCAB, (SENTENCES, LENGTH))
    stepper: Stepper = model if cached else Replay(model)

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
        work, tokens = make(options.widths[0], cached=options.contestant == "cached")
        serve(work, {"tokens": tokens})
        return
    rows = []
    for width in options.widths:
        cached, uncached = (
            Contestant(__file__, name, "--widths", width) for name in ("cached", "uncached")
        )
        same = sum(
            one == other
            for one, other in zip(cached.facts["tokens"], uncached.facts["tokens"], strict=True)
        )
        take_turns([cached, uncached], rounds=options.rounds)
        rows.append(
            [
                str(width),
                f"{uncached.speed:.2f}",
                f"{cached.speed:.2f}",
                f"**{ratio(cached, uncached):.1f}×**",
                f"{same} of {SENTENCES}",
            ]
        )
        print(f"width {width} done", flush=True)
    print_table(
        [
            "width",
            "uncached, sentences/s",
            "cached, sentences/s",
            "cached / uncached",
            "same output",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
