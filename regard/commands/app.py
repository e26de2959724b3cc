"""The commands: parse, call, print. Heavy imports stand inside the commands."""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from regard.commands import options, tables
from regard.commands.terminal import (
    end_well,
    print_at_once,
    print_json,
    progress,
    progress_of,
    resume_command,
    tell,
)
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.metrics.analysis import Analysis
    from regard.runs.run import Run

MOST_TOLD = 5
"""Lines that are named among those that could not be read; all are counted."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

data_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Look at data before training on it.",
)
app.add_typer(data_app, name="data")


def _print_version(asked: bool) -> bool:
    if asked:
        from importlib.metadata import version

        print(f"regard {version('regard')}")
        raise typer.Exit()
    return asked


@app.callback()
def regard(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version)
    ] = False,
) -> None:
    """Sequence models that you can look into.

    Begin with: regard recipes, then regard train sort, then regard predict runs/sort.
    """


@app.command()
def recipes(as_json: options.Json = False) -> None:
    """What can be trained, with the expected score and minutes."""
    from regard import config

    found = {name: config.load(name).about for name in config.recipes()}
    if as_json:
        print_json({"recipes": {name: about.model_dump() for name, about in found.items()}})
        return
    print(tables.of_recipes(found))
    print("\nMinutes are those of one or two CPU cores. Train one with: regard train sort")


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.yaml", help="What to train.")],
    data: options.DataDirectory = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run directory; runs/RECIPE if not given."),
    ] = None,
    settings: options.Settings = None,
    on_bad_line: options.OnBadLine = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint.")
    ] = False,
    device: options.Device = "auto",
    precision: Annotated[
        Literal["fp32", "bf16"], typer.Option(help="Matrix products in float32 or bfloat16.")
    ] = "fp32",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the model before training.")
    ] = False,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="List every key that -s takes and what it means.",
            is_eager=True,
            callback=lambda asked: _print_keys() if asked else False,
        ),
    ] = False,
) -> None:
    """Train a recipe or a YAML file into a run directory.

    Ctrl-C saves a checkpoint and says how to go on; --resume ends in the same weights, bit for
    bit, as a run that was never stopped.
    """
    from regard import config, look
    from regard.runs import trainer as training
    from regard.runs.directory import read_config
    from regard.system.engine import make_engine

    settings = [*(settings or ()), *_bad_line_setting(on_bad_line)]
    resolved = config.load(recipe, settings)
    place = out or Path("runs") / Path(recipe).stem
    if resume:  # what is not given stays as the run has it
        began = read_config(place)
        if began.recipe != resolved.recipe:
            raise UserError(f"{place} is a run of {began.recipe!r}, not of {resolved.recipe!r}.")
        resolved = config.override(began, settings, where=str(place))
    if data is not None:
        resolved.data.directory = str(data.resolve())
    engine = make_engine(device=device, precision=precision, compiled=compiled)
    run, stop = training.train(resolved, place, resume=resume, engine=engine, told=tell)
    if stop is not None and stop.signal is not None:
        tell(f"{stop.reason[0].upper()}{stop.reason[1:]}; a checkpoint is saved. Go on with:")
        tell("  " + resume_command(sys.argv[1:]))
        raise typer.Exit(128 + stop.signal)
    if stop is not None:
        tell(f"Stopped early: {stop.reason}.")
    pictures = look.draw(run)
    tell(f"The best weights are in {place / 'model.safetensors'}.")
    tell(f"Look at {' and '.join(str(path) for path in pictures)}.")


@app.command()
def evaluate(
    run: options.RunPath,
    data: options.DataDirectory = None,
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="Which part.")] = "test",
    settings: options.OtherData = None,
    on_bad_line: options.OnBadLine = None,
    strategy: options.Strategy = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    max_new_tokens: options.MaxNewTokens = None,
    min_length_ratio: options.MinLengthRatio = None,
    max_length_ratio: options.MaxLengthRatio = None,
    no_repeat_ngram: options.NoRepeatNgram = None,
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis", help="Of translations: by length, the worst ones; into report.html too."
        ),
    ] = False,
    ensemble: options.Together = None,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Score a run on its held-out data."""
    decoding = options.of_decoding(locals())
    settings = [*(settings or ()), *_bad_line_setting(on_bad_line)]
    opened = _open(run, device, data, settings, quantize=quantize)
    others = [_open(other, device, quantize=quantize) for other in ensemble or ()]
    together = opened.together_with(others)
    if analysis and not opened.task.analysable:
        raise UserError("--analysis is of translations: runs with data.scores=translation.")
    began = time.perf_counter()
    with progress():
        evaluation = together.evaluation(split, **decoding)
    result = together.summary(evaluation, split, seconds=time.perf_counter() - began)
    for sentence in evaluation.warnings:
        tell(sentence)
    found = _analysed(together, result, evaluation.outputs) if analysis else None
    if as_json:
        print_json(result if found is None else result | {"analysis": asdict(found)})
        return
    print(f"{result['examples']:,} examples of {split} in {result['seconds']:.1f} s")
    print(tables.of_scores(result["metrics"]))
    if found is not None:
        print("\n" + tables.of_analysis(found))


def _analysed(run: "Run", result: dict[str, Any], outputs: list[Any]) -> "Analysis":
    """Where translations are weak; also into report.html, with a picture."""
    from regard.look.report import write_report
    from regard.metrics.analysis import analyse

    found = analyse(outputs, languages=run.config.data.languages)
    tell(f"Look at {write_report(run, result, found)}.")
    return found


