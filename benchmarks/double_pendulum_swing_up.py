r"""Swing-up time of a real pendubot under a learnt policy, predicted by an identified model.

    s2r identify examples/double_pendulum $S2R_DATA/double_pendulum/sysid/*.npz \
        --method fd --holdout 0 --out runs/double_pendulum
    python benchmarks/double_pendulum_swing_up.py runs/double_pendulum/identified.json

The policy is DFKI's MC-PILCO one, from its parameters: squashed radial basis functions of speeds,
cosines and sines of the readings, zero in the first ten steps. The mechanics
come from other logs than the trials. A trial is up from the moment from which the end effector
stays above 0.9 of full height.

Two facts of the command path are not in the sysid logs, which are driven by the reported torque:
the torque arrives `--lag` late with `--gain` (data sheet of the logs, from TVLQR trials), and a
reading is as old as one step of the policy (`--age 1`): the driver's answer to the last command is
what the loop reads. Replays of the trials under `tau_con` show both: they fit best when a command
acts 36 ms after the row that it is logged with, a step of 30 ms and 6 ms. `--age 0` shows what
fresh readings would give.
"""

import argparse
import copy
import dataclasses
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from s2r_jax import backend
from s2r_jax import robot as robots
from s2r_jax.cli.replay import identified_theta
from s2r_jax.robot import Robot
from s2r_jax.sim import world
from s2r_jax.types import Command

ROOT = Path(__file__).parents[1]
TRIAL, WARM_UP = 10.0, 10
"""Seconds of a trial, and steps without torque at its start."""
LENGTHS, SHARE = (0.2, 0.3), 0.9
"""Of the links [m]; of full height, to count as up."""
LIMITS = (5.0, 0.5)
"""Of the policy's torques [N m]."""
SUBSTEPS = 15
"""Physics steps of 2 ms in a step of the policy."""


def main() -> None:
    """Simulate a trial and print its swing-up time beside those of the machine."""
    backend.prepare()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("identified", type=Path, help="identified.json of s2r identify")
    default = Path(os.environ.get("S2R_DATA", ROOT.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=default / "double_pendulum")
    parser.add_argument("--lag", type=float, default=0.006, help="of the torque [s]")
    parser.add_argument("--gain", type=float, default=0.92, help="delivered over commanded torque")
    parser.add_argument("--age", type=int, choices=(0, 1), default=1, help="of readings, in steps")
    given = parser.parse_args()

    trials = [np.load(path) for path in sorted((given.data / "rollouts").glob("*mcpilco*.npz"))]
    period = float(np.median(np.diff(trials[0]["time"])))
    real = [up_from(t["time"], t["pos_meas1"], t["pos_meas2"]) for t in trials]
    plain = robots.load(ROOT / "examples" / "double_pendulum")
    theta = identified_theta(given.identified, plain)
    policy = np.load(given.data / "controllers" / "pendubot_mcpilco_policy.npz")
    machine = with_command_path(plain, period, given.lag, given.gain)
    time, angles = simulate(machine, theta, policy, given.age)
    print("machine  :", " ".join(f"{t:.2f}" for t in real), "s")
    print(f"simulated: {up_from(time, *angles.T):.2f} s")


def up_from(time: np.ndarray, shoulder: np.ndarray, elbow: np.ndarray) -> float:
    """Return when the end effector is up for good [s]; infinite if it is not up at the end."""
    height = -LENGTHS[0] * np.cos(shoulder) - LENGTHS[1] * np.cos(shoulder + elbow)
    down = np.flatnonzero(height <= SHARE * sum(LENGTHS))
    return float(time[down[-1] + 1]) if down[-1] + 1 < len(time) else float("inf")


def with_command_path(robot: Robot, period: float, lag: float, gain: float) -> Robot:
    """Return the robot commanded every `period`, its torque `lag` late with `gain`."""
    model = copy.copy(robot.model)
    model.opt.timestep = period / SUBSTEPS
    values = {**robot.motors.values, "strength": np.full(model.nu, gain)}
    motors = dataclasses.replace(robot.motors, values=values)
    latency = {**robot.latency, "action": lag}
    return dataclasses.replace(
        robot,
        model=model,
        period=period,
        latency=latency,
        motors=motors,
    )


def simulate(
    robot: Robot, theta: np.ndarray, policy: "np.lib.npyio.NpzFile", age: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return time and angles of a trial as the machine would log them: `age` steps old."""
    simulator = world.make(robot, "mujoco")
    steps = round(TRIAL / robot.period)
    parts = [
        tuple(jnp.asarray(policy[f"{key}_{i}"]) for key in ("centers", "log_lengthscales",
                                                            "linear_weights"))
        for i in range(2)
    ]  # fmt: skip

    def torque(angle: jax.Array, speed: jax.Array) -> jax.Array:
        z = jnp.concatenate([speed, jnp.cos(angle), jnp.sin(angle)])
        out = []
        for (centers, lengths, weights), limit in zip(parts, LIMITS, strict=True):
            basis = jnp.exp(-jnp.sum(((centers - z) / jnp.exp(lengths)) ** 2, -1))
            out.append(limit * jnp.tanh(basis @ weights / limit))
        return jnp.stack(out)

    @jax.jit
    def trial(theta: jax.Array) -> jax.Array:
        machine = simulator.world(theta)
        state = simulator.init(machine, jnp.zeros(2), jnp.zeros(2))
        still = jnp.zeros(2)

        def step(carry, index):
            state, old = carry
            now = (state.physics.qpos, state.physics.qvel)
            angle, speed = now if age == 0 else old
            target = jnp.where(index < WARM_UP, 0.0, torque(angle, speed))
            command: Command = simulator.nominal_command(target)
            return (simulator.step(machine, state, command), now), angle

        _, angles = jax.lax.scan(step, (state, (still, still)), jnp.arange(steps))
        return angles

    with jax.enable_x64(True):
        angles = np.asarray(trial(jnp.asarray(theta)))
    return np.arange(steps) * robot.period, angles


if __name__ == "__main__":
    main()
