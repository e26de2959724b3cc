"""Alignments: each word of an output with the word of its source that it attends to."""

import torch

from regard import config
from regard.data.tokenizer import END, START
from regard.nn import Trace
from regard.system.engine import Engine
from regard.tasks import Translate


def test_a_word_is_aligned_by_the_last_layer_but_one_while_it_is_written(monkeypatch) -> None:
    """Here that layer reads backwards; the others, and what is not written, look elsewhere."""
    task = Translate.learn(config.load("sort"))
    (source, output) = task.tokenizer.encode(["1 2 3 4", "9 8 7 6"])
    given = {}

    def reader(read: torch.Tensor, target: torch.Tensor, *, trace: Trace) -> torch.Tensor:
        given["read"], given["target"] = read.tolist(), target.tolist()
        backwards = torch.zeros(1, 2, 5, 5)
        for written in range(4):
            backwards[:, :, written, 3 - written] = 1.0
        first = torch.zeros(1, 2, 5, 5)
        first[..., 0] = 1.0
        for layer, weights in enumerate([first, backwards, first]):
            trace.at(f"decoder.layers.{layer}.cross_attention").record(weights=weights)
            trace.at(f"decoder.layers.{layer}.self_attention").record(weights=first)
        return torch.zeros(1)

    model = task.build_model()
    monkeypatch.setattr(model, "forward", reader)
    (result,) = task._translator.align(model, [source], [output], Engine())
    assert given == {"read": [[*source, END]], "target": [[START, *output]]}
    assert result == [(0, 3), (1, 2), (2, 1), (3, 0)]
