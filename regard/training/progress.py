"""A progress bar on standard error, or plain lines where that is not a terminal."""

import time
from typing import IO, Any, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from regard.system.standard_error import standard_error
from regard.training.loop import Loop

PLAIN_SECONDS = 10.0
"""How often a plain line is printed."""


class ShowProgress:
    """Losses, accuracies, learning rate, tokens per second and time left, while a loop runs.

    quiet: show nothing, as on ranks that do not write.
    """

    def __init__(self, *, steps: int, done: int = 0, quiet: bool = False) -> None:
        # Training goes on where standard error is closed, its reader has left, or its disk is full.
        self._console = Console(file=cast(IO[str], standard_error()), highlight=False, quiet=quiet)
        self._steps = steps
        self._bar: Progress | None = None
        self._began = self._last = time.monotonic()
        self._first = done
        self._tokens = 0
        self._tokens_began = (0, self._began)
        self._speed = 0.0
        if self._console.file.isatty() and not quiet:
            self._bar = Progress(
                TextColumn("[bold]{task.completed:.0f}/{task.total:.0f}"),
                BarColumn(bar_width=None),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                console=self._console,
                refresh_per_second=4,
            )
            self._task = self._bar.add_task("", total=steps, completed=done)

    def __enter__(self) -> "ShowProgress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def after_step(self, loop: Loop) -> None:
        self._tokens += loop.latest.tokens
        now = time.monotonic()
        tokens, began = self._tokens_began
        if now - began >= 1.0 or not tokens:  # over the last second, or less at the beginning
            self._speed = (self._tokens - tokens) / max(now - began, 1e-9)
        if now - began >= 1.0:
            self._tokens_began = (self._tokens, now)
        if self._bar:
            self._bar.update(self._task, completed=loop.progress.step, description=self._line(loop))
        elif now - self._last >= PLAIN_SECONDS or loop.progress.step == loop.steps:
            self._last = now
            self._print(
                f"step {loop.progress.step}/{loop.steps}  {self._line(loop)}{self._left(loop, now)}"
            )

    def evaluated(self, line: dict[str, Any]) -> None:
        """Print a line about an evaluation, which stays on the screen."""
        metrics = "  ".join(f"{name} {value:.4f}" for name, value in line["valid"].items())
        which = f"step {line['step']}"
        if "averaged" in line:
            which = f"the mean of steps {', '.join(map(str, line['averaged']))}"
        self._print(f"{which}  valid: {metrics}{'  (best)' if line['best'] else ''}")

    def _line(self, loop: Loop) -> str:
        metrics = " ".join(
            f"{name} {value:.4f}" if name.endswith("loss") else f"{name} {value:.3f}"
            for name, value in loop.latest.means().items()
        )
        return f"{metrics} lr {loop.learning_rate:.1e} {self._speed:,.0f} tokens/s"

    def _left(self, loop: Loop, now: float) -> str:
        made = loop.progress.step - self._first
        left = (now - self._began) / max(1, made) * (loop.steps - loop.progress.step)
        return f"  {int(left) // 60}:{int(left) % 60:02d} left" if left >= 1 else ""

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)
