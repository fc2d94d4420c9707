"""One simulated world: physics engines, actuation, latency, sensing and terrain, for the same θ."""
