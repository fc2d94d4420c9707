from numpy.testing import assert_allclose

from s2r_jax.parameters import Effect, ParameterSet
from s2r_jax.randomize import distribution as d
from s2r_jax.randomize.defaults import default_choices, from_defaults
from tests.randomize.cases import PARAMETERS


def test_six_quantities_have_the_documented_ranges():
    distribution = from_defaults(PARAMETERS)
    assert [d.KINDS[k] for k in distribution.kind] == [
        "uniform", "loguniform", "normal", "uniform", "loguniform",
    ]  # fmt: skip
    assert_allclose(distribution.low, [0.3, 1.6, 0.3, 0.0, 1e-4], rtol=1e-6)  # mass 2 kg x 0.8
    assert_allclose(distribution.high, [1.2, 2.5, 1.3, 0.025, 10.0], rtol=1e-6)
    assert_allclose(distribution.std[2], 0.08, rtol=1e-6)
    assert default_choices(PARAMETERS)[4].reason == "bounds: no default for this quantity"


def one(name, low, high, nominal, operation):
    effects = (Effect("field", operation, (0,), (0,), (1.0,)),)
    return ParameterSet((name,), (low,), (high,), (nominal,), (nominal,), (float("inf"),),
                        ("identity",), ("",), effects)  # fmt: skip


def test_ranges_follow_the_pack_of_the_robot():
    distribution = from_defaults(one("battery/voltage", 10.0, 13.0, 12.0, "set"))
    assert_allclose([*distribution.low, *distribution.high], [11.0, 12.6], rtol=1e-6)


def test_a_default_that_does_not_fit_leaves_the_bounds_and_says_so():
    slippery = one("geom/floor/friction", 0.01, 0.1, 0.05, "set")
    assert default_choices(slippery)[0].reason == (
        "bounds: they do not overlap the default range [0.3, 1.2]"
    )
    scaled = one("geom/floor/friction", 0.5, 2.0, 1.0, "scale")
    assert default_choices(scaled)[0].reason == (
        "bounds: the default of geom/*/friction is no offset or factor"
    )
    offset = one("body/arm/mass", -1.0, 1.0, 0.0, "add")
    assert default_choices(offset)[0].reason == (
        "bounds: the default of body/*/mass is no offset or factor"
    )
    assert_allclose(from_defaults(offset).low, -1.0)