@app.command()
def predict(
    run: options.RunPath,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", help="A line an input; standard input if not given, or -."
        ),
    ] = None,
    strategy: options.Strategy = None,
    beam: options.Beam = None,
    length_penalty: options.LengthPenalty = None,
    n_best: options.NBest = None,
    max_new_tokens: options.MaxNewTokens = None,
    min_length_ratio: options.MinLengthRatio = None,
    max_length_ratio: options.MaxLengthRatio = None,
    no_repeat_ngram: options.NoRepeatNgram = None,
    temperature: options.Temperature = None,
    top_k: options.TopK = None,
    top_p: options.TopP = None,
    min_p: options.MinP = None,
    seed: options.Seed = None,
    prefix: options.Prefix = "",
    align: options.Align = False,
    on_bad_line: options.OnUnreadable = "error",
    ensemble: options.Together = None,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """A line in, a line out, in order; each as soon as it may.

    For example: echo "3 1 2" | regard predict runs/sort
    """
    from regard.commands.input_lines import arriving
    from regard.tasks import Counts

    decoding = options.of_decoding(locals())
    runs = [_open(one, device, quantize=quantize) for one in (run, *(ensemble or ()))]
    opened = runs[0].together_with(runs[1:])
    opened.decode_options(decoding)  # a wrong option is refused before anything is read
    file = None if file == Path("-") else file
    if file is None and sys.stdin is None:
        raise UserError("standard input is closed; give a FILE.")
    if file is None and sys.stdin.isatty():
        tell("Write a line an input; end with Ctrl-D.")
    done = empty = unreadable = 0
    counts = Counts()
    found: list[dict[str, Any]] = []
    with progress_of(file):
        for name, lines in arriving(file):
            answer = opened.answer(
                lines,
                decoding=decoding,
                name=name,
                first=done,
                prefix=prefix,
                aligned=align,
                on_bad_line=on_bad_line,
            )
            for refusal in answer.refusals[: max(0, MOST_TOLD - unreadable)]:
                tell(refusal.sentence)
            unreadable += len(answer.refusals)
            done += len(answer.predictions)
            empty += sum(not prediction.outputs for prediction in answer.predictions)
            counts += answer.counts
            if as_json:
                found += [prediction.as_json() for prediction in answer.predictions]
            else:
                print_at_once(prediction.text for prediction in answer.predictions)
    if as_json:
        print_json({"predictions": found})
    for sentence in counts.warnings():
        tell(sentence)
    tell(
        f"{done:,} line{'s' if done != 1 else ''}"
        + (f", {empty:,} of them empty" if empty else "")
        + (f", {unreadable:,} of these because they cannot be read" if unreadable else "")
    )


@app.command()
def verify(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="Check this run's own model as well.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check every equality that is promised, and show its largest difference."""
    from regard import verify as verification

    results: list[dict[str, Any]] = []
    for check in verification.checks(None if run is None else _open(run, "cpu")):
        difference = check.difference()
        results.append(
            {
                "equality": check.name,
                "difference": difference,
                "tolerance": check.tolerance,
                "holds": difference <= check.tolerance,
            }
        )
        if not as_json:
            print(tables.of_equality(**results[-1]))
    failed = sum(not result["holds"] for result in results)
    if as_json:
        print_json({"equalities": results, "failed": failed})
    else:
        print(f"{len(results) - failed} of {len(results)} equalities hold.")
    if failed:
        raise typer.Exit(1)


@app.command()
def export(
    run: options.RunPath,
    to: Annotated[
        Literal["ctranslate2", "onnx"], typer.Option(help="The engine or format to write for.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A folder that is made for it.")],
) -> None:
    """Write a trained Transformer for another engine.

    For example: regard export runs/multi30k --to ctranslate2 --out multi30k-ct2
    """
    opened = _open(run, "cpu")
    opened.export(to, out)
    tell(f"{out} holds the model and its tokenizers.")


@data_app.command("check")
def data_check(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE|FILE.yaml", help="Whose data to check.")],
    data: options.DataDirectory = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """What would be kept and left out, and why; lengths, unknown tokens, duplicates, overlaps.

    For example: regard data check multi30k --data DIR
    """
    from regard import config
    from regard.tasks import TASKS
    from regard.tasks import check as checking

    resolved = config.load(recipe, settings or ())
    stops = resolved.data.on_bad_line == "error"
    resolved.data.on_bad_line = "skip"
    if data is not None:
        resolved.data.directory = str(data.resolve())
    task = TASKS[resolved.task].learn(resolved)
    found = checking.check(task)
    if as_json:
        print_json({"splits": {name: checking.as_json(one) for name, one in found.items()}})
        return
    for split, report in found.items():
        print(tables.of_data(split, getattr(resolved.data, split), report))
    if stops and any(report.left_out for report in found.values()):
        print("regard train stops at the first such line, unless it is given --on-bad-line skip.")


def _bad_line_setting(on_bad_line: str | None) -> list[str]:
    return [] if on_bad_line is None else [f"data.on_bad_line={on_bad_line}"]


def _print_keys() -> NoReturn:
    from regard import config

    print(tables.table(("key", "value", "default", "what it means"), config.describe()))
    raise typer.Exit()


def _open(
    path: Path,
    device: str,
    data: Path | None = None,
    settings: Sequence[str] = (),
    *,
    quantize: str | None = None,
) -> "Run":
    from regard.runs.run import load
    from regard.system.memory import keep_freed_memory

    keep_freed_memory()
    return load(path, device=device, data=data, settings=settings, quantize=quantize)


def main() -> None:
    """The entry point."""
    end_well(app)
