"""Back-propagation through time, written out for the RNN and the GRU (Werbos 1990).

    there   h₁ → h₂ → … → h_L        back   dh₁ ← dh₂ ← … ← dh_L

Only what hangs on the step before is computed step by step: one product U h on the way there, one
product δ U on the way back. The rest is done for all steps at once, in a few large products: W x
before the first step there; after the last one back, the gradients of x, W and U, from the δ of
every step. On a CPU torch's own kernels for these two cells record each step by itself. (For the
LSTM it has oneDNN's kernel, which does all this.)

Time comes first here, L B D, so that a step is one block of memory.
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
    """Every h of an RNN, if a nonlinearity is given, or of a GRU; in the weights' precision."""
    stacked = (weights.input, weights.hidden, weights.input_bias, weights.hidden_bias)
    given = (x.transpose(0, 1).to(weights.input).contiguous(), start.to(weights.input), *stacked)
    with torch.autocast(x.device.type, enabled=False):  # products are written into given blocks
        if nonlinearity is None:
            outputs = GruThroughTime.apply(*given)  # type: ignore[no-untyped-call]
        else:
            outputs = RnnThroughTime.apply(*given, nonlinearity)  # type: ignore[no-untyped-call]
    return outputs.transpose(0, 1)


class RnnThroughTime(torch.autograd.Function):
    """hₜ = f(W xₜ + b + U hₜ₋₁ + b'), f = tanh or relu. Going back, for t = L … 1:

        dhₜ = doutₜ + δₜ₊₁ U
        δₜ = dhₜ ⊙ f'

    f' is known from h itself: 1 − h², or 1 where h > 0.
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
        squash = {"tanh": torch.tanh_, "relu": torch.relu_}[nonlinearity]
        outputs = _product(x, W, bias + hidden_bias)  # L B D: W x + b + b', then h in its place
        h = start
        for inside in outputs.unbind():
            h = squash(inside.addmm_(h, U.T))
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
        dW, dU = _of_weights(deltas, x), _of_weights(deltas, _before(start, outputs))
        return deltas @ W, dh, dW, dU, d_bias, d_bias.clone(), None


class GruThroughTime(torch.autograd.Function):
    """hₜ = (1 − z) ⊙ n + z ⊙ hₜ₋₁, with r, z and n as in `gru_step`. Going back, for t = L … 1:

        dhₜ = doutₜ + z ⊙ dhₜ₊₁ + δₜ₊₁ U
        δₜ = dhₜ ⊙ (a u r (1 − r),  (hₜ₋₁ − n) z (1 − z),  a r)

    u = U_n hₜ₋₁ + b'_n, and a = (1 − z) (1 − n²) is what comes through the tanh of n. The three
    factors are known before the first step back. To W and x, where r does not stand before n, the
    third δ is dhₜ ⊙ a.
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
        gates = _product(x, W, bias)  # L B 3D: W x + b, then r, z and n in its place
        recurred = torch.empty_like(gates)  # L B 3D: U h + b'
        outputs = gates.new_empty(*x.shape[:2], D)
        h = start
        sigmoids = (gates[..., : 2 * D], recurred[..., : 2 * D])
        parts = (recurred, *sigmoids, *_gates(gates), _gates(recurred)[2], outputs)
        for product, inside, beside, r, z, n, u, output in zip(
            *(part.unbind() for part in parts), strict=True
        ):
            torch.addmm(hidden_bias, h, U.T, out=product)
            inside.add_(beside).sigmoid_()  # r and z
            n.addcmul_(r, u).tanh_()
            h = torch.lerp(n, h, z, out=output)  # n + z (h − n)
        ctx.save_for_backward(x, start, W, U, gates, recurred, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, d_outputs: Float[Tensor, "L B D"]) -> tuple[Tensor | None, ...]:
        _refuse_second_derivatives()
        x, start, W, U, gates, recurred, outputs = ctx.saved_tensors
        (r, z, n), u, before = _gates(gates), _gates(recurred)[2], _before(start, outputs)
        a = (1 - z) * (1 - n.square())  # L B D
        factors = torch.stack(
            [a * u * r * (1 - r), (before - n) * z * (1 - z), a * r], dim=2
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
        dU, d_hidden_bias = _of_weights(deltas, before), deltas.sum((0, 1))
        torch.mul(d_hidden, a, out=_gates(deltas)[2])
        return deltas @ W, carried, _of_weights(deltas, x), dU, deltas.sum((0, 1)), d_hidden_bias


def _refuse_second_derivatives() -> None:
    """A way back that was itself to be differentiated would be taken for a constant."""
    if torch.is_grad_enabled():
        raise RuntimeError("a recurrent layer has second derivatives with fast=False alone")


def _product(
    x: Float[Tensor, "L B I"], W: Float[Tensor, "G I"], bias: Float[Tensor, "G"]
) -> Float[Tensor, "L B G"]:
    """W x + b at every step."""
    return torch.addmm(bias, x.flatten(0, 1), W.T).unflatten(0, x.shape[:2])


def _of_weights(deltas: Float[Tensor, "L B G"], x: Float[Tensor, "L B I"]) -> Float[Tensor, "G I"]:
    """Σ δ xᵀ over all steps and rows: the gradient of what x was multiplied by."""
    return deltas.flatten(0, 1).T @ x.flatten(0, 1)


def _gates(stacked: Float[Tensor, "L B G"]) -> tuple[Float[Tensor, "L B D"], ...]:
    """The three of a GRU."""
    return stacked.chunk(3, dim=-1)


def _before(start: Float[Tensor, "B D"], outputs: Float[Tensor, "L B D"]) -> Float[Tensor, "L B D"]:
    """hₜ₋₁ of every step."""
    return torch.cat([start[None], outputs[:-1]])


def _backwards(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The last step of each, then the one before it, and so on."""
    return zip(*(reversed(tensor.unbind()) for tensor in tensors), strict=True)
