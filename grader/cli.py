"""The instructor's commands. nbgrader takes two seconds to import, so each command imports what it needs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True)

Lab = Annotated[str, typer.Argument(help="name of the lab's folder, for example 21_ipu_first")]
Student = Annotated[str | None, typer.Option(help="name of one student")]


def _reported(command: Callable) -> Callable:
    """Errors that a person can do something about end a command with their message and status 1."""

    @functools.wraps(command)
    def run(*args: object, **kwargs: object) -> object:
        from grader.build import BuildError
        from grader.course import CourseError
        from grader.rules import SourceError

        try:
            return command(*args, **kwargs)
        except (SourceError, BuildError, CourseError, OSError) as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None

    return run


@app.command()
@_reported
def build(
    labs: Annotated[list[str] | None, typer.Argument(help="labs to build, by default all")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="change nothing; fail when what is committed differs")
    ] = False,
) -> None:
    """Make labs/ from solutions/."""
    from grader import build as builder
    from grader.layout import Layout

    if not check:
        typer.echo("\n".join(builder.build(Layout.find(), labs or [])))
        return
    wrong = builder.differences(Layout.find(), labs or [])
    if wrong:
        raise builder.BuildError("\n".join([*wrong, "run `techlabs build` and commit labs/"]))
    typer.echo("labs/ is what solutions/ makes")


@app.command()
@_reported
def release(lab: Lab) -> None:
    """Build a lab, enter it in the gradebook and put it into the exchange."""
    from grader.course import Course

    typer.echo("\n".join(Course().release(lab)))


@app.command()
@_reported
def submit(lab: Lab, student: Student = None) -> None:
    """Hand in labs/LAB, by default under the name of this account."""
    from grader.course import Course

    typer.echo(f"submitted {lab} as {Course().submit(lab, student)}")


@app.command()
@_reported
def collect(lab: Lab) -> None:
    """Fetch new submissions from the exchange."""
    from grader.course import Course

    course = Course()
    arrived = course.collect(lab)
    typer.echo(f"collected {len(arrived)} of {lab}{': ' + ', '.join(arrived) if arrived else ''}")
    typer.echo(f"{len(course.students(lab))} submissions are here")


@app.command()
@_reported
def grade(
    lab: Lab,
    student: Student = None,
    force: Annotated[bool, typer.Option("--force", help="also what is graded already")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="how many submissions at a time")] = 1,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="without a box: submissions can do what you can")
    ] = False,
) -> None:
    """Grade new submissions; status 1 when a person should look at one."""
    from grader import grade as grading
    from grader.course import Course

    course = Course()
    course.config.ExecuteSubmission.unsafe = unsafe
    results = grading.grade(course, lab, [student] if student else [], force, jobs)
    typer.echo(grading.report(results))
    if not all(result.sound for result in results):
        raise typer.Exit(1)


@app.command()
@_reported
def feedback(lab: Lab) -> None:
    """Make feedback of graded submissions and put it into the exchange."""
    from tqdm import tqdm

    from grader.course import Course

    course = Course()
    outcomes = list(tqdm(course.feedback(lab), desc=lab, unit="submission"))
    problems = [f"{student}: {problem}" for student, problem in outcomes if problem]
    typer.echo("\n".join([*problems, f"feedback for {len(outcomes)} in {course.layout.course / 'feedback'}"]))
    if problems:
        raise typer.Exit(1)


@app.command()
@_reported
def export(file: Annotated[Path, typer.Argument(help="where to write")] = Path("grades.csv")) -> None:
    """Write all marks as CSV."""
    from grader.course import Course

    Course().export(file)
    typer.echo(f"wrote {file}")


@app.command()
@_reported
def demo(lab: Lab) -> None:
    """Grade six invented submissions of a lab in a course of their own, build/demo."""
    from grader.demo import demo as run_demo
    from grader.grade import report
    from grader.layout import Layout

    typer.echo(report(run_demo(Layout.find().root, lab)))


if __name__ == "__main__":
    app()
