"""Recurrent layers over a padded batch, computed by fused kernels or step by step."""

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.nn.cells import GATES, CellKind, CellState, CellWeights, Nonlinearity, check_kind
from regard.nn.dropout import Dropout
from regard.nn.padded_kernel import run_padded
from regard.nn.randomness import generator
from regard.nn.step_by_step import run_step_by_step
from regard.nn.trace import Trace, at

RecurrentInit = Literal["orthogonal", "uniform"]

FAST = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Recurrent(nn.Module):
    """The outputs and the final state of n_layers of cells, run over time in one or two directions.

        forward    h₁ → h₂ → h₃ → …        the state does not change in padding: the final
        backward   h₁ ← h₂ ← h₃ ← …        state of a row is the one at its own length

    The fast path is a kernel. On a GPU it is torch's, on packed sequences. On a CPU it works on
    padded sequences, and is torch's for an LSTM and `through_time` for the other cells. The
    reference path, taken with fast=False or with a trace, runs the written-out cell step by step.
    All paths use the same weights.
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
        """The width of the outputs: both directions, concatenated."""
        return self.d_model * self.directions

    def _initialise(self) -> None:
        """Make recurrent weights orthogonal, which preserves norms (Saxe et al. 2014).

        Biases are zero, except that an LSTM's forget gate starts open (Jozefowicz et al. 2015).
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
        """The outputs (zeros in padding) and the final state: tensors B N D, N layers × directions.

        lengths: how many steps of each row are real, 0 allowed; None: all.
        """
        if x.size(1) == 0:
            raise ValueError("a recurrent layer needs at least one step, and the batch has none")
        if initial is None:
            shape = (x.size(0), self.n_layers * self.directions, self.d_model)
            zero = x.new_zeros(shape)
            initial = (zero, zero) if self.kind == "lstm" else (zero,)
        if not self.fast or trace is not None:
            return self._reference(x, lengths, initial, trace)
        if lengths is not None and x.device.type == "cpu" and bool((lengths == x.size(1)).all()):
            lengths = None
        run = self._padded if self._runs_padded(x, lengths) else self._packed
        return run(x, lengths, initial)

    def _runs_padded(self, x: Float[Tensor, "B L I"], lengths: Int[Tensor, "B"] | None) -> bool:
        """Whether to run one layer and direction at a time over the padded batch."""
        if x.device.type != "cpu":
            return False
        if lengths is not None:
            # ReLU is not bounded: the state could overflow in padding.
            return self.options.get("nonlinearity") != "relu"
        if self.training and self.layers.dropout > 0 and generator() is not None:
            return True  # torch's kernel would sample from the generator that all threads share
        return self.kind != "lstm" and x.size(1) > 1

    def _padded(
        self, x: Float[Tensor, "B L I"], lengths: Int[Tensor, "B"] | None, initial: CellState
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Run one layer and direction at a time by a kernel over the padded batch.

        On a CPU kernels are faster on one padded block than on packed sequences. Padding is at the
        end, where it cannot change the steps before it; for the backward direction, each row is
        reversed within its length. The outputs of padding are set to zero.
        """
        if lengths is None:
            return self._every_layer(x, initial, self._read_unpadded)
        steps = torch.arange(x.size(1), device=x.device)  # L
        real = steps < lengths[:, None]  # B L
        reversed_steps = torch.where(real, lengths[:, None] - 1 - steps, steps)[:, :, None]  # B L 1
        last = (lengths - 1).clamp(min=0)[:, None, None]  # B 1 1
        x = x.masked_fill(~real[:, :, None], 0.0)
        nonempty = (lengths > 0)[:, None]  # B 1

        def read(
            x: Tensor, state: CellState, layer: int, direction: int
        ) -> tuple[Tensor, CellState]:
            ordered = x.take_along_dim(reversed_steps, dim=1) if direction else x
            outputs, cell_state = self._kernel(ordered, real, state, layer, direction)
            final = (outputs.take_along_dim(last, dim=1)[:, 0], *cell_state)
            outputs = outputs * real[:, :, None]
            return (
                outputs.take_along_dim(reversed_steps, dim=1) if direction else outputs,
                tuple(
                    torch.where(nonempty, new, old) for new, old in zip(final, state, strict=True)
                ),
            )

        return self._every_layer(x, initial, read)

    def _read_unpadded(
        self, x: Float[Tensor, "B L I"], state: CellState, layer: int, direction: int
    ) -> tuple[Float[Tensor, "B L D"], CellState]:
        """One layer in one direction over rows without padding."""
        ordered = x.flip(1) if direction else x
        outputs, cell_state = self._kernel(ordered, None, state, layer, direction)
        return outputs.flip(1) if direction else outputs, (outputs[:, -1], *cell_state)

    def _kernel(
        self, x: Tensor, real: Tensor | None, state: CellState, layer: int, direction: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The outputs of one layer and, for an LSTM, its final cell state."""
        return run_padded(
            x,
            state,
            self._weights(layer, direction),
            kind=self.kind,
            real=real,
            training=self.training,
            **self.options,
        )

    def _packed(
        self, x: Float[Tensor, "B L I"], lengths: Int[Tensor, "B"] | None, initial: CellState
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Run all layers by torch's kernel; padded sequences are packed first."""
        start = tuple(part.transpose(0, 1).contiguous() for part in initial)  # N B D
        hidden = start if self.kind == "lstm" else start[0]
        if lengths is None:
            outputs, final = self.layers(x, hidden)
        else:
            # The kernel takes no empty sequence: run one step of it, and discard the result.
            packed = pack_padded_sequence(
                x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
            )
            packed_outputs, final = self.layers(packed, hidden)
            outputs, _ = pad_packed_sequence(
                packed_outputs, batch_first=True, total_length=x.size(1)
            )
        states = tuple(
            part.transpose(0, 1) for part in (final if self.kind == "lstm" else (final,))
        )
        if lengths is None:
            return outputs, states
        nonempty = (lengths > 0)[:, None, None]  # B 1 1
        return outputs * nonempty, tuple(
            torch.where(nonempty, new, old) for new, old in zip(states, initial, strict=True)
        )

    def _reference(
        self,
        x: Float[Tensor, "B L I"],
        lengths: Int[Tensor, "B"] | None,
        initial: CellState,
        trace: Trace | None,
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Run the written-out cell step by step."""
        if lengths is None:
            lengths = torch.full((x.size(0),), x.size(1), device=x.device)
        real = torch.arange(x.size(1), device=x.device) < lengths[:, None]  # B L

        def read(
            x: Tensor, state: CellState, layer: int, direction: int
        ) -> tuple[Tensor, CellState]:
            path = f"layers.{layer}.{'backward' if direction else 'forward'}"
            return run_step_by_step(
                x,
                state,
                self._weights(layer, direction),
                kind=self.kind,
                real=real,
                reverse=direction == 1,
                trace=at(trace, path),
                **self.options,
            )

        return self._every_layer(x, initial, read)

    def _every_layer(
        self,
        x: Float[Tensor, "B L I"],
        initial: CellState,
        read: Callable[[Tensor, CellState, int, int], tuple[Tensor, CellState]],
    ) -> tuple[Float[Tensor, "B L O"], CellState]:
        """Apply read(x, state, layer, direction) for every layer and, within it, direction."""
        finals: list[CellState] = []
        for layer in range(self.n_layers):
            if layer > 0:
                x = self.between(x)
            directions = []
            for direction in range(self.directions):
                number = layer * self.directions + direction
                outputs, state = read(
                    x, tuple(part[:, number] for part in initial), layer, direction
                )
                directions.append(outputs)
                finals.append(state)
            x = torch.cat(directions, dim=-1)  # B L O
        return x, tuple(torch.stack(parts, dim=1) for parts in zip(*finals, strict=True))

    def _weights(self, layer: int, direction: int) -> CellWeights:
        """The weights of one layer and direction, as torch names them."""
        suffix = f"_l{layer}{'_reverse' if direction else ''}"
        return CellWeights(
            *(
                getattr(self.layers, f"{name}{suffix}")
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
    """Recurrent layers whose outputs have width d_model; two directions have half of it each."""
    directions = 2 if bidirectional else 1
    if d_model % directions:
        raise ValueError(f"d_model={d_model} is odd: each of two directions needs half of it")
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
