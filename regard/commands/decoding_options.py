"""Command-line options made from the keys of `decode`: their names, types and help texts.

The keys are read only when such a command runs or shows its help, so that `regard --help` stays
quick. Values are checked where the configuration is.
"""

import inspect
from collections.abc import Iterable
from contextvars import ContextVar
from functools import cached_property
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

_given: ContextVar[dict[str, Any]] = ContextVar("given")


def given_options() -> dict[str, Any]:
    """The decoding options that the running command was given: {"top_p": 0.9}, say."""
    return _given.get()


class DecodingCommand(TyperCommand):
    """A command with one option per key of `decode`, which it asks `given_options` for."""

    @cached_property
    def decoding_options(self) -> list[Any]:
        return make_options(self.decoding_keys())

    def decoding_keys(self) -> list[str]:
        """The keys of `decode` that this command has options for."""
        from regard.config import Decode

        return list(Decode.model_fields)

    def get_params(self, ctx: Any) -> list[Any]:
        *own, help_option = super().get_params(ctx)
        return [*own, *self.decoding_options, help_option]

    def invoke(self, ctx: Any) -> Any:
        values = {option.name: ctx.params.pop(option.name) for option in self.decoding_options}
        _given.set({name: value for name, value in values.items() if value is not None})
        return super().invoke(ctx)


class ScoringCommand(DecodingCommand):
    """The same for a command that scores one output per line, which is not sampled."""

    def decoding_keys(self) -> list[str]:
        from regard.config.strategy import SAMPLING

        sampled = ("n_best", "best_of", *SAMPLING)
        return [key for key in super().decoding_keys() if key not in sampled]


def make_options(keys: Iterable[str]) -> list[Any]:
    """One option per key of `decode`: a function with such a signature is handed to typer."""
    from regard.config import Decode

    def signature_only(**options: Any) -> None: ...

    signature_only.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                key,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    Decode.model_fields[key].annotation | None,  # type: ignore[operator]
                    typer.Option(help=_sentence(Decode.model_fields[key].description or "")),
                ],
            )
            for key in keys
        ]
    )
    app = typer.Typer(add_completion=False)
    app.command()(signature_only)
    return list(typer.main.get_command(app).params)


def _sentence(text: str) -> str:
    first = text[:1].upper() if text[:1].isascii() else text[:1]  # α is not Α
    return f"{first}{text[1:].rstrip('.')}."
