"""Recurrent layers over a padded batch: cells in a loop, or kernels."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.cells import (
    GATES,
    STEPS,
    CellKind,
    CellState,
    CellWeights,
    Nonlinearity,
    check_kind,
)
from regard.nn.dropout import Dropout
from regard.nn.randomness import generator
from regard.nn.through_time import through_time
from regard.nn.trace import Trace, at

RecurrentInit = Literal["orthogonal", "uniform"]

SHUT = 1e4
"""σ(−SHUT) = 0 and σ(SHUT) = 1, whatever else a gate is given by the state."""

FAST = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Recurrent(nn.Module):
    """n_layers of cells over time, in one direction or both: outputs, and the state after the end.

        forward    h₁ → h₂ → h₃ → …        the state past a sequence's end is held: its
        backward   h₁ ← h₂ ← h₃ ← …        final state is taken at its own length, never
                                           from padding

    The fast path is a kernel. On a GPU it is torch's, on packed sequences; on a CPU, on padded
    ones, torch's for an LSTM and `through_time` for other cells. The reference path, taken by
    fast=False or with a trace, steps through time with the written-out cell. All use the same
    weights.
    """

    def __init__(
        self,
        kind: CellKind,
        d_input: int,
        d_model: int,
        *,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        nonlinearity: Nonlinearity = "tanh",
        init: RecurrentInit = "orthogonal",
        fast: bool = True,
    ) -> None:
        super().__init__()
        check_kind(kind)
        self.kind: CellKind = kind
        self.d_model = d_model
        self.n_layers = n_layers
        self.directions = 2 if bidirectional else 1
        self.between = Dropout(dropout)
        self.fast = fast
        self.options = {"nonlinearity": nonlinearity} if kind == "rnn" else {}
        self.layers = FAST[kind](
            d_input,
            d_model,
            n_layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,
            **self.options,
        )
        if init == "orthogonal":  # torch's own is uniform in ±1/√D
            self._initialise()

    @property
    def d_output(self) -> int:
        """The width of the outputs: both directions side by side."""
        return self.d_model * self.directions

    def _initialise(self) -> None:
        """Orthogonal recurrent weights keep the length of what they turn (Saxe et al. 2014).

        Biases are zero, but an LSTM's forget gate starts open (Jozefowicz et al. 2015).
        """
        for name, weight in self.layers.named_parameters():
            with torch.no_grad():
                for gate, block in zip(
                    GATES[self.kind], weight.chunk(len(GATES[self.kind])), strict=True
                ):
                    if name.startswith("weight_hh"):
                        nn.init.orthogonal_(block)
                    elif name.startswith("weight_ih"):
                        nn.init.xavier_uniform_(block)
                    else:
                        block.fill_(1.0 if gate == "forget" and name.startswith("bias_ih") else 0.0)

    # A compiler would unroll every step, and cannot call oneDNN's kernel.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Float[Tensor, "B L I"],
        lengths: Int[Tensor, "B"] | None = None,
        *,
        initial: CellState | None = None,
        trace: Trace | None = None,
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Outputs (zeros past each length) and the final state, B N D each: N layers × directions.

        lengths: how many steps of each row are real, 0 allowed; None where all are.
        """
        if x.size(1) == 0:
            raise ValueError("sequences of length 0 were given, and there must be a step to take")
        if initial is None:
            shape = (x.size(0), self.n_layers * self.directions, self.d_model)
            zero = x.new_zeros(shape)
            initial = (zero, zero) if self.kind == "lstm" else (zero,)
        if not self.fast or trace is not None:
            return self._reference(x, lengths, initial, trace)
        if lengths is not None and x.device.type == "cpu" and bool((lengths == x.size(1)).all()):
            lengths = None
        way = self._padded if self._pads(x, lengths) else self._packed
        return way(x, lengths, initial)

    def _pads(self, x: Float[Tensor, "B L I"], lengths: Int[Tensor, "B"] | None) -> bool:
        """Whether to go a layer and a direction at a time, over padding and all."""
        if x.device.type != "cpu":
            return False
        if lengths is not None:
            # What is not squashed could grow without end in padding.
            return self.options.get("nonlinearity") != "relu"
        if self.training and self.layers.dropout > 0 and generator() is not None:
            return True  # torch's kernel would draw from the generator that all threads share
        return self.kind != "lstm" and x.size(1) > 1

    def _padded(
        self, x: Float[Tensor, "B L I"], lengths: Int[Tensor, "B"] | None, initial: CellState
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """By a kernel over padding and all, a layer and a direction at a time.

        On a CPU kernels are faster on one padded block than on packed sequences. Padding stands at
        the end, where it changes nothing before it: the backward direction reads each row turned
        round within its length. What comes out of padding is not looked at.
        """
        if lengths is None:
            return self._every_layer(x, initial, self._read_whole)
        steps = torch.arange(x.size(1), device=x.device)  # L
        real = steps < lengths[:, None]  # B L
        turned = torch.where(real, lengths[:, None] - 1 - steps, steps)[:, :, None]  # B L 1
        last = (lengths - 1).clamp(min=0)[:, None, None]  # B 1 1
        x = x.masked_fill(~real[:, :, None], 0.0)
        there = (lengths > 0)[:, None]  # B 1

        def read(
            x: Tensor, state: CellState, layer: int, direction: int
        ) -> tuple[Tensor, CellState]:
            ordered = x.take_along_dim(turned, dim=1) if direction else x
            outputs, memory = self._kernel(ordered, real, state, self._weights(layer, direction))
            new = (outputs.take_along_dim(last, dim=1)[:, 0], *memory)
            outputs = outputs * real[:, :, None]
            return (
                outputs.take_along_dim(turned, dim=1) if direction else outputs,
                tuple(torch.where(there, one, old) for one, old in zip(new, state, strict=True)),
            )

        return self._every_layer(x, initial, read)

    def _read_whole(
        self, x: Float[Tensor, "B L I"], state: CellState, layer: int, direction: int
    ) -> tuple[Float[Tensor, "B L D"], CellState]:
        """One layer in one direction over rows without padding."""
        ordered = x.flip(1) if direction else x
        outputs, memory = self._kernel(ordered, None, state, self._weights(layer, direction))
        return outputs.flip(1) if direction else outputs, (outputs[:, -1], *memory)

    def _kernel(
        self,
        x: Float[Tensor, "B L I"],
        real: Bool[Tensor, "B L"] | None,
        state: CellState,
        weights: CellWeights,
    ) -> tuple[Float[Tensor, "B L D"], tuple[Tensor, ...]]:
        """One layer over padded rows: every output and, of an LSTM, the memory at the end."""
        if self.kind != "lstm":
            return through_time(x, state[0], weights, **self.options), ()
        stacked = [weights.input, weights.hidden, weights.input_bias, weights.hidden_bias]
        if real is not None:
            # The kernel gives the memory after the last step alone. One more input, on in padding,
            # shuts the input gate and opens the forget gate, so that the memory is held till then.
            held = weights.input.new_zeros(weights.input.size(0), 1)
            for gate, block in zip(GATES["lstm"], held.chunk(4), strict=True):
                block.fill_({"input": -SHUT, "forget": SHUT}.get(gate, 0.0))
            stacked[0] = torch.cat([weights.input, held], dim=1)
            x = torch.cat([x, (~real)[:, :, None].to(x.dtype)], dim=-1)
        start = [part[None].contiguous() for part in state]  # 1 B D
        options = (True, 1, 0.0, self.training, False, True)  # one layer with biases, batch first
        outputs, _, memory = torch.lstm(x, start, stacked, *options)
        return outputs, (memory[0],)

    def _packed(
        self, x: Float[Tensor, "B L I"], lengths: Int[Tensor, "B"] | None, initial: CellState
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """By torch's kernel, which sees no padding: where there is any, sequences are packed."""
        start = tuple(part.transpose(0, 1).contiguous() for part in initial)  # N B D
        given = start if self.kind == "lstm" else start[0]
        if lengths is None:
            outputs, final = self.layers(x, given)
        else:
            # The kernel takes no empty sequence: give it one step, and undo it.
            packed = pack_padded_sequence(
                x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
            )
            packed_outputs, final = self.layers(packed, given)
            outputs, _ = pad_packed_sequence(
                packed_outputs, batch_first=True, total_length=x.size(1)
            )
        states = tuple(
            part.transpose(0, 1) for part in (final if self.kind == "lstm" else (final,))
        )
        if lengths is None:
            return outputs, states
        there = (lengths > 0)[:, None, None]  # B 1 1
        return outputs * there, tuple(
            torch.where(there, new, old) for new, old in zip(states, initial, strict=True)
        )

    def _reference(
        self,
        x: Float[Tensor, "B L I"],
        lengths: Int[Tensor, "B"] | None,
        initial: CellState,
        trace: Trace | None,
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Step after step, by the written-out cell."""
        L = x.size(1)
        steps = torch.arange(L, device=x.device)
        real = (
            steps[None, :] < (x.new_full((x.size(0),), L) if lengths is None else lengths)[:, None]
        )

        def read(
            x: Tensor, state: CellState, layer: int, direction: int
        ) -> tuple[Tensor, CellState]:
            where = f"layers.{layer}.{'backward' if direction else 'forward'}"
            return self._one_direction(
                x,
                real,
                state,
                self._weights(layer, direction),
                reverse=direction == 1,
                trace=at(trace, where),
            )

        return self._every_layer(x, initial, read)

    def _every_layer(
        self,
        x: Float[Tensor, "B L I"],
        initial: CellState,
        read: Callable[[Tensor, CellState, int, int], tuple[Tensor, CellState]],
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Layer after layer, direction after direction: read(x, state, layer, direction)."""
        finals: list[CellState] = []
        for layer in range(self.n_layers):
            if layer > 0:
                x = self.between(x)
            sides = []
            for direction in range(self.directions):
                number = layer * self.directions + direction
                outputs, state = read(
                    x, tuple(part[:, number] for part in initial), layer, direction
                )
                sides.append(outputs)
                finals.append(state)
            x = torch.cat(sides, dim=-1)  # B L O
        return x, tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))

    def _one_direction(
        self,
        x: Float[Tensor, "B L I"],
        real: Bool[Tensor, "B L"],
        state: CellState,
        weights: CellWeights,
        *,
        reverse: bool,
        trace: Trace | None,
    ) -> tuple[Float[Tensor, "B L D"], CellState]:
        """One layer in one direction; where a step is padding, the state is held."""
        L = x.size(1)
        found: list[Tensor] = [x.new_empty(0)] * L
        gates: list[dict[str, Tensor]] = [{}] * L
        for step in reversed(range(L)) if reverse else range(L):
            looked = None if trace is None else Trace()
            new = STEPS[self.kind](x[:, step], state, weights, trace=looked, **self.options)
            here = real[:, step, None]  # B 1
            state = tuple(torch.where(here, one, old) for one, old in zip(new, state, strict=True))
            found[step] = new[0] * here
            if looked is not None:
                gates[step] = looked[""]
        if trace is not None:
            trace.record(
                **{name: torch.stack([one[name] for one in gates], 1) for name in gates[0]}
            )
        return torch.stack(found, dim=1), state

    def _weights(self, layer: int, direction: int) -> CellWeights:
        """The weights of one layer and direction, as torch names them."""
        end = f"_l{layer}{'_reverse' if direction else ''}"
        return CellWeights(
            *(
                getattr(self.layers, f"{name}{end}")
                for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
        )


def encoder(
    kind: CellKind,
    d_model: int,
    *,
    n_layers: int,
    bidirectional: bool,
    dropout: float,
    init: RecurrentInit,
    fast: bool,
) -> Recurrent:
    """Layers of width d_model in all: read both ways, each direction has half of it."""
    directions = 2 if bidirectional else 1
    if d_model % directions:
        raise ValueError(f"d_model={d_model} does not divide into two directions")
    return Recurrent(
        kind,
        d_model,
        d_model // directions,
        n_layers=n_layers,
        bidirectional=bidirectional,
        dropout=dropout,
        init=init,
        fast=fast,
    )
