"""A policy on the robot: ONNX in one thread, numpy in and out."""

import numpy as np
import onnxruntime
from jaxtyping import Float

from s2r_jax.deploy import onnx_check


class OnnxPolicy:
    """From an observation `[obs]` to an action `[nu]` in [-1, 1].

    An observation that is not finite gives an action of NaN, which `safety.limit` refuses: the
    normaliser cuts outliers, and an infinity would pass as one of them.
    """

    def __init__(self, model: bytes, observation_size: int, action_size: int):
        """Check and load a model.

        Raises:
            ValueError: It holds what it must not, does not load, or has other sizes.
        """
        onnx_check.check(model)
        options = onnxruntime.SessionOptions()
        # A second thread costs more than these products, and its scheduling is jitter.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            self._session = onnxruntime.InferenceSession(
                model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            # onnxruntime raises its own classes, derived from Exception alone.
            raise ValueError(f"does not load: {' '.join(str(error).split())}") from None
        ports = (self._session.get_inputs(), self._session.get_outputs())
        found = [[(port.type, port.shape) for port in side] for side in ports]
        expected = [[("tensor(float)", [1, size])] for size in (observation_size, action_size)]
        if found != expected:
            raise ValueError(f"has inputs and outputs {found}, expected {expected}")
        self._input = ports[0][0].name

    def __call__(self, observation: Float[np.ndarray, " obs"]) -> Float[np.ndarray, " nu"]:
        """Return the action."""
        row = np.asarray(observation, dtype=np.float32)[None]
        (action,) = self._session.run(None, {self._input: row})
        action = np.asarray(action)[0]
        return action if np.isfinite(row).all() else np.full_like(action, np.nan)
