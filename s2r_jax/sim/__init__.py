"""One pure function for one simulated world, on three engines.

MJX announces on standard output which of its optional parts are missing; standard output belongs to
the results of commands, so its first import is done here, silently.
"""

import contextlib
import io

with contextlib.redirect_stdout(io.StringIO()):
    import mujoco.mjx  # noqa: F401
