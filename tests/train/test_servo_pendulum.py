"""The embedded robot: a load that must be swung up by a servo worse than its data sheet."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot
from s2r_jax.randomize import distribution
from s2r_jax.sim import world
from s2r_jax.train import environment, run
from s2r_jax.train.config import PPOConfig

FOLDER = Path(__file__).parents[2] / "examples" / "servo_pendulum"
#: A weak motor, a heavy load, a horn mounted a notch off, a slow bus.
WORSE = {
    "motor/hinge/torque_constant": 0.19,
    "motor/hinge/friction": 0.01,
    "motor/hinge/offset": 0.15,
    "body/load/mass": 0.38,
    "latency/action": 0.03,
}


def test_motor_cannot_lift_the_load_directly():
    """Stall torque k V / R against the torque of gravity on the horizontal arm."""
    r = robot.load(FOLDER)
    theta = r.parameters.vector(WORSE)
    for values in (r.parameters.vector({}), theta):
        named = r.parameters.named(values)
        stall = named["motor/hinge/torque_constant"] * 5.0 / 3.6
        gravity = 9.81 * (0.15 * named["body/load/mass"] + 0.075 * 0.02)
        assert stall < 0.75 * gravity


@pytest.mark.slow
def test_engines_play_the_same_episode():
    r = robot.load(FOLDER)
    played = {}
    for engine in ("mujoco", "mjx"):
        env = environment.make(world.make(r, engine), "swing_up")
        theta = jnp.asarray(r.parameters.vector(WORSE), jnp.float32)

        def push(observation):
            return 0.5 * jnp.sin(3 * observation[2:3] + 1)

        def play(key, env=env, theta=theta):
            return environment.episode(env, push, key, env.simulator.world(theta))

        played[engine] = jax.jit(jax.vmap(play))(jax.random.split(jax.random.key(0), 4))
    # float32; 50 control periods, before the quantised encoder makes differences grow
    early = [np.asarray(p.signals[:, :50, 0]) for p in played.values()]
    assert_allclose(early[0], early[1], atol=2e-3)
    assert np.abs(early[0]).max() > 1.0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_randomised_policy_beats_nominal_one_on_a_worse_machine():
    r = robot.load(FOLDER)
    env = environment.make(world.make(r, "mujoco"), "swing_up")
    machine = distribution.nominal(r.parameters, r.parameters.vector(WORSE))
    rates = {}
    for name, drawn in (
        ("nominal", distribution.nominal(r.parameters)),
        ("randomised", distribution.from_bounds(r.parameters)),
    ):
        result = run.train(env, drawn, PPOConfig(updates=80))
        played = run.evaluate(env, machine, result.policy, jax.random.key(1), 50)
        rates[name] = float(played.success.mean())
        if name == "nominal":
            assert result.evaluation.success.mean() > 0.9  # it has learned what it was taught
    assert rates["nominal"] < 0.5 < 0.85 < rates["randomised"]
