"""regard generate: text after a prompt, as it is generated; every strategy side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import options, tables
from regard.commands.decoding_options import given_options
from regard.commands.opening import open_run, open_with_draft
from regard.commands.terminal import plain_text, print_at_once, print_json, print_pieces, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.runs.run import Run
    from regard.studies.strategies import Measured

ALTERNATIVES = 5
"""The most probable tokens that --json lists in place of each token."""
SHOWN = 300
"""Characters of a text that a comparison shows in the terminal."""


def generate(
    run: options.RunPath,
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The text to go on from.", callback=options.utf8),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One prompt per line, instead of --prompt.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-n", metavar="N", help="How many outputs per prompt: N samples."),
    ] = None,
    stop: options.Stop = None,
    choice: options.Choice = None,
    regex: options.Regex = "",
    draft: options.Draft = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Run every strategy and show them side by side.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --compare: a text that people wrote."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="With --compare: write a report to this file."),
    ] = None,
    quantize: options.Quantize = None,
    device: options.Device = "cpu",
    as_json: options.Json = False,
) -> None:
    """Generate text after a prompt, and show it as it is generated.

    For example: regard generate runs/shakespeare --prompt "ROMEO:" --top-p 0.9
    """
    decoding = given_options()
    _refuse_alone(compare, data=data, save=save)
    if count is not None and count < 1:
        raise UserError(f"-n {count}: at least one output is needed.")
    if save is not None and not save.absolute().parent.is_dir():
        raise UserError(f"--save {save}: {save.absolute().parent} is not a folder.")
    constraints: dict[str, Any] = {"stop": stop or (), "choices": choice or (), "regex": regex}
    prompts = _prompts(prompt, file)
    opened = open_run(run, device=device, quantize=quantize)
    if not opened.task.generates:
        raise UserError(f"{run} does not generate text: its task is {opened.config.task}.")
    opened = open_with_draft(opened, draft, device=device)
    if compare:
        if any(constraints.values()) or draft is not None:
            raise UserError("--compare takes no stop, choice, regex or draft.")
        _compare(opened, prompts, decoding, count=count, data=data, save=save, as_json=as_json)
        return
    decoding |= _samples(opened, decoding, count)
    decode = opened.decode_options(decoding)
    is_empty = not (prompts[0].split() or opened.task.continues)  # a translator has nothing to say
    if as_json or len(prompts) > 1 or is_empty or not _grows(decode):
        name = "prompt" if file is None else str(file)
        _print_all(opened, prompts, decoding, constraints, name=name, as_json=as_json)
        return
    pieces = opened.stream(prompts[0], **constraints, **decoding)
    print_pieces(prompts[0] if opened.task.continues else "", pieces)


def _refuse_alone(compare: bool, **paths: Path | None) -> None:
    """Refuse options that do something only with --compare."""
    for name, path in paths.items():
        if path is not None and not compare:
            raise UserError(f"--{name} goes with --compare.")


def _grows(decode: Any) -> bool:
    """Whether the output can be shown token by token."""
    from regard.runs.run import ONE_BY_ONE

    return decode.strategy in ONE_BY_ONE and decode.n_best == 1


def _prompts(prompt: str | None, file: Path | None) -> list[str]:
    from regard.data.lines import read_lines

    if (prompt is None) == (file is None):
        raise UserError("give a prompt with --prompt TEXT, or a file of prompts with --file FILE.")
    if file is None:
        return [prompt or ""]
    prompts = [line for _, line in read_lines(file)]
    if not prompts:
        raise UserError(f"{file} has no lines: one prompt per line is expected.")
    return prompts


def _samples(run: "Run", decoding: dict[str, Any], count: int | None) -> dict[str, Any]:
    """What -n asks for: samples, unless a strategy is asked for by other options."""
    from regard.config.strategy import USED_BY

    if count is None:
        return {}
    if "n_best" in decoding:
        raise UserError("-n and --n-best are the same: give one of them.")
    named = any(key in ("strategy", *USED_BY) for key in decoding)
    keeps = run.config.decode.most_outputs >= count
    return {"n_best": count} | ({} if named or keeps else {"strategy": "sample"})


def _print_all(
    run: "Run",
    prompts: list[str],
    decoding: dict[str, Any],
    constraints: dict[str, Any],
    *,
    name: str,
    as_json: bool,
) -> None:
    """Every output, when all are there."""
    alternatives = ALTERNATIVES if as_json else 0
    answer = run.answer(
        prompts, decoding=decoding, name=name, alternatives=alternatives, **constraints
    )
    if as_json:
        print_json({"predictions": [one.as_json() for one in answer.predictions]})
        return
    outputs = [
        (number, text)
        for number, prediction in enumerate(answer.predictions, start=1)
        for text in prediction.outputs
    ]
    for place, (number, text) in enumerate(outputs, start=1):
        title = f"── {place}" if len(prompts) == 1 else f"── {place}, prompt {number}"
        print_at_once([title, plain_text(text)])


def _compare(
    run: "Run",
    prompts: list[str],
    decoding: dict[str, Any],
    *,
    count: int | None,
    data: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    """Every strategy, and human text, as a table, JSON and a report."""
    from regard.look.strategies import HEADER, rows, write_comparison
    from regard.studies.strategies import OUTPUTS, compare_strategies, measure_human

    results: list[Measured] = []
    if data is not None:
        length = run.decode_options(decoding).max_new_tokens
        texts = len(prompts) * (count or OUTPUTS)
        results.append(measure_human(run, _human_text(data), tokens_per_text=length, count=texts))
    for result in compare_strategies(run, prompts, outputs=count, **decoding):
        tell(f"{result.name}: {result.tokens:,} tokens")
        results.append(result)
    if save is not None:
        write_comparison(save, results, title=f"{run.path.name}: decoding strategies compared")
        tell(f"Look at {save}.")
    if as_json:
        print_json({"prompts": prompts, "strategies": [one.as_json() for one in results]})
        return
    print_at_once([tables.table(HEADER, rows(results)), "", *_first_texts(results)])


def _human_text(path: Path) -> str:
    from regard.data.lines import read_lines, why_unreadable

    lines = [line for _, line in read_lines(path)]
    for number, line in enumerate(lines, start=1):
        fault = why_unreadable(line)
        if fault is not None:
            raise UserError(f"{path}:{number}: {fault}.")
    return "\n".join(lines)


def _first_texts(results: Sequence["Measured"]) -> list[str]:
    """The beginning of the first text of each, on one line."""
    from regard.commands.terminal import one_line

    return [f"{one.name}: {one_line(one.texts[0][:SHOWN])}" for one in results if one.texts]
