"""From logs of a machine to a posterior over θ."""
