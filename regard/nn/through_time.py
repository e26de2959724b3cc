"""Back-propagation through time, written out for the RNN and the GRU (Werbos 1990).

    forward   h₁ → h₂ → … → h_L        backward   dh₁ ← dh₂ ← … ← dh_L

Only what depends on the previous step is computed step by step: one product U h in the forward
pass, one product δ U in the backward pass. The rest is computed for all steps at once, in a few
large products: W x before the first forward step; the gradients of x, W and U after the last
backward step, from the δ of all steps. On a CPU torch's own kernels for these two cells record
every step for autograd. (For the LSTM it has oneDNN's kernel, which does all this.)

Time is the first axis here, L B D, so that a step is contiguous in memory.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.nn.cells import CellWeights, Nonlinearity


def through_time(
    x: Float[Tensor, "B L I"],
    start: Float[Tensor, "B D"],
    weights: CellWeights,
    *,
    nonlinearity: Nonlinearity | None = None,
) -> Float[Tensor, "B L D"]:
    """h₁ … h_L of an RNN, if a nonlinearity is given, or of a GRU, in the weights' precision."""
    stacked = (weights.input, weights.hidden, weights.input_bias, weights.hidden_bias)
    inputs = (x.transpose(0, 1).to(weights.input).contiguous(), start.to(weights.input), *stacked)
    with torch.autocast(x.device.type, enabled=False):  # products go into preallocated tensors
        if nonlinearity is None:
            outputs = GruThroughTime.apply(*inputs)  # type: ignore[no-untyped-call]
        else:
            outputs = RnnThroughTime.apply(*inputs, nonlinearity)  # type: ignore[no-untyped-call]
    return outputs.transpose(0, 1)


