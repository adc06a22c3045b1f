"""Everything shown has a text for who can't see it."""

import re

import pytest

from techlabs import diagrams, plots
from techlabs.data import digits
from techlabs.show import Text, table


@pytest.mark.parametrize(
    "picture",
    [
        diagrams.gpu,
        diagrams.ipu,
        diagrams.ring,
        diagrams.pipeline,
        lambda: diagrams.feeding("IPU"),
        lambda: plots.image_row(digits()[0]),
        lambda: plots.plateau(
            {1: 278, 8: 577}, "replicas", "published", lambda replicas: 1000 / (1 + 2 / replicas)
        ),
    ],
)
def test_a_picture_has_an_alternative_text_that_is_a_sentence(picture):
    picture = picture()
    (alt,) = re.findall(r'<img alt="([^"]+)"', picture._repr_html_())
    assert len(alt.split()) > 8 and alt.endswith(".")


def test_a_figure_is_the_same_bytes_each_time():
    train, _ = digits()
    assert plots.image_row(train)._repr_html_() == plots.image_row(train)._repr_html_()


def test_a_table_lines_up_in_a_terminal():
    shown = table(["", "gpu"], [["accuracy", "0.97"], ["calls", "22"]])
    assert repr(shown).splitlines() == ["          gpu", "accuracy  0.97", "calls     22"]


def test_text_is_never_markup():
    assert "<b>x" not in Text("<b>x</b>")._repr_html_()


def test_the_digits_are_split_the_same_way_each_time():
    train, test = digits()
    assert (len(train), len(test)) == (1437, 360)
    again, _ = digits()
    assert (train.tensors[1] == again.tensors[1]).all()
