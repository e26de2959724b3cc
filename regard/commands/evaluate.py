"""regard evaluate: the metrics of a run on held-out data."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands import options, tables
from regard.commands.decoding_options import given_options
from regard.commands.opening import open_ensemble, open_run
from regard.commands.terminal import print_json, progress, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.metrics.analysis import Analysis
    from regard.runs.run import Run


def evaluate(
    run: options.RunPath,
    data: options.DataDirectory = None,
    split: Annotated[
        Literal["train", "valid", "test"], typer.Option(help="Which split of the data.")
    ] = "test",
    settings: options.OtherData = None,
    on_bad_line: options.OnBadLine = None,
    analysis: Annotated[
        bool,
        typer.Option(
            "--analysis",
            help="Show where translations are weak, by length and by example; also in report.html.",
        ),
    ] = False,
    ensemble: options.Ensemble = None,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Measure a run on its held-out data.

    For example: regard evaluate runs/sort --beam 5
    """
    settings = [*(settings or ()), *options.bad_line_setting(on_bad_line)]
    first = open_run(run, device=device, data=data, settings=settings, quantize=quantize)
    opened = open_ensemble(first, ensemble, device=device, quantize=quantize)
    if analysis and not opened.task.analysable:
        raise UserError("--analysis is for translation: a run with data.scores=translation.")
    began = time.perf_counter()
    with progress():
        evaluation = opened.evaluation(split, **given_options())
    result = opened.summary(evaluation, split, seconds=time.perf_counter() - began)
    for sentence in evaluation.warnings:
        tell(sentence)
    weaknesses = _analyse(opened, result, evaluation.outputs) if analysis else None
    if as_json:
        print_json(result if weaknesses is None else result | {"analysis": asdict(weaknesses)})
        return
    print(f"{result['examples']:,} examples of {split} in {result['seconds']:.1f} s")
    print(tables.of_metrics(result["metrics"]))
    if evaluation.by_type:
        print("\n" + tables.by_type(evaluation.by_type))
    if weaknesses is not None:
        print("\n" + tables.of_analysis(weaknesses))


def _analyse(run: "Run", result: dict[str, Any], outputs: list[Any]) -> "Analysis":
    """Where translations are weak; also written to report.html, with a picture."""
    from regard.look.report import write_report
    from regard.metrics.analysis import analyse

    weaknesses = analyse(outputs, languages=run.config.data.languages)
    tell(f"Look at {write_report(run, result, weaknesses)}.")
    return weaknesses
