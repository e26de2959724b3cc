"""regard data check: a report on the data of a run before it is trained on."""

from regard.commands import options, tables
from regard.commands.terminal import print_json


def data_check(
    recipe: options.Recipe,
    data: options.DataDirectory = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Show which lines would be kept or left out, and why; lengths, unknown tokens, duplicates.

    For example: regard data check multi30k --data DIR
    """
    from regard import config
    from regard.tasks import TASKS

    resolved = config.load(recipe, settings or ())
    stops = "error" in (resolved.data.on_bad_line, resolved.data.too_long)
    resolved.data.on_bad_line = "skip"
    if resolved.data.too_long == "error":
        resolved.data.too_long = "skip"
    options.set_directory(resolved, data)
    reports = TASKS[resolved.task].learn(resolved).data_report()
    if as_json:
        print_json({"splits": {split: report.as_json() for split, report in reports.items()}})
        return
    for split, report in reports.items():
        print(tables.of_data(split, getattr(resolved.data, split), report))
    if stops and any(report.left_out for report in reports.values()):
        print("regard train stops at the first such line, unless it is given --on-bad-line skip.")
