"""A differentiable sim-to-real toolkit in JAX: identify, randomise, train, validate, deploy.

Importing the package prepares the JAX backend (see `backend.py`) and imports nothing heavy.
"""

from s2r_jax import backend

__version__ = "0.1.0"

backend.prepare()
