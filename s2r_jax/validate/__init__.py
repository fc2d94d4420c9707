"""Whether a policy is ready for the machine: returns, tail risk, success, and a verdict."""
