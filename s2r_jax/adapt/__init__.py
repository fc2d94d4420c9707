"""Visual domain adaptation: a policy head learned on simulated images, made to work on real ones.

`run.adapt` is the way in. `config` imports no JAX, so a command line can describe itself quickly.
"""
