"""Policy optimisation: the task, the environment around a simulated world, and PPO."""
