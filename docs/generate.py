"""Write the reference pages again from the code: commands, settings, headwater.toml, Python names, the rings.

Called by `make docs`; tests/docs checks that what is in the tree is what this writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before typer looks: the pages must not depend on the width of somebody's terminal.
os.environ["COLUMNS"] = "80"
os.environ.pop("HEADWATER_BOOTSTRAP", None)

from typer.main import get_command

from docs import capture_debezium, capture_servers, layers, project_file, python_names
from headwater.broker.settings.reference import reference
from headwater.cli.app import build

HERE = Path(__file__).parent
NOTICE = "<!-- Written by `make docs` from the code; change it there. -->\n"

CLI_HEAD = f"""{NOTICE}
# Command line

Every command takes `--help`, with an example; those that a script would read take `--json`, and
`headwater tail` writes JSON lines wherever it is piped. [Working at the command line](command-line.md)
shows them at work. `headwater --install-completion` teaches the shell to complete commands, options, and
the names of topics, groups and captures. What takes longer than a second shows how far it is, on stderr.

| exit code | meaning |
|---|---|
| 0 | done; also Ctrl-C where it is the way to end (`tail`, `--watch`), and a reader of the pipe that left |
| 1 | it failed or was refused, and one sentence on stderr says why and what to do next; `verify`: the view differs; `status`: not all parts run; `captures`: a database does not answer; `check`, `repair`: something is wrong with the folder |
| 2 | the words were not understood; `check`, `repair`: there is nothing to look at, or a broker is at work on it |
| 3 | it looked, and it is not so: `wait` was not reached in time, `lag --alert` is exceeded |
| 130 | interrupted |

`HEADWATER_BOOTSTRAP` stands in for `--bootstrap`; without either, a command in the folder of a
`headwater.toml` asks that project's log. `HEADWATER_CLIENT_CONFIG` names a file with what is needed to reach
a secured broker ([security](security.md)). `NO_COLOR` switches colours off.
"""  # noqa: E501 (a row of a table is one line)


def pages() -> dict[Path, str]:
    """Each generated page with its content."""
    return {
        layers.ROOT / "ARCHITECTURE.md": layers.page(),
        HERE / "cli.md": cli_page(),
        HERE / "settings.md": reference(),
        HERE / "project-file.md": f"{NOTICE}{project_file.page()}",
        HERE / "capture-servers.md": f"{NOTICE}{capture_servers.page()}",
        HERE / "capture-debezium.md": f"{NOTICE}{capture_debezium.page()}",
        HERE / "python.md": f"{NOTICE}{python_names.page()}",
    }


def cli_page() -> str:
    sections = [CLI_HEAD]
    for path, text in _helps(get_command(build([])), ("headwater",), None):
        sections.append(f"{'#' * min(len(path) + 1, 4)} {' '.join(path)}\n\n```text\n{text}\n```\n")
    return "\n".join(sections)


def _helps(command: Any, path: tuple[str, ...], parent: Any) -> Iterator[tuple[Any, str]]:
    context = command.make_context(path[-1], [], parent=parent, resilient_parsing=True)
    yield path, command.get_help(context).strip()
    for name, child in getattr(command, "commands", {}).items():
        yield from _helps(child, (*path, name), context)


def main() -> None:
    for path, text in pages().items():
        changed = not path.exists() or path.read_text(encoding="utf-8") != text
        if changed:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(layers.ROOT)}: {'written' if changed else 'current'}")


if __name__ == "__main__":
    main()
