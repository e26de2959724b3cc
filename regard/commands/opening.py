"""Opening the run that a command is about."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.commands import options

if TYPE_CHECKING:
    from regard.runs.run import Run


def open_run(
    path: Path,
    *,
    device: str = "cpu",
    data: Path | None = None,
    settings: Sequence[str] = (),
    quantize: str | None = None,
) -> "Run":
    """The run in a directory, as `regard.load` opens it."""
    from regard.runs.run import load
    from regard.system.memory import keep_freed_memory

    keep_freed_memory()
    options.check_directory(data)
    run = load(path, device=device, data=data, settings=settings, quantize=quantize)
    options.set_directory(run.config, data)
    return run


def open_with_draft(run: "Run", draft: Path | None, *, device: str) -> "Run":
    """The run with a draft model, if one is given."""
    return run if draft is None else run.drafted_by(open_run(draft, device=device))


def open_ensemble(
    first: "Run", others: Sequence[Path] | None, *, device: str, quantize: str | None
) -> "Run":
    """The run whose model and those of the others generate together; the run itself, if none."""
    return first.together_with(
        [open_run(other, device=device, quantize=quantize) for other in others or ()]
    )
