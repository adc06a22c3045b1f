"""Every rule of a lab source names file, line and what is wrong."""

import shutil

import pytest

from grader.build import BuildError, build
from grader.rules import SourceError


def numbered(source: str, text: str) -> int:
    """Number of the first line that holds a text."""
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


NOT_POSITIVE = "points are missing or not a positive number"
NEAR_MISS = "looks like a delimiter but isn't one of ### BEGIN SOLUTION"
TEXT_CELL = "# %% [markdown]\n# More."

# Replaced text of the toy lab, what replaces it, a text in the line that is named, and what is said of it.
BROKEN = {
    "missing id": ('answer="double"', 'answer=""', 'answer=""', "answer has no id"),
    "option without a value": ('answer="double"', "answer=", "answer=", "cell options can't be read"),
    "id with a blank": ('answer="double"', 'answer="do uble"', "do uble", "answer has no id"),
    "answer without check": (
        'check="triple" points=3',
        "",
        'answer="triple"',
        'answer "triple" has no check',
    ),
    "check without answer": ('answer="triple"', "", 'check="triple"', 'check "triple" has no answer'),
    "points missing": (" points=2", "", 'check="double"', NOT_POSITIVE),
    "points are a word": ("points=2", 'points="two"', "points=", NOT_POSITIVE),
    "points are true": ("points=2", "points=true", "points=", NOT_POSITIVE),
    "points are zero": ("points=2", "points=0", "points=", NOT_POSITIVE),
    "points are negative": ("points=2", "points=-1", "points=", NOT_POSITIVE),
    "points are infinite": ("points=2", "points=1e999", "points=", NOT_POSITIVE),
    "points on an answer": (
        'answer="double"',
        'answer="double" points=2',
        "answer=",
        "points stand on a check",
    ),
    "marks without a solution": (
        "    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION",
        "    return 2 * x",
        'answer="double"',
        'answer "double" has no solution region',
    ),
    "no end of solution": ("    ### END SOLUTION\n", "", "### BEGIN SOLUTION", "never ended"),
    "no end of hidden tests": ("### END HIDDEN TESTS", "", "### BEGIN HIDDEN TESTS", "never ended"),
    "no begin of hidden tests": ("### BEGIN HIDDEN TESTS", "", "### END HIDDEN TESTS", "ends no region"),
    "TEST for TESTS": ("BEGIN HIDDEN TESTS", "BEGIN HIDDEN TEST", "BEGIN HIDDEN TEST", NEAR_MISS),
    "lower case": ("### END HIDDEN TESTS", "### end hidden tests", "### end hidden", NEAR_MISS),
    "one # for three": ("### BEGIN SOLUTION", "# BEGIN SOLUTION", "# BEGIN SOLUTION", NEAR_MISS),
    "delimiter in a text cell": ("# More.", "# ### BEGIN SOLUTION", "# ### BEGIN", NEAR_MISS),
    "solution in a plain cell": (
        "base = 10",
        "if True:\n    ### BEGIN SOLUTION\n    base = 10\n    ### END SOLUTION",
        "### BEGIN SOLUTION",
        "outside a cell with answer=",
    ),
    "hidden tests in an answer": (
        '    """Twice x."""',
        "    ### BEGIN HIDDEN TESTS\n    ### END HIDDEN TESTS",
        "### BEGIN HIDDEN TESTS",
        "outside a cell with check=",
    ),
    "region at top level": (
        "def double(x):\n" + '    """Twice x."""\n' + "    ### BEGIN SOLUTION",
        "### BEGIN SOLUTION",
        "### BEGIN SOLUTION",
        "solution region at top level",
    ),
    "region in an if": ("def double(x):", "if base:", "### BEGIN SOLUTION", "outside a function"),
    "region in a class body": ("def double(x):", "class Double:", "### BEGIN SOLUTION", "outside a function"),
    "cleared answer is no Python": (
        "def double(x):",
        "def double(x:",
        'answer="double"',
        "is no valid Python",
    ),
    "header key missing": (
        '#     device: "any | all"\n',
        "",
        "# ---",
        "header key techlabs.device is missing",
    ),
    "header key empty": ("needs: nothing", "needs:", "needs:", "header key techlabs.needs is missing"),
    "header minutes a word": ("minutes: 5", "minutes: few", "minutes:", "must be a positive number"),
    "header name differs": (
        "name: toy",
        "name: game",
        "name: game",
        "must be the folder's name without number",
    ),
    "unknown option": (TEXT_CELL, TEXT_CELL.replace("]", '] color="red"'), "color", "unknown option 'color'"),
    "misspelt option": ("points=2", "point=2", "point=2", "unknown option 'point'"),
    "answer in a text cell": (
        TEXT_CELL,
        TEXT_CELL.replace("]", '] answer="x"'),
        '"x"',
        "unknown option 'answer'",
    ),
    "answer and check in one": ('check="double"', 'answer="a" check="double"', 'answer="a"', "not both"),
    "text above the first cell": (
        "# %% [markdown]\n# # Toy",
        "import this\n\n# %% [markdown]\n# # Toy",
        "import this",
        "text above the first cell",
    ),
    "output without its tag": (
        '# %% tags=["nbval-check-output"]',
        '# %% tags=["other"]',
        '"other"',
        "without the tag nbval-check-output",
    ),
}


