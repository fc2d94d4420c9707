"""Where the arrays of a training run lie: worlds spread over all devices, everything else on each.

With one device this changes nothing; the compiler inserts what the devices must tell each other.
"""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from s2r_jax.train import ppo


def shardings(state: ppo.State) -> ppo.State:
    """Return the sharding of every leaf of a state; its number of worlds fits the devices."""
    devices = Mesh(np.array(jax.devices()), ("world",))
    spread = NamedSharding(devices, PartitionSpec("world"))
    copied = jax.tree.map(lambda _: NamedSharding(devices, PartitionSpec()), state)
    worlds = jax.tree.map(lambda _: spread, state.worlds)
    return copied._replace(worlds=worlds, returns=spread)
