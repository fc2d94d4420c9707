"""Training on two devices against training on one."""

import json
import os
import subprocess
import sys

import pytest
from numpy.testing import assert_allclose

SCRIPT = """
import json, sys
from pathlib import Path
import jax, numpy as np
import slider
from s2r_jax.randomize import distribution
from s2r_jax.train import run
from s2r_jax.train.config import PPOConfig

env = slider.make(Path(sys.argv[1]), "mjx")
drawn = distribution.from_bounds(env.simulator.parameters)
config = PPOConfig(updates=3, worlds=8, unroll=5, minibatches=2, hidden=(8,), episodes=2)
result = run.train(env, drawn, config)
leaf = result.state.worlds.world.theta
print(json.dumps({
    "devices": len(leaf.sharding.device_set),
    "shard": leaf.addressable_shards[0].data.shape,
    "rewards": [float(info.reward) for info in result.history],
    "weights": np.concatenate([np.ravel(x) for x in jax.tree.leaves(result.policy)]).tolist(),
}))
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_devices_learn_what_one_learns(tmp_path):
    found = []
    for count in (1, 2):
        flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={count}"
        path = os.pathsep.join(("tests/train", "."))
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / str(count))],
            env=os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    one, two = found
    assert (one["devices"], one["shard"]) == (1, [8, 2])
    assert (two["devices"], two["shard"]) == (2, [4, 2])
    # float32 sums in another order, through three updates of Adam
    assert_allclose(two["rewards"], one["rewards"], rtol=1e-3)
    assert_allclose(two["weights"], one["weights"], atol=1e-3)
