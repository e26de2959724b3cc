"""regard recipes and regard train: what can be trained, and training it."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands import options, tables
from regard.commands.terminal import print_json, resume_command, tell
from regard.system.errors import UserError

if TYPE_CHECKING:
    from regard.config import Config
    from regard.training.loop import Stop


def recipes(as_json: options.Json = False) -> None:
    """List what can be trained, with the expected score and minutes."""
    from regard import config

    abouts = {name: config.load(name).about for name in config.recipes()}
    if as_json:
        print_json({"recipes": {name: about.model_dump() for name, about in abouts.items()}})
        return
    print(tables.of_recipes(abouts))
    print("\nMinutes are for one or two CPU cores. Train one with: regard train sort")


def _print_keys(wanted: bool) -> bool:
    if not wanted:
        return wanted
    from regard import config

    print(tables.table(("key", "value", "default", "what it means"), config.describe()))
    raise typer.Exit()


def train(
    recipe: options.Recipe,
    data: options.DataDirectory = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Run directory to create. [runs/RECIPE]", callback=options.utf8
        ),
    ] = None,
    settings: options.Settings = None,
    on_bad_line: options.OnBadLine = None,
    init: Annotated[
        str | None,
        typer.Option(
            metavar="RUN[:PART,...]",
            help="Begin with the weights of another run, or of parts of it: runs/a:encoder.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the newest checkpoint.")
    ] = False,
    device: options.Device = "auto",
    precision: Annotated[
        Literal["fp32", "bf16"], typer.Option(help="Precision of matrix products.")
    ] = "fp32",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Compile the model before training.")
    ] = False,
    sharded: Annotated[
        bool,
        typer.Option(
            "--shard",
            help="Under torchrun, divide weights, gradients and optimiser state among the "
            "processes (FSDP2).",
        ),
    ] = False,
    keys: Annotated[
        bool,
        typer.Option(
            "--keys",
            help="List every configuration key and what it means.",
            is_eager=True,
            callback=_print_keys,
        ),
    ] = False,
) -> None:
    """Train a recipe or a configuration file into a run directory.

    Ctrl-C saves a checkpoint and prints how to continue. A run continued with --resume ends in
    the same weights, bit for bit, as one that was never stopped. With several processes:
    torchrun --nproc-per-node 2 -m regard train ...
    """
    from regard import look
    from regard.commands.ranks import training_ranks
    from regard.runs import trainer
    from regard.system.engine import make_engine

    settings = [*(settings or ()), *options.bad_line_setting(on_bad_line)]
    settings += [] if init is None else [f"init={init}"]
    place = out or Path("runs") / Path(recipe).stem
    engine = make_engine(device=device, precision=precision, compiled=compiled, sharded=sharded)
    with training_ranks(engine, place, resume=resume) as (world, engine, resume):
        config = _configuration(recipe, settings, place, resume=resume)
        options.set_directory(config, data)
        run, stop = trainer.train(
            config,
            place,
            resume=resume,
            recipe=_recipe_keys(recipe),
            engine=engine,
            world=world,
            say=tell,
        )
    _say_why_it_stopped(stop, speaks=world.writes)
    if not world.writes:
        return
    pictures = look.draw(run)
    tell(f"The best weights are in {place / 'model.safetensors'}.")
    if pictures:
        tell(f"Look at {' and '.join(str(path) for path in pictures)}.")


def _configuration(recipe: str, settings: list[str], place: Path, *, resume: bool) -> "Config":
    """That of the recipe; of a run that is resumed its own, so that what is not given stays."""
    from regard import config
    from regard.runs.configuring import configure
    from regard.runs.directory import read_config

    if not resume:
        return configure(recipe, settings)
    began = read_config(place)
    resolved = config.load(recipe, settings, inherit=lambda _: began.model.model_dump())
    if began.recipe != resolved.recipe:
        raise UserError(f"{place} is a run of {began.recipe!r}, not of {resolved.recipe!r}.")
    return config.override(began, settings, where=str(place))


def _recipe_keys(recipe: str) -> dict[str, Any]:
    """The keys of a recipe or a YAML file by themselves, as plain values."""
    from regard import config

    values = config.read_yaml(config.recipes().get(recipe, Path(recipe)))
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return plain


def _say_why_it_stopped(stop: "Stop | None", *, speaks: bool) -> None:
    """Nothing, if it trained to its end; a signal ends the command, with the code of shells."""
    if stop is None:
        return
    if stop.signal is None:
        if speaks:
            tell(f"Stopped early: {stop.reason}.")
        return
    if speaks:
        tell(f"{stop.reason[0].upper()}{stop.reason[1:]}; a checkpoint is saved. Continue with:")
        tell("  " + resume_command(sys.argv[1:]))
    raise typer.Exit(128 + stop.signal)
