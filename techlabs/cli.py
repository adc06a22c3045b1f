"""The command line: `techlabs doctor`, and whatever commands are installed beside it."""

from __future__ import annotations

import typer

from techlabs.plugins import plugins

app = typer.Typer(
    help="Technology Laboratories: the labs, the bench and the grader.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    """Keep `doctor` a sub-command even where it is the only one."""


@app.command()
def doctor() -> None:
    """Say what this computer has for the labs, and what stands in for what it lacks."""
    from techlabs.doctor import examine

    findings = examine()
    for finding in findings:
        typer.echo(f"{'ok  ' if finding.ok else 'MISS'}  {finding.subject:<12} {finding.says}")
    if not all(finding.ok for finding in findings):
        raise typer.Exit(1)


def _add_instructor_commands() -> None:
    for _, commands in plugins("techlabs.commands"):
        app.add_typer(commands)


_add_instructor_commands()
