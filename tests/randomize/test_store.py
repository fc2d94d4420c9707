import chex
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax.errors import BadValue, MissingFile, MissingKey, S2RError, UnknownName
from s2r_jax.randomize import distribution as d
from s2r_jax.randomize import store
from tests.randomize.cases import CORRELATION, MARGINALS, PARAMETERS

TEXT = """\
parameters:
- {name: geom/floor/friction, kind: uniform, low: 0.3, high: 1.2}
- {name: body/arm/mass, kind: lognormal, low: 1.5, high: 5.0, mean: 2.0, std: 0.3}
- {name: motor/hip/strength, kind: normal, low: 0.9, high: 1.3, mean: 1.0, std: 0.08}
- {name: latency/action, kind: fixed, value: 0.004}
- {name: joint/hip/damping, kind: loguniform, low: 0.01, high: 10.0}
correlation:
  names: [geom/floor/friction, body/arm/mass, motor/hip/strength, joint/hip/damping]
  rows:
  - [1.0, 0.3, 0.0, 0.0]
  - [0.3, 1.0, -0.8, 0.0]
  - [0.0, -0.8, 1.0, 0.2]
  - [0.0, 0.0, 0.2, 1.0]
"""
REASONS = ("guess", "posterior", "data sheet", "measured", "bounds: the logs do not identify it")


def test_the_text_is_the_documented_one():
    assert store.to_yaml(d.build(PARAMETERS, MARGINALS, CORRELATION), PARAMETERS) == TEXT


def test_what_was_read_is_written_and_read_again_exactly(tmp_path):
    first = store.from_yaml(TEXT, PARAMETERS)
    store.save(tmp_path / store.FILE, first, PARAMETERS, REASONS)
    second = store.load(tmp_path / store.FILE, PARAMETERS)
    chex.assert_trees_all_equal(first, second)
    assert store.to_yaml(second, PARAMETERS) == TEXT
    assert [path.name for path in tmp_path.iterdir()] == [store.FILE]


@pytest.mark.parametrize("seed", range(20))
def test_any_distribution_survives_the_file(seed):
    rng = np.random.default_rng(seed)
    low, high = np.array(PARAMETERS.low), np.array(PARAMETERS.high)
    ends = np.sort(rng.uniform(low, high, (2, 5)), axis=0)
    marginals = [
        d.Marginal("normal", a, b, rng.uniform(a, b), rng.exponential()) for a, b in ends.T.tolist()
    ]
    root = rng.normal(size=(5, 3))  # rank 3: a singular correlation
    covariance = root @ root.T
    scale = np.sqrt(np.diagonal(covariance))
    distribution = d.build(PARAMETERS, marginals, covariance / np.outer(scale, scale))
    text = store.to_yaml(distribution, PARAMETERS)
    again = store.from_yaml(text, PARAMETERS)
    chex.assert_trees_all_equal(distribution[:-1], again[:-1])
    # Correlations have six decimals; where an eigenvalue is 1e-4 the factor moves more than they.
    product, product_again = (np.asarray(x.cholesky) for x in (distribution, again))
    assert_allclose(product @ product.T, product_again @ product_again.T, atol=2e-6)
    assert store.to_yaml(again, PARAMETERS) == text


def test_bounds_survive_the_file():
    distribution = d.from_bounds(PARAMETERS)
    again = store.from_yaml(store.to_yaml(distribution, PARAMETERS), PARAMETERS)
    chex.assert_trees_all_equal(distribution, again)
    assert "{name: latency/action, kind: uniform, low: 0.0, high: 0.03}" in store.to_yaml(
        distribution, PARAMETERS
    )


@pytest.mark.parametrize(
    ("old", "new", "kind", "message"),
    [
        ("kind: uniform", "kind: unifrom", UnknownName,
         "f: parameters: geom/floor/friction: unknown kind 'unifrom'; did you mean 'uniform'? "
         "available: fixed, lognormal, loguniform, normal, uniform"),
        ("low: 0.3, high: 1.2", "low: 0.3", MissingKey,
         "f: parameters: geom/floor/friction: the key 'high' is required; given: name, kind, low"),
        ("high: 1.2", "high: 1.2, std: 0.1", UnknownName,
         "f: parameters: geom/floor/friction: unknown key 'std'; available: high, kind, low, name, "
         "reason"),
        ("high: 1.2", "high: 2.2", BadValue,
         "f: range of geom/floor/friction is [0.3, 2.2], expected low <= high, inside the "
         "parameter's bounds [0.05, 1.7]"),
        ("high: 1.2", "high: wide", BadValue,
         "f: parameters: geom/floor/friction: high is 'wide', expected a finite number"),
        ("- {name: latency/action, kind: fixed, value: 0.004}\n", "", MissingKey,
         "f: parameters: the key 'latency/action' is required; given: geom/floor/friction, "
         "body/arm/mass, motor/hip/strength, joint/hip/damping"),
        ("latency/action, kind: fixed, value: 0.004", "body/arm/mass, kind: fixed, value: 2.0",
         BadValue, "f: parameters: name is 'body/arm/mass', expected each parameter once"),
        ("names: [geom/floor/friction", "names: [geom/floor/fricton", UnknownName,
         "f: correlation: unknown parameter 'geom/floor/fricton'; did you mean "
         "'geom/floor/friction'? available: body/arm/mass, geom/floor/friction, "
         "joint/hip/damping, latency/action, motor/hip/strength"),
        ("[0.0, 0.0, 0.2, 1.0]", "[0.0, 0.0, 0.2]", BadValue,
         "f: correlation: rows is [[1.0, 0.3, 0.0, 0.0], [0.3, 1.0, -0.8, 0.0], [0.0, -0.8, 1.0, "
         "0.2], [0.0, 0.0, 0.2]], expected 4 lists of 4 numbers in [-1, 1]"),
        ("parameters:", "parameter:", UnknownName,
         "f: unknown key 'parameter'; did you mean 'parameters'? available: correlation, "
         "parameters"),
    ],
)  # fmt: skip
def test_every_mistake_is_named(old, new, kind, message):
    assert TEXT.count(old) == 1
    with pytest.raises(S2RError) as error:
        store.from_yaml(TEXT.replace(old, new), PARAMETERS, "f")
    assert isinstance(error.value, kind)
    assert str(error.value) == message


def test_a_file_that_is_not_there_or_not_yaml_is_named(tmp_path):
    path = tmp_path / store.FILE
    with pytest.raises(MissingFile, match="no such randomization; s2r randomize writes one"):
        store.load(path, PARAMETERS)
    path.write_text("parameters: [", encoding="utf-8")
    with pytest.raises(BadValue, match=r"randomization\.yaml: file is .* expected valid YAML"):
        store.load(path, PARAMETERS)
