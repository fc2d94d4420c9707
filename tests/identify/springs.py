"""A released spring: its robot folder, and its log in closed form.

A block of 2 kg on a slide, pulled 0.3 m aside and let go; the machine that is measured has 20 N/m
and 0.5 N s/m. Nothing commands it, so that its motion is known for every stiffness and damping.
"""

import numpy as np

from s2r_jax.types import Command, Trajectory

PERIOD = 0.01  # s
START = 0.3  # m

#: Lines of robot.yaml for what most tests fit.
STIFFNESS = "target: joint/x/stiffness, bounds: [1, 100], transform: log, start: 12"
DAMPING = "target: joint/x/damping, bounds: [0.01, 10], transform: log, start: 1"

XML = """
<mujoco><option gravity="0 0 0" {option}/><worldbody>
<body name="block"><joint name="x" type="slide" axis="1 0 0" stiffness="{stiffness}" damping="0.5"/>
<geom size=".1" mass="2"/></body></worldbody></mujoco>"""
YAML = """
name: spring
model: spring.xml
control: {{period: {period}}}
signals: {{joint/x/position: {signal}}}
parameters:
"""


def folder(
    path,
    *parameters,
    stiffness=20.0,
    option='timestep="0.001" integrator="RK4"',
    signal="{}",
    rest="",
):
    """Write the robot folder of a spring; return its path.

    Args:
        path: The folder, which exists.
        *parameters: What each entry of `parameters` says, without its braces.
        stiffness: What the model takes the stiffness to be, in N/m.
        option: How the model integrates; RK4 at 1 ms is the closed form to 1e-5 of the stiffness.
        signal: What robot.yaml says of the position.
        rest: Lines of robot.yaml after the parameters.
    """
    (path / "spring.xml").write_text(XML.format(stiffness=stiffness, option=option))
    head = YAML.format(period=PERIOD, signal=signal)
    listed = "".join(f"  - {{{p}}}\n" for p in parameters)
    (path / "robot.yaml").write_text(head + listed + rest)
    return path


def swing(mass=2.0, stiffness=20.0, damping=0.5, noise=0.0, seed=0, rows=301, has_states=False):
    """The log of a spring released at rest: x(t) in closed form, and white noise on it.

    Args:
        mass: In kg.
        stiffness: In N/m.
        damping: In N s/m, less than critical.
        noise: Standard deviation of what is measured, in m.
        seed: Of the noise.
        rows: Samples, a control period apart.
        has_states: Whether each row carries its true state, where a window may then start; else
            every row carries the first one.
    """
    t = np.arange(rows) * PERIOD
    decay = damping / (2 * mass)
    omega = np.sqrt(stiffness / mass - decay**2)
    envelope = START * np.exp(-decay * t)
    x = envelope * (np.cos(omega * t) + decay / omega * np.sin(omega * t))
    v = -envelope * (omega + decay**2 / omega) * np.sin(omega * t)
    measured = x + noise * np.random.default_rng(seed).standard_normal(rows)
    none = np.zeros((rows, 0))
    command = Command(none, none, none, none, none, np.full(rows, np.nan))
    qpos, qvel = (x, v) if has_states else (np.full(rows, START), np.zeros(rows))
    return Trajectory("swing", command, measured[:, None], qpos[:, None], qvel[:, None])
