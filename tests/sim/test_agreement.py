"""Every example robot moves alike on the three engines, whatever its θ.

Ten worlds a robot, with θ drawn anywhere within its bounds, first speeds and random commands within
its limits; 100 control periods, of one to ten physics steps each. The reference is the C engine in
float64. Robots are found by listing `examples/`, so a new one is tested without an edit here; one
that an engine refuses fails with that engine's message.
"""

import copy
import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from numpy.testing import assert_allclose

from s2r_jax import robot, targets
from s2r_jax.parameters import ParameterSet, apply, is_model_field
from s2r_jax.sim import probe, world

EXAMPLES = Path(__file__).parents[2] / "examples"
ROBOTS = sorted(path.parent.name for path in EXAMPLES.glob("*/robot.yaml"))
WORLDS, PERIODS = 10, 100
SPEED = 0.3
#: Lift [m] and first speeds of robots that must not start as the others do.
#: MJX drops corners of a box that are 1 mm less deep than the deepest one, where C keeps them all,
#: so a tumbling cube moves differently; this one drops flat, slides along an edge and stays level.
#: The lift clears a table that θ raises by up to 1 cm.
STARTS = {"cube": (0.013, (0.1, 0, 0, 0, 0, 0))}


class Tolerance(NamedTuple):
    positions: float  # rad, m
    speeds: float  # rad/s, m/s; and every other true signal, torques and accelerations included


#: Against C: `mjx` in float64, `warp` in the only precision it has, float32.
TOLERANCE = {"mjx": Tolerance(1e-12, 1e-11), "warp": Tolerance(3e-6, 3e-5)}
LOOSER = {
    # The pole falls: an error doubles every 0.14 s, 2 s long.
    ("cartpole", "warp"): Tolerance(5e-5, 2e-4),
    # Four corners at once make the solution of the elliptic cones degenerate: both solvers stop at
    # a tolerance of 1e-8 by ways of their own.
    ("cube", "mjx"): Tolerance(1e-8, 1e-6),
    # Friction loss: the same, where a joint sticks (1e-16 with a solver tolerance of 1e-14).
    ("double_pendulum", "mjx"): Tolerance(1e-8, 1e-6),
    ("xl330", "mjx"): Tolerance(1e-9, 1e-7),
    # Joints that stick or slip one step earlier.
    ("go2", "warp"): Tolerance(1e-5, 3e-4),
    # Its feet strike and slip, at joint speeds of up to 27 rad/s.
    ("quadruped", "mjx"): Tolerance(1e-11, 1e-9),
    ("quadruped", "warp"): Tolerance(3e-4, 2e-2),
}


def draws(parameters: ParameterSet) -> np.ndarray:
    """θ anywhere within the bounds, evenly in the coordinates of each parameter."""
    low, high = (np.array(getattr(parameters, key), dtype=float) for key in ("low", "high"))
    share = np.random.default_rng(0).uniform(size=(WORLDS, len(parameters)))
    is_log = np.array([transform == "log" for transform in parameters.transforms], dtype=bool)
    ratio = np.divide(high, low, out=np.ones_like(low), where=is_log)
    return np.where(is_log, low * ratio**share, low + share * (high - low))


def paths(name: str, engine: str, dtype=jnp.float64) -> list[np.ndarray]:
    """Positions, speeds and true signals `[world, time, ...]`."""
    r = robot.load(EXAMPLES / name)
    simulator, model = world.make(r, engine), r.model
    lift, speed = STARTS.get(name, (0.0, SPEED))
    qpos = np.array(model.key_qpos[0] if model.nkey else model.qpos0)
    qpos[2:3] += lift
    qvel = np.random.default_rng(1).normal(size=(WORLDS, model.nv)) * np.array(speed)
    commands = jnp.asarray(probe.random_commands(r, PERIODS, seed=0), dtype)

    def one(theta, qvel):
        w = simulator.world(theta)
        state = simulator.init(w, jnp.asarray(qpos, dtype), qvel, commands[0])

        def advance(state, target):
            state = simulator.step(w, state, simulator.nominal_command(target))
            return state, (state.physics.qpos, state.physics.qvel, simulator.truth(state))

        return jax.lax.scan(advance, state, commands)[1]

    thetas = jnp.asarray(draws(r.parameters), dtype)
    found = jax.jit(jax.vmap(one))(thetas, jnp.asarray(qvel, dtype))
    return [np.asarray(leaf, dtype=float) for leaf in found]


@functools.cache
def reference(name: str) -> list[np.ndarray]:
    with jax.enable_x64(True):
        return paths(name, "mujoco")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", TOLERANCE)
@pytest.mark.parametrize("name", ROBOTS)
def test_engine_agrees_with_c(name, engine):
    is_wide = engine != "warp"
    with jax.enable_x64(is_wide):
        found = paths(name, engine, jnp.float64 if is_wide else jnp.float32)
    tolerance = LOOSER.get((name, engine), TOLERANCE[engine])
    positions, speeds, signals = reference(name)
    assert_allclose(found[0], positions, rtol=0, atol=tolerance.positions)
    assert_allclose(found[1], speeds, rtol=0, atol=tolerance.speeds)
    assert_allclose(found[2], signals, rtol=0, atol=tolerance.speeds)


@pytest.mark.parametrize("name", ROBOTS)
def test_every_world_moves_in_a_way_of_its_own(name):  # else agreement would mean little
    positions, speeds, _ = reference(name)
    assert np.isfinite(positions).all()
    fastest = np.abs(speeds).max(axis=(1, 2))
    assert fastest.min() > 0.01  # also where friction holds a joint nearly still
    assert np.median(fastest) > 0.1
    ends = positions[:, -1]
    apart = np.abs(ends[:, None] - ends[None]).max(axis=-1) + np.eye(WORLDS)
    assert apart.min() > 1e-4


def touching(name: str) -> np.ndarray:
    """Whether something touches, `[world, time]`, by C's own collision detection."""
    r = robot.load(EXAMPLES / name)
    effects = tuple(e for e in r.parameters.effects if is_model_field(e.field))
    inside = ParameterSet(effects=effects)
    nominal = {field: targets.model_field(r.model, field) for field in inside.fields}
    found = []
    for theta, path in zip(draws(r.parameters), reference(name)[0], strict=True):
        model = copy.copy(r.model)
        for field, value in apply(inside, theta, nominal, xp=np).items():
            targets.model_field(model, field)[...] = value
        data = mujoco.MjData(model)
        mujoco.mj_setConst(model, data)
        for qpos in path:
            data.qpos[:] = qpos
            mujoco.mj_fwdPosition(model, data)
            found.append(bool((data.contact.dist[: data.ncon] < 0).any()))
    return np.reshape(found, (WORLDS, PERIODS))


def test_at_least_two_robots_are_in_contact_in_every_world():
    share = {name: touching(name).mean(axis=1) for name in ROBOTS}
    assert sum((times > 0.3).all() for times in share.values()) >= 2
