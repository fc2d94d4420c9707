"""Tasks as written in robot.yaml: what they become, and what is refused."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import slider
from numpy.testing import assert_allclose
from slider import POSITION, TASK, VELOCITY

from s2r_jax import robot
from s2r_jax.errors import BadValue, MissingKey, UnknownName
from s2r_jax.train import reward, task


def parse(folder, **changes):
    return task.parse(robot.load(slider.write(folder, **changes)), "slide")


def test_times_become_control_periods(tmp_path):
    found = parse(tmp_path)
    assert (found.steps, found.success.last) == (10, 3)


def test_signals_are_gathered_once(tmp_path):
    found = parse(tmp_path, termination=[{"signal": VELOCITY, "high": 2.0}])
    assert [signal.name for signal in found.signals] == [POSITION, VELOCITY]
    assert (found.rewards[0].entries, found.success.entry, found.limits[0].entry) == ((0,), 0, 1)


def test_reset_starts_from_keyframe_and_takes_globs(tmp_path):
    places = {"keyframe": "shifted", "joint/*/velocity": {"spread": 0.5}, POSITION: {"value": 0.7}}
    found = parse(tmp_path, reset=places).reset
    assert found == task.Reset((0.7,), (0.0,), (-0.1,), (0.5,))


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"speed": 1}, UnknownName, "tasks: slide: unknown key 'speed'; available: observation, "),
        ({"seconds": None}, MissingKey, "the key 'seconds' is required"),
        (
            {"seconds": 0.03},
            BadValue,
            "seconds is 0.03, expected a positive multiple of the control",
        ),
        (
            {"observation": []},
            BadValue,
            "observation is [], expected a list with at least one entry",
        ),
        (
            {"reward": [{"term": "upright", "weight": 1}]},
            UnknownName,
            "reward: unknown term 'upright'; available: absolute, action, action_rate, alive, ",
        ),
        (
            {"reward": [{"term": "alive", "weight": 1, "width": 1}]},
            UnknownName,
            "reward: alive: unknown key 'width'; available: term, weight",
        ),
        ({"reward": [{"term": "alive"}]}, MissingKey, "alive: the key 'weight' is required"),
        (
            {"reward": [{"term": "cosine", "signal": POSITION, "weight": 1}]},
            MissingKey,
            "cosine: the key 'period' is required",
        ),
        (
            {"reward": [{"term": "near", "signal": POSITION, "weight": 1, "width": 0}]},
            BadValue,
            "near: width is 0.0, expected a positive number",
        ),
        (
            {"reward": [{"term": "value", "signal": "joint/rial/position", "weight": 1}]},
            UnknownName,
            "unknown signal 'joint/rial/position'; did you mean 'joint/rail/position'?",
        ),
        (
            {"reward": [{"term": "value", "signal": POSITION + ":1", "weight": 1}]},
            BadValue,
            "expected an entry :0 to :0 of joint/rail/position",
        ),
        (
            {"success": TASK["success"] | {"last": 0.4}},
            BadValue,
            "last is 0.4, expected at most 0.2",
        ),
        (
            {"success": TASK["success"] | {"signal": "body/block/position"}},
            BadValue,
            "expected one entry of it, such as body/block/position:0",
        ),
        ({"termination": [{"signal": POSITION}]}, BadValue, "expected low, high or both, with low"),
        (
            {"reset": {"keyframe": "home"}},
            UnknownName,
            "unknown keyframe 'home'; available: shifted",
        ),
        (
            {"reset": {"joint/hip/position": {}}},
            UnknownName,
            "reset: unknown key 'joint/hip/position'; ",
        ),
        ({"reset": {POSITION: {"spread": -1}}}, BadValue, "spread is -1, expected a number >= 0"),
    ],
)
def test_mistake_is_named(tmp_path, changes, kind, message):
    with pytest.raises(kind) as caught:
        parse(tmp_path, **changes)
    assert message in str(caught.value)
    assert str(tmp_path / "robot.yaml") in str(caught.value)


def test_unknown_task_lists_tasks(tmp_path):
    with pytest.raises(UnknownName, match="unknown task 'glide'; did you mean 'slide'"):
        task.parse(robot.load(slider.write(tmp_path)), "glide")


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_terms_agree_with_their_definitions(xp):
    signals = xp.asarray([3.5, -0.5, 2.0])
    action, previous = xp.asarray([0.5, -1.0]), xp.asarray([0.0, 1.0])
    turn = 2 * math.pi
    wrong = 3.5 - math.pi
    expected = {
        reward.Reward("cosine", 2.0, (0,), math.pi, turn): 2 * (0.5 + 0.5 * math.cos(wrong)),
        reward.Reward("near", 1.0, (0,), -math.pi, turn, 0.4): math.exp(-((wrong / 0.4) ** 2)),
        reward.Reward("square", -1.0, (1, 2), 1.0): -(1.5**2 + 1.0**2),
        reward.Reward("absolute", 1.0, (1, 2)): 2.5,
        reward.Reward("value", 3.0, (1, 2)): 4.5,
        reward.Reward("action", 1.0): 1.25,
        reward.Reward("action_rate", -1.0): -4.25,
        reward.Reward("alive", 0.7): 0.7,
    }
    assert {term.kind for term in expected} == set(reward.TERMS)
    for term, value in expected.items():
        found = reward.reward((term,), signals, action, previous, xp)
        assert found == pytest.approx(value, rel=1e-5), term.kind
    total = reward.reward(tuple(expected), signals, action, previous, xp)
    assert total == pytest.approx(sum(expected.values()), rel=1e-5)


def test_error_is_shortest_way_round():
    turn = 2 * math.pi
    angles = np.array([-math.pi + 0.1, 3 * math.pi - 0.2, 0.3])
    found = reward.error(angles, math.pi, turn, np)
    assert_allclose(found, [0.1, -0.2, 0.3 - math.pi], atol=1e-12)


def test_success_looks_only_at_the_end():
    goal = task.Success("s", 0, math.pi, 2 * math.pi, 0.2, 3)
    held = np.array([0.0, 0.0, -3.0, 3.3, 3.0])
    assert task.succeeded(goal, held)
    assert not task.succeeded(goal, np.append(held, 2.9))
    assert jax.jit(lambda x: task.succeeded(goal, x, jnp))(jnp.asarray(held))
