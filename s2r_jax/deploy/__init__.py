"""The robot's side: contract, bundle, safety and the control loop.

Everything but `export.py` runs on the robot: it imports numpy and onnxruntime, and no JAX.
"""
