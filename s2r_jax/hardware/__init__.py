"""Drivers: how a control loop reaches a robot, real or emulated."""
