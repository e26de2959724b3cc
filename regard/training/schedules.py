"""Learning-rate schedules: pure functions of the step, counted from 1."""

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(step: int, *, lr: float, warmup: int) -> float:
    """lr · min(1, step / warmup)."""
    return lr * min(1.0, step / max(1, warmup))


def inverse_sqrt(step: int, *, lr: float, warmup: int) -> float:
    """lr · min(step / warmup, √(warmup / step)): its maximum, lr, is at the end of the warm-up."""
    warmup = max(1, warmup)
    return lr * min(step / warmup, math.sqrt(warmup / step))


def noam(step: int, *, lr: float, warmup: int, d_model: int) -> float:
    """lr · D^−½ · min(step^−½, step · warmup^−3/2) (Vaswani et al. 2017, §5.3).

    lr is a factor on the rate of the paper: 1 gives the paper's.
    """
    return lr * d_model**-0.5 * min(step**-0.5, step * max(1, warmup) ** -1.5)


def linear(step: int, *, lr: float, warmup: int, steps: int) -> float:
    """Linear from 0 to lr over the warm-up, then linear down to 0 at the last step."""
    if step <= warmup:
        return lr * step / warmup
    return lr * max(0.0, (steps - step) / max(1, steps - warmup))


def cosine(step: int, *, lr: float, warmup: int, steps: int, cycles: int = 1) -> float:
    """Linear from 0 to lr over the warm-up, then half a cosine down to 0 at the last step.

    cycles: how many times the rate falls from lr to 0 (Loshchilov & Hutter 2017, warm restarts);
    each restart lets the weights leave a minimum for a better one.
    """
    if step <= warmup:
        return lr * step / warmup
    length = math.ceil(steps / cycles)
    cycle = min(cycles - 1, (step - 1) // length)
    begin, end = max(warmup, cycle * length), (cycle + 1) * length
    fraction = min(1.0, (step - begin) / max(1, end - begin))
    return lr * 0.5 * (1 + math.cos(math.pi * fraction))


def make_schedule(
    name: str, *, lr: float, warmup: int, steps: int, d_model: int, cycles: int = 1
) -> Schedule:
    """The schedule of this name, as a function of the step only."""
    schedules: dict[str, Schedule] = {
        "constant": lambda step: constant(step, lr=lr, warmup=warmup),
        "inverse-sqrt": lambda step: inverse_sqrt(step, lr=lr, warmup=warmup),
        "noam": lambda step: noam(step, lr=lr, warmup=warmup, d_model=d_model),
        "linear": lambda step: linear(step, lr=lr, warmup=warmup, steps=steps),
        "cosine": lambda step: cosine(step, lr=lr, warmup=warmup, steps=steps, cycles=cycles),
    }
    if name not in schedules:
        raise ValueError(f"schedule={name!r} is not one of {', '.join(schedules)}")
    return schedules[name]
