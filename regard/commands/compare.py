"""regard compare: trainings side by side, by the values of some keys or as a built-in study."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands import options, tables
from regard.commands.terminal import print_at_once, print_json, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.studies.fine_tuning import Planned, Study
    from regard.studies.training import Cell, Trained
    from regard.system.engine import Engine

DEFAULT_RECIPE = "sst2"
"""What a study is of, if no recipe is named."""


def compare(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE|FILE.yaml", help="What to train. [with --study: sst2]"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "--set",
            metavar="KEY=A,B,...",
            help="Set a configuration key; train once for each of several values.",
        ),
    ] = None,
    study: Annotated[
        Literal["fine-tuning"] | None,
        typer.Option(help="A built-in comparison: what pre-training is worth, by labels."),
    ] = None,
    data: options.DataDirectory = None,
    init: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Begin with the weights of another run."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where runs and results go; what is there is not trained again. "
            "[runs/compare-RECIPE]",
            callback=options.utf8,
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the report to this file too.")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="With --study: these methods alone."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...,all", help="With --study: how many labelled examples to train on."
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --study: seeds below 1,000 labels. [5]"),
    ] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="With --study: print what would be trained, and stop.")
    ] = False,
    device: options.Device = "auto",
    as_json: options.Json = False,
) -> None:
    """Train several times and compare: the metric, the minutes, the parameters, and curves.

    For example: regard compare sort -s model.n_heads=1,2,4. What was stopped goes on where it was
    with the same command.
    """
    from regard.system.engine import make_engine

    for name, given in (("methods", methods), ("labels", labels), ("seeds", seeds), ("plan", plan)):
        if given and study is None:
            raise UserError(f"--{name} goes with --study.")
    if recipe is None and study is None:
        raise UserError("Name a recipe to train with several values of a key, or a --study.")
    if save is not None and not save.absolute().parent.is_dir():
        raise UserError(f"--save {save}: {save.absolute().parent} is not a folder.")
    options.check_directory(data)
    directory = [] if data is None else [f"data.directory={data.resolve()}"]
    engine = make_engine(device=device)
    name = recipe or DEFAULT_RECIPE
    place = out or Path("runs") / f"compare-{Path(name).stem}{f'-{study}' if study else ''}"
    reports = [place / "report.html", *([] if save is None else [save])]
    if study is None:
        from regard.studies.sweep import cells_of

        fixed = [*directory, *([] if init is None else [f"init={init}"])]
        cells = cells_of(name, settings or [], fixed=fixed)
        results = _sweep(name, cells, place, reports, engine)
        _print_sweep(name, results, as_json=as_json)
        return
    from regard.studies.fine_tuning import Study

    asked: dict[str, Any] = {"methods": _words(methods), "sizes": _sizes(labels), "seeds": seeds}
    chosen = {key: value for key, value in asked.items() if value is not None}
    own = Study(name, place, [*directory, *(settings or [])], init or "", engine=engine, **chosen)
    _study(own, reports, plan=plan, as_json=as_json)


def _sweep(
    recipe: str, cells: "list[Cell]", out: Path, reports: Sequence[Path], engine: "Engine"
) -> "list[Trained]":
    """Train every combination, and write the report."""
    from regard.look.comparison import sweep_curves, sweep_header, sweep_rows, write_comparison

    metric = cells[0].config.training.metric
    results = list(_trained(cells, out, metric=metric, keep=True, engine=engine))
    table = (f"{recipe}, test data", sweep_header(metric), sweep_rows(results))
    write_comparison(
        reports,
        [table],
        sweep_curves(results),
        picture=out / "curves.png",
        title=f"{recipe}: trainings compared",
    )
    _tell_reports(reports, out / "curves.png")
    return results


def _print_sweep(recipe: str, results: "list[Trained]", *, as_json: bool) -> None:
    from regard.look.comparison import sweep_header, sweep_rows

    if as_json:
        print_json({"recipe": recipe, "trainings": [result.as_json() for result in results]})
        return
    print_at_once([tables.table(sweep_header(results[0].metric), sweep_rows(results))])


def _study(study: "Study", reports: Sequence[Path], *, plan: bool, as_json: bool) -> None:
    """Print the plan, train what is left of it, and show what it came to."""
    from regard.look.comparison import (
        label_curves,
        label_header,
        label_rows,
        write_comparison,
    )
    from regard.studies.fine_tuning import METRIC, summaries

    study.out.mkdir(parents=True, exist_ok=True)
    left, minutes = study.left(), study.minutes(tell)
    for line in _plan(left, minutes, done=len(study.planned) - len(left)):
        tell(line)
    if plan:
        if as_json:
            print_json({"study": "fine-tuning", "minutes": minutes})
        return
    cells = [one.cell for one in study.planned]
    trained = list(_trained(cells, study.out, metric=METRIC, keep=False, engine=study.engine))
    results = summaries(list(zip(study.planned, trained, strict=True)))
    header, rows = label_header(results), label_rows(results)
    write_comparison(
        reports,
        [
            (f"{METRIC}, mean and standard deviation over seeds", header, rows),
            ("Minutes of a training", header, label_rows(results, minutes=True)),
        ],
        label_curves(results),
        picture=study.out / "curve.png",
        title=f"{study.recipe}: what pre-training is worth",
    )
    _tell_reports(reports, study.out / "curve.png")
    if as_json:
        summary = [result.as_json() for result in results]
        print_json({"study": "fine-tuning", "recipe": study.recipe, "results": summary})
        return
    print_at_once([tables.table(header, rows)])


def _plan(left: "Sequence[Planned]", minutes: dict[str, float], *, done: int) -> Iterator[str]:
    """What will be trained and how long it takes, one line for each method and size."""
    groups: dict[tuple[str, int], list[Planned]] = {}
    for one in left:
        groups.setdefault((one.method, one.labels), []).append(one)
    for (method, labels), members in groups.items():
        total = sum(minutes[one.cell.name] for one in members)
        yield (
            f"{method}, {labels:,} labels: {len(members)} × {members[0].updates:,} updates, "
            f"about {total:.1f} minutes"
        )
    finished = f"; {done} are done" if done else ""
    yield f"{len(left)} trainings, about {sum(minutes.values()):.0f} minutes{finished}."


def _trained(
    cells: "Sequence[Cell]", out: Path, *, metric: str, keep: bool, engine: "Engine"
) -> "Iterator[Trained]":
    """The result of each cell; a signal ends the command, with the code of shells."""
    from regard.studies.training import train_cell, trained_before
    from regard.training.loop import Stop

    for cell in cells:
        trained_before(cell, out)  # refuses what is there of other configurations
    out.mkdir(parents=True, exist_ok=True)
    for number, cell in enumerate(cells, start=1):
        tell(f"── {number} of {len(cells)}: {cell.name}")
        result = train_cell(cell, out, metric=metric, keep=keep, engine=engine, say=tell)
        if isinstance(result, Stop):
            tell(f"Stopped: the same command goes on from here, with what is in {out}.")
            raise typer.Exit(128 + (result.signal or 0))
        tell(f"{cell.name}: {metric} {result.value:.4f}, {result.minutes:.1f} minutes")
        yield result


def _tell_reports(reports: Sequence[Path], picture: Path) -> None:
    tell(f"Look at {', '.join(map(str, reports))} and {picture}.")


def _words(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _sizes(text: str | None) -> list[int | None] | None:
    """Numbers of labels; all is None."""
    words = _words(text)
    if words is None:
        return None
    sizes = [None if word == "all" else int(word) if word.isdecimal() else 0 for word in words]
    for word, size in zip(words, sizes, strict=True):
        if size is not None and size < 2:
            raise UserError(f"--labels: {word!r} is neither a number from 2 on nor 'all'.")
    if not sizes:
        raise UserError("--labels names no number.")
    return sizes
