"""Recordings of the machine: read through the column map, resampled, diagnosed, written."""
