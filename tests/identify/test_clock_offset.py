"""An offset between the clocks of commands and measurements, found to a fraction of a period."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from s2r_jax import robot
from s2r_jax.identify import study
from s2r_jax.identify.config import IdentifyConfig
from s2r_jax.identify.fit import fit
from s2r_jax.sim import world
from s2r_jax.types import Command, Trajectory

XML = """
<mujoco><option timestep="0.001" gravity="0 0 0"/><worldbody>
<body name="block"><joint name="x" type="slide" axis="1 0 0" damping="4"/>
<geom size=".1" mass="2"/></body></worldbody>
<actuator><motor name="push" joint="x"/></actuator></mujoco>"""
YAML = """
name: pushed
model: pushed.xml
control: {{period: 0.01}}
signals: {{joint/x/position: {{noise: 1.0e-4}}}}
latency: {{action: {latency}}}
identify: {{window: 1.0}}
parameters: [{parameters}]
"""
DAMPING = "{target: joint/x/damping, bounds: [0.1, 20], transform: log, start: 2}"
CLOCK = "{target: clock/command, bounds: [-0.03, 0.03], unit: s}"
LATENCY = "{target: latency/action, bounds: [0, 0.03], start: 0.001, unit: s}"
ROWS, LATE = 400, 2


@pytest.fixture
def pushed(tmp_path):
    (tmp_path / "pushed.xml").write_text(XML)

    def make(*parameters, latency=0.0):
        text = YAML.format(latency=latency, parameters=", ".join(parameters))
        (tmp_path / "robot.yaml").write_text(text)
        return robot.load(tmp_path)

    return make


def motion(machine, force):
    """States [time, 2] of the machine, whose latency is real, under a force a control period."""
    with jax.enable_x64(True):
        simulator = world.make(machine, "mujoco")
        physics = simulator.world(jnp.zeros(0))
        state = simulator.init(physics, jnp.zeros(1), jnp.zeros(1))
        command = simulator.nominal_command(jnp.zeros(1))

        def advance(state, target):
            now = jnp.concatenate([state.physics.qpos, state.physics.qvel])
            return simulator.step(physics, state, command._replace(target=target)), now

        run = jax.jit(lambda s, f: jax.lax.scan(advance, s, f)[1])
        return np.asarray(run(state, jnp.asarray(force)))


def log(pushed, offset):
    """A log whose command rows are stamped `offset` seconds before they were given, in truth."""
    shift = LATE if offset < 0 else 0
    machine = pushed(latency=offset + shift * 0.01)
    # A random walk: neighbouring rows differ, so that a shift can be seen.
    force = np.cumsum(np.random.default_rng(0).standard_normal((ROWS + LATE, 1)), axis=0)
    force -= np.linspace(0, 1, ROWS + LATE)[:, None] * force[-1]
    states = motion(machine, force)[LATE:]
    rows = force[LATE - shift : LATE - shift + ROWS]
    noise = 1e-4 * np.random.default_rng(1).standard_normal((ROWS, 1))
    zero = np.zeros((ROWS, 1))
    command = Command(rows, zero, zero, zero, zero + 1, np.full(ROWS, np.nan))
    return Trajectory("log", command, states[:, :1] + noise, states[:, :1], states[:, 1:])


@pytest.mark.parametrize("offset", [0.013, -0.013])
def test_clock_offset_of_either_sign_is_recovered(pushed, offset):
    given = log(pushed, offset)
    r = pushed(DAMPING, CLOCK)
    windows = study.windows(world.make(r, "mujoco"), [given], 1.0)
    found = fit(r, windows, IdentifyConfig(method="fd")).posterior
    damping, clock = found.value
    assert abs(clock - offset) < 3 * found.std[1]
    assert found.std[1] < 1e-3  # a tenth of a control period
    assert damping == pytest.approx(4, abs=3 * found.std[0])
    assert found.identifiable.all()


def test_clock_offset_and_latency_cannot_be_told_apart(pushed):
    given = log(pushed, 0.013)
    r = pushed(CLOCK, LATENCY)
    windows = study.windows(world.make(r, "mujoco"), [given], 1.0)
    found = fit(r, windows, IdentifyConfig(method="fd"))
    assert not found.posterior.identifiable.any()
    assert any({"clock/command", "latency/action"} == set(c.names) for c in found.combinations)
    assert found.posterior.value.sum() == pytest.approx(0.013, abs=1e-3)


def test_a_live_world_has_no_clock_of_a_log(pushed):
    simulator = world.make(pushed(CLOCK), "mujoco")
    offset = simulator.world(jnp.array([0.02]))
    assert float(offset.latency.action) == 0.0
    # Commands run three periods ahead, so that -0.03 s is a latency of none.
    assert simulator.ahead == 3
    assert float(simulator.as_logged(offset).latency.action) == pytest.approx(0.05)