class RnnThroughTime(torch.autograd.Function):
    """hₜ = f(W xₜ + b + U hₜ₋₁ + b'), f = tanh or ReLU. Backward, for t = L … 1:

        dhₜ = doutₜ + δₜ₊₁ U
        δₜ = dhₜ ⊙ f'

    f' follows from h: 1 − h² for tanh; for ReLU, 1 where h > 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "L B I"],
        start: Float[Tensor, "B D"],
        W: Float[Tensor, "D I"],
        U: Float[Tensor, "D D"],
        bias: Float[Tensor, "D"],
        hidden_bias: Float[Tensor, "D"],
        nonlinearity: Nonlinearity,
    ) -> Float[Tensor, "L B D"]:
        activation = {"tanh": torch.tanh_, "relu": torch.relu_}[nonlinearity]
        outputs = _product(x, W, bias + hidden_bias)  # L B D: W x + b + b', overwritten by h
        h = start
        for output in outputs.unbind():
            h = activation(output.addmm_(h, U.T))
        ctx.save_for_backward(x, start, W, U, outputs)
        ctx.nonlinearity = nonlinearity
        return outputs

    @staticmethod
    def backward(ctx: Any, d_outputs: Float[Tensor, "L B D"]) -> tuple[Tensor | None, ...]:
        _refuse_second_derivatives()
        x, start, W, U, outputs = ctx.saved_tensors
        slopes = 1 - outputs.square() if ctx.nonlinearity == "tanh" else outputs.sign()  # L B D
        deltas = torch.empty_like(outputs)
        dh = torch.zeros_like(start)
        for d_output, slope, delta in _backwards(d_outputs, slopes, deltas):
            dh = torch.mul(dh + d_output, slope, out=delta) @ U
        d_bias = deltas.sum((0, 1))
        dW, dU = _weight_gradient(deltas, x), _weight_gradient(deltas, _previous(start, outputs))
        return deltas @ W, dh, dW, dU, d_bias, d_bias.clone(), None


class GruThroughTime(torch.autograd.Function):
    """hₜ = (1 − z) ⊙ n + z ⊙ hₜ₋₁, r, z and n as in `gru_step`. Backward, for t = L … 1:

        dhₜ = doutₜ + z ⊙ dhₜ₊₁ + δₜ₊₁ U
        δₜ = dhₜ ⊙ (a u r (1 − r),  (hₜ₋₁ − n) z (1 − z),  a r)

    u = U_n hₜ₋₁ + b'_n, and a = (1 − z) (1 − n²) is the derivative of hₜ by the input of n's tanh.
    The three factors are computed for all steps before the loop. For W and x, whose product is not
    multiplied by r in n, the third δ is dhₜ ⊙ a.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "L B I"],
        start: Float[Tensor, "B D"],
        W: Float[Tensor, "G I"],
        U: Float[Tensor, "G D"],
        bias: Float[Tensor, "G"],
        hidden_bias: Float[Tensor, "G"],
    ) -> Float[Tensor, "L B D"]:
        D = start.size(-1)
        gates = _product(x, W, bias)  # L B 3D: W x + b, overwritten by r, z and n
        recurred = torch.empty_like(gates)  # L B 3D: U h + b'
        outputs = gates.new_empty(*x.shape[:2], D)
        h = start
        sigmoids = (gates[..., : 2 * D], recurred[..., : 2 * D])
        parts = (recurred, *sigmoids, *_gates(gates), _gates(recurred)[2], outputs)
        for product, r_and_z, from_hidden, r, z, n, u, output in zip(
            *(part.unbind() for part in parts), strict=True
        ):
            torch.addmm(hidden_bias, h, U.T, out=product)
            r_and_z.add_(from_hidden).sigmoid_()
            n.addcmul_(r, u).tanh_()
            h = torch.lerp(n, h, z, out=output)  # n + z (h − n)
        ctx.save_for_backward(x, start, W, U, gates, recurred, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, d_outputs: Float[Tensor, "L B D"]) -> tuple[Tensor | None, ...]:
        _refuse_second_derivatives()
        x, start, W, U, gates, recurred, outputs = ctx.saved_tensors
        (r, z, n), u, previous = _gates(gates), _gates(recurred)[2], _previous(start, outputs)
        a = (1 - z) * (1 - n.square())  # L B D
        factors = torch.stack(
            [a * u * r * (1 - r), (previous - n) * z * (1 - z), a * r], dim=2
        )  # L B 3 D
        deltas, d_hidden = torch.empty_like(factors), torch.empty_like(a)
        carried = torch.zeros_like(start)
        for d_output, factor, keep, delta, dh in _backwards(
            d_outputs, factors, z, deltas, d_hidden
        ):
            torch.add(carried, d_output, out=dh)
            torch.mul(dh[:, None], factor, out=delta)
            carried = torch.addmm(dh * keep, delta.flatten(1), U)
        deltas = deltas.flatten(2)  # L B 3D
        dU, d_hidden_bias = _weight_gradient(deltas, previous), deltas.sum((0, 1))
        torch.mul(d_hidden, a, out=_gates(deltas)[2])
        dW, d_bias = _weight_gradient(deltas, x), deltas.sum((0, 1))
        return deltas @ W, carried, dW, dU, d_bias, d_hidden_bias


def _refuse_second_derivatives() -> None:
    """Raise if the backward pass is itself differentiated: autograd would see a constant."""
    if torch.is_grad_enabled():
        raise RuntimeError("second derivatives of a recurrent layer need fast=False")


def _product(
    x: Float[Tensor, "L B I"], W: Float[Tensor, "G I"], bias: Float[Tensor, "G"]
) -> Float[Tensor, "L B G"]:
    """W x + b at every step."""
    return torch.addmm(bias, x.flatten(0, 1), W.T).unflatten(0, x.shape[:2])


def _weight_gradient(
    deltas: Float[Tensor, "L B G"], x: Float[Tensor, "L B I"]
) -> Float[Tensor, "G I"]:
    """Σ δ xᵀ over all steps and rows: the gradient of the matrix that multiplies x."""
    return deltas.flatten(0, 1).T @ x.flatten(0, 1)


def _gates(stacked: Float[Tensor, "L B G"]) -> tuple[Float[Tensor, "L B D"], ...]:
    """The three gates of a GRU, of every step."""
    return stacked.chunk(3, dim=-1)


def _previous(
    start: Float[Tensor, "B D"], outputs: Float[Tensor, "L B D"]
) -> Float[Tensor, "L B D"]:
    """hₜ₋₁ of every step."""
    return torch.cat([start[None], outputs[:-1]])


def _backwards(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The steps of several tensors L …, from the last to the first."""
    return zip(*(reversed(tensor.unbind()) for tensor in tensors), strict=True)
