"""The command line: every command by its name, and the entry point."""

from typing import Annotated

import typer

from regard.commands.ask import ask
from regard.commands.chat import chat
from regard.commands.compare import compare
from regard.commands.data_check import data_check
from regard.commands.decoding_options import DecodingCommand, ScoringCommand
from regard.commands.embed import embed
from regard.commands.evaluate import evaluate
from regard.commands.export import export
from regard.commands.generate import generate
from regard.commands.import_model import import_model
from regard.commands.predict import predict
from regard.commands.search import search
from regard.commands.terminal import end_well, prints
from regard.commands.train import recipes, train
from regard.commands.verify import verify
from regard.commands.words import words
from regard.system.errors import UserError
from regard.system.torchrun import Launch
from regard.system.waiting import adapt_waiting

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
app.command()(prints(recipes))
app.command()(train)
app.command(cls=ScoringCommand)(prints(evaluate))
app.command(cls=DecodingCommand)(prints(predict))
app.command(cls=DecodingCommand)(prints(generate))
app.command()(embed)
app.command()(prints(search))
app.command(cls=DecodingCommand)(prints(ask))
app.command()(prints(words))
app.command()(prints(verify))
app.command(cls=DecodingCommand)(prints(chat))
app.command("import")(import_model)
app.command()(export)
app.command()(prints(compare))
app.add_typer(data_app, name="data")
data_app.command("check")(prints(data_check))


def _print_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        print(f"regard {version('regard')}")
        raise typer.Exit()
    return wanted


@app.callback()
def regard(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version)
    ] = False,
) -> None:
    """Sequence models that you can look into.

    Begin with: regard recipes, then regard train sort, then regard predict runs/sort.
    """
    launch = Launch.read()
    if launch is not None and launch.size > 1 and context.invoked_subcommand != "train":
        raise UserError(
            f"torchrun is for regard train: run regard {context.invoked_subcommand} without it."
        )


def main() -> None:
    """The entry point; how threads wait for each other adapts to the machine from here on."""
    adapt_waiting()
    end_well(app)
