"""Policies and training states on disk: exact, and refused where damaged."""

import json

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slider
from numpy.testing import assert_allclose

from s2r_jax.errors import BadBundle, MissingFile
from s2r_jax.randomize import distribution
from s2r_jax.train import checkpoint, ppo
from s2r_jax.train import policy as policies
from s2r_jax.train.config import PPOConfig

CONFIG = PPOConfig(worlds=4, unroll=5, minibatches=2, hidden=(6, 5))


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    return slider.make(tmp_path_factory.mktemp("slider"))


@pytest.fixture(scope="module")
def state(env):
    drawn = distribution.from_bounds(env.simulator.parameters)
    return ppo.init(jax.random.key(3), drawn, env, CONFIG)


@pytest.fixture
def saved(env, state, tmp_path):
    policy = ppo.policy(state)._replace(mean=jnp.array([0.1, 0.2, 0.3]))
    policies.save(policy, env.task.observation, tmp_path, "slide")
    return policy


def test_policy_comes_back_bit_for_bit(env, saved, tmp_path):
    policy, terms = policies.load(tmp_path)
    chex.assert_trees_all_equal(policy, saved)
    assert terms == env.task.observation
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.json", "policy.safetensors"]


def test_action_agrees_with_numpy(saved):
    x = np.array([0.4, -0.3, 20.0])
    hidden = np.clip((x - np.asarray(saved.mean)) / np.asarray(saved.std), -10, 10)
    rows = [(np.asarray(kernel), np.asarray(bias)) for kernel, bias in policies.layers(saved)]
    assert [bias.size for _, bias in rows] == [6, 5, 1]
    for kernel, bias in rows[:-1]:
        z = hidden @ kernel + bias
        hidden = np.where(z > 0, z, np.expm1(z))
    expected = np.clip(hidden @ rows[-1][0] + rows[-1][1], -1, 1)
    assert_allclose(policies.act(saved, jnp.asarray(x)), expected, rtol=1e-5)  # float32


def test_action_is_within_one(saved):
    large = saved._replace(actor=jax.tree.map(lambda x: 100 * x + 1, saved.actor))
    assert float(policies.act(large, jnp.ones(3))[0]) == 1.0


def test_missing_file_is_named(saved, tmp_path):
    (tmp_path / "policy.json").unlink()
    with pytest.raises(MissingFile, match=r"policy\.json: no such file; s2r train writes it"):
        policies.load(tmp_path)


def test_damaged_arrays_are_refused(saved, tmp_path):
    file = tmp_path / "policy.safetensors"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(BadBundle, match="not a safetensors file"):
        policies.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [3, 6, 6, 1]}, r"layers are \[3, 6, 5, 1\], policy.json says \[3, 6, 6, 1\]"),
        ({"activation": "relu"}, "activation is 'relu', this version knows 'elu'"),
        ({"observation": [{"kind": "value"}]}, "not a policy's description"),
    ],
)
def test_description_of_another_policy_is_refused(saved, tmp_path, change, message):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(BadBundle, match=message):
        policies.load(tmp_path)


def test_training_state_comes_back_bit_for_bit(env, state, tmp_path):
    checkpoint.save_state(state, tmp_path / "state.safetensors")
    found = checkpoint.load_state(tmp_path / "state.safetensors", env, CONFIG)
    assert jax.tree.structure(found) == jax.tree.structure(state)
    plain = [
        jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x
        for tree in (found, state)
        for x in jax.tree.leaves(tree)
    ]
    half = len(plain) // 2
    chex.assert_trees_all_equal(plain[:half], plain[half:])


def test_state_of_other_networks_is_refused(env, state, tmp_path):
    path = tmp_path / "state.safetensors"
    checkpoint.save_state(state, path)
    with pytest.raises(BadBundle, match=r"bias'\] is float32\[5\], expected float32\[7\]"):
        checkpoint.load_state(path, env, PPOConfig(worlds=4, unroll=5, hidden=(6, 7)))
    with pytest.raises(BadBundle, match="is not of this robot, task and networks"):
        checkpoint.load_state(path, env, PPOConfig(worlds=4, unroll=5, hidden=(6,)))
    with pytest.raises(MissingFile, match="s2r train writes one"):
        checkpoint.load_state(tmp_path / "other", env, CONFIG)
