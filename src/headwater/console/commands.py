"""The words of commands that the console starts for a view, all of them written out; pure."""

from __future__ import annotations

from headwater.project.file import Project


def view_command(
    project: Project, bootstrap: str, command: str, view: str, options: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """`headwater verify VIEW …` or `rebuild`, as the project's file says where things are.

    For a process whose folder is the project's.
    """
    words = [command, view, *project.pipelines, *options, "--bootstrap", bootstrap]
    words += ["--checkpoints", project.checkpoints, "--master", project.master]
    for name, value in project.conf.items():
        words += ["--conf", f"{name}={value}"]
    for name, target in project.views.items():
        words += ["--to", f"{name}={target['to']}"]
    return tuple(words)
