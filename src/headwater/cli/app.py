"""The typer application: every command, its help, and one sentence for what it cannot understand.

Called by `main`. When the first word names a command, only that command's file is imported.
"""

from __future__ import annotations

import sys
from importlib import import_module

import typer
from typer.main import get_command

from headwater import __version__
from headwater.cli.completion import completed_words

# In the order in which `headwater --help` shows them.
COMMANDS = (
    "init",
    "up",
    "status",
    "pause",
    "resume",
    "restart",
    "doctor",
    "broker",
    "capture",
    "captures",
    "run",
    "edges",
    "schemas",
    "console",
    "views",
    "wait",
    "rebuild",
    "verify",
    "rows",
    "check",
    "repair",
    "state",
    "topics",
    "produce",
    "tail",
    "replay",
    "groups",
    "lag",
    "users",
    "acls",
    "audit",
    "deadletters",
    "events",
    "forget",
    "keys",
    "excise",
    "settings",
    "monitoring",
    "import",
    "promote",
    "demo",
)

_FILES = {"import": "imports"}
"""Where a command cannot give its file the name: Python's own words."""
NOT_UNDERSTOOD = 2
INTERRUPTED = 130


def run(words: list[str]) -> int:
    """Run the command that `words` spell; errors of its work are left to the caller."""
    command = get_command(build(words))
    try:
        # Not stand-alone: typer would print its own panels and leave the process.
        result = command.main(words, prog_name="headwater", standalone_mode=False)
    except typer.Exit as leave:
        return leave.exit_code
    except typer.Abort:
        return INTERRUPTED
    except SystemExit:
        return 0  # typer's answer to a reader that went away (`| head -1`), which is no failure
    except typer.TyperException as error:
        if error.format_message().startswith("Usage: "):
            print(error.format_message())  # a command that does nothing alone answers with its help
            return 0
        print(f"headwater: {_sentence(error, words)}", file=sys.stderr)
        return NOT_UNDERSTOOD
    return result if isinstance(result, int) else 0


def build(words: list[str]) -> typer.Typer:
    """The application with the one command that `words` name, or with all of them."""
    app = typer.Typer(
        name="headwater",
        no_args_is_help=True,
        # Plain help: it fits 80 columns, pipes well, and needs no import of rich.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_headwater)
    named = [name for name in words[:1] or completed_words() if name in COMMANDS]
    for name in named or COMMANDS:
        import_module(f"headwater.cli.{_FILES.get(name, name)}").add_to(app)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"headwater {__version__}")
        raise typer.Exit


def _headwater(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """One ordered, durable, replayable log that speaks Kafka's protocol."""


def _sentence(error: typer.TyperException, words: list[str]) -> str:
    context = getattr(error, "ctx", None)
    if context is not None:
        where = context.command_path
    else:
        where = " ".join(["headwater", *(word for word in words[:1] if word in COMMANDS)])
    text = " ".join(error.format_message().replace("Value error, ", "").split()).rstrip(".")
    text = text.removeprefix("Invalid value: ")
    return f"{text[:1].lower()}{text[1:]}; see: {where} --help"
