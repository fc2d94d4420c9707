"""What θ may be: a distribution of bounds, defaults, a posterior or a file; its adaptation."""
