"""The example robots: every task can be read, and standing still is standing."""

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from s2r_jax import robot
from s2r_jax.sim import world
from s2r_jax.train import environment, task

FOLDERS = sorted(path.parent for path in (Path(__file__).parents[1] / "examples").glob("*/*.yaml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_task_can_be_read(folder):
    r = robot.load(folder)
    for name in r.tasks:
        assert task.parse(r, name).steps > 0


def test_quadruped_stands_by_itself_and_is_moved_by_pushes():
    r = robot.load(FOLDERS[0].parent / "quadruped")
    stand = environment.make(world.make(r, "mujoco"), "stand")

    def play(speed):
        w = stand.simulator.world(jnp.asarray(r.parameters.start, jnp.float32))
        w = w._replace(push=w.push._replace(speed=speed, interval=jnp.float32(0.5)))
        still = lambda _: jnp.zeros(stand.action_size)  # noqa: E731
        return environment.episode(stand, still, jax.random.key(0), w)

    alone, pushed = play(jnp.array(0.0)), play(jnp.array(1.0))
    assert bool(alone.success)
    # signals begin with the trunk's position; eight pushes in 4 s slide it over the floor
    assert float(jnp.linalg.norm(alone.signals[-1, :2])) < 0.05
    assert float(jnp.linalg.norm(pushed.signals[-1, :2])) > 0.1
