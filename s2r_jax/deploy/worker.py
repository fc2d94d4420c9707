"""A policy in a thread of its own, so that the control loop keeps its schedule when it is late."""

import queue
import threading
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Policy = Callable[[np.ndarray], np.ndarray]
"""From an observation `[obs]` to an action `[nu]`, in numpy."""


class Worker:
    """One policy, one question at a time."""

    def __init__(self, policy: Policy):
        self._policy = policy
        self._questions: queue.SimpleQueue[np.ndarray | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[np.ndarray | BaseException] = queue.SimpleQueue()
        self.is_busy = False
        # A policy that never returns must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    def ask(self, observation: Float[np.ndarray, " obs"]) -> None:
        """Hand over an observation; only when the policy is not busy."""
        self.is_busy = True
        self._questions.put(observation)

    def answer(self, timeout: float) -> Float[np.ndarray, " nu"] | None:
        """Return the action if it comes within `timeout` [s].

        Raises:
            Exception: Whatever the policy raised.
        """
        try:
            answer = self._answers.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return None
        self.is_busy = False
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """Let the thread end after its present question."""
        self._questions.put(None)

    def _work(self) -> None:
        while (observation := self._questions.get()) is not None:
            try:
                self._answers.put(self._policy(observation))
            except BaseException as error:
                self._answers.put(error)
