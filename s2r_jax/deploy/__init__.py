"""The robot's side: contract, bundle, safety and the control loop.

Everything but `describe.py` and `export.py`, which run on the workstation, runs on the robot and
imports numpy and onnxruntime, and no JAX.
"""