@pytest.mark.parametrize(("old", "new", "at", "says"), BROKEN.values(), ids=BROKEN)
def test_a_broken_rule_is_named_with_file_and_line(make_layout, toy_source, old, new, at, says):
    source = toy_source.replace(old, new, 1)
    with pytest.raises(SourceError) as caught:
        build(make_layout(source))
    where = f"solutions/01_toy/01_toy.py:{numbered(source, at)}: "
    assert [line for line in str(caught.value).splitlines() if line.startswith(where) and says in line]


@pytest.mark.parametrize("option", ["answer", "check"])
def test_a_repeated_id_is_named_with_both_lines(make_layout, toy_source, option):
    source = toy_source.replace(f'{option}="triple"', f'{option}="double"')
    first, second = (n for n, line in enumerate(source.splitlines(), 1) if f'{option}="double"' in line)
    with pytest.raises(SourceError, match=rf":{second}: id .* is already taken by the cell of line {first}"):
        build(make_layout(source))


def test_a_source_without_a_header_misses_every_key(make_layout):
    with pytest.raises(SourceError) as caught:
        build(make_layout("# %%\nx = 1\n"))
    assert [problem.line for problem in caught.value.problems] == [1] * 6


def test_a_check_above_its_answer_is_named(make_layout, toy_source):
    head, answer, check = (
        toy_source[: toy_source.index('# %% answer="triple"')],
        toy_source[toy_source.index('# %% answer="triple"') : toy_source.index('# %% check="triple"')],
        toy_source[toy_source.index('# %% check="triple"') :],
    )
    with pytest.raises(SourceError, match=r'check "triple" stands above its answer \(line \d+\)'):
        build(make_layout(head + check + answer))


def test_all_broken_rules_are_reported_together_in_the_order_of_lines(make_layout, toy_source):
    source = toy_source.replace("points=2", "points=0").replace("points=3", "").replace("minutes: 5", "")
    with pytest.raises(SourceError) as caught:
        build(make_layout(source))
    lines = [problem.line for problem in caught.value.problems]
    assert len(lines) == 3
    assert lines == sorted(lines)
    assert len(str(caught.value).splitlines()) == 3


def test_several_sources_are_reported_together(make_layout, toy_source):
    layout = make_layout(toy_source.replace("points=2", "points=0"))
    other = layout.solutions / "02_other" / "02_other.py"
    other.parent.mkdir()
    other.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError) as caught:
        build(layout)
    assert [problem.path.name for problem in caught.value.problems] == ["01_toy.py", "02_other.py"]
    assert "not UTF-8" in str(caught.value)


def test_a_cell_marker_in_a_string_does_not_shift_the_lines(make_layout, toy_source):
    source = toy_source.replace("base = 10", 'base = 10\ntext = """\n# %% not a cell\n"""').replace(
        "points=2", ""
    )
    with pytest.raises(SourceError) as caught:
        build(make_layout(source))
    assert [problem.line for problem in caught.value.problems] == [numbered(source, 'check="double"')]


def test_options_in_json_do_not_shift_the_lines(make_layout, toy_source):
    source = toy_source.replace("# %% [markdown]\n# More.", '# %% [markdown] {"tags": ["a"]}\n# More.')
    source = source.replace("points=3", "")
    with pytest.raises(SourceError) as caught:
        build(make_layout(source))
    assert [problem.line for problem in caught.value.problems] == [numbered(source, 'check="triple"')]


def test_a_folder_without_its_source_is_named(make_layout):
    layout = make_layout()
    (layout.solutions / "03_empty").mkdir()
    with pytest.raises(BuildError, match=r"no lab source solutions/03_empty/03_empty\.py; there is 01_toy"):
        build(layout)


def test_an_unknown_lab_is_named_with_those_there_are(make_layout):
    with pytest.raises(BuildError, match=r"no lab source solutions/99_none/99_none\.py; there is 01_toy"):
        build(make_layout(), ["99_none"])


def test_no_labs_at_all_is_an_error_and_not_an_empty_course(make_layout):
    layout = make_layout()
    build(layout)
    shutil.rmtree(layout.solutions / "01_toy")
    with pytest.raises(BuildError, match="no labs in"):
        build(layout)
    assert (layout.labs / "01_toy" / "01_toy.ipynb").is_file()
