"""regard verify: the promised equalities, each with its largest difference."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands import options, tables
from regard.commands.opening import open_run
from regard.commands.terminal import print_json


def verify(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="Check the model of this run too.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check every promised equality and show its largest difference."""
    from regard import verify as verification

    results: list[dict[str, Any]] = []
    for check in verification.checks(None if run is None else open_run(run)):
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
