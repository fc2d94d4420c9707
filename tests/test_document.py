"""YAML as users write it: no key twice, numbers in any notation, names with brackets."""

import pytest

from s2r_jax import document
from s2r_jax.errors import BadValue


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 3\n", "m: {x: 1, x: 1}\n", "- {k: 1}\n- {1: a, 1: b}"]
)
def test_a_key_that_stands_twice_is_an_error(text):
    with pytest.raises(BadValue, match="stands twice in one mapping"):
        document.parse(text, "f.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [("2e-2", 0.02), ("-1E3", -1000.0), ("1.e2", 100.0), (".5e1", 5.0), ("3", 3), ("1.5", 1.5)],
)
def test_numbers_with_an_exponent_are_numbers(text, value):
    found = document.parse(f"x: {text}", "f.yaml")["x"]
    assert found == value
    assert type(found) is type(value)


def test_text_that_looks_like_a_number_stays_text():
    assert document.parse("x: '2e-2'\ny: e2\nz: 1e", "f") == {"x": "2e-2", "y": "e2", "z": "1e"}


@pytest.mark.parametrize("value", [10**400, float("nan"), float("inf"), True, "1", None, [1]])
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises(BadValue, match="expected a finite number"):
        document.number({"x": value}, "x", "f.yaml")


@pytest.mark.parametrize("value", [None, 12, "", " ", ["a"], True])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(BadValue, match=r"name is .*, expected a text"):
        document.text({"name": value}, "name", "f.yaml")


def test_a_name_with_brackets_matches_itself_alone():
    names = ["leg[0]", "leg0", "leg1"]
    assert document.matching("leg[0]", names) == ["leg[0]"]
    assert document.matching("leg[01]", names) == ["leg0", "leg1"]
    assert document.matching("leg*", names) == names
