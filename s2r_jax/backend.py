"""Prepare JAX before its first use: compilation cache, and XLA's flags and threads for this jaxlib.

Compilation dominates every small study on a CPU, so compiled programs are kept in the user's cache
folder for tests and
users alike. Everything here is an environment variable that the user may have set otherwise; then
theirs stands.
"""

import importlib.metadata
import os
import sys
from pathlib import Path

#: jaxlib versions whose CPU fusion emitters make batched MJX up to 40 times slower, and that know
#: the flag to turn them
#: off. An unknown flag aborts the process, so no other version gets it.
SLOW_FUSION_EMITTERS = ("0.10.0", "0.10.1", "0.10.2")
FUSION_FLAG = "--xla_cpu_use_fusion_emitters=false"

#: jaxlib versions whose CPU threads can wait for each other for ever. Their batched LAPACK calls
#: (Cholesky factors, triangular solves) hand pieces of the batch to the thread pool on which they
#: run and wait for them there: as many calls at once as there are threads, and none is left to do
#: the pieces. A step of MJX has nine such calls, some of them at once. On jaxlib 0.10.2 with two
#: threads 9 of 15 runs of 1024 ants stopped within 80 control periods, with more threads none. From
#: 0.11.1 on the calls keep their batch to themselves.
BLOCKING_LAPACK = ("0.10.0", "0.10.1", "0.10.2", "0.11.0")
#: Threads of the CPU client there: one more than a step has such calls. On two cores batches run as
#: fast as before, one long rollout with derivatives takes a sixth longer (with 16 threads, half).
THREADS = 10
THREADS_VARIABLES = ("PJRT_NPROC", "NPROC")

CACHE_SETTINGS = {
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none",
}


def cache_folder() -> Path:
    """Return the folder of compiled programs, in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "s2r_jax" / "xla"


def prepare() -> None:
    """Set the cache, the flags and the threads for this process, unless the user has set them."""
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder()))
    for name, value in CACHE_SETTINGS.items():
        os.environ.setdefault(name, value)
    flags = os.environ.get("XLA_FLAGS", "")
    if "fusion_emitters" not in flags and _jaxlib_version() in SLOW_FUSION_EMITTERS:
        os.environ["XLA_FLAGS"] = f"{flags} {FUSION_FLAG}".strip()
    if _jaxlib_version() in BLOCKING_LAPACK and not any(v in os.environ for v in THREADS_VARIABLES):
        # read when the backend starts, by which the number of cores would be taken
        os.environ["PJRT_NPROC"] = str(max(THREADS, os.cpu_count() or 1))
    if "jax" in sys.modules:
        _configure_imported_jax()


def _configure_imported_jax() -> None:
    """JAX reads the variables when it is imported; afterwards only its config object counts."""
    config = sys.modules["jax"].config
    if config.jax_compilation_cache_dir is None:
        config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        config.update("jax_persistent_cache_enable_xla_caches", "none")


def _jaxlib_version() -> str:
    try:
        return importlib.metadata.version("jaxlib")
    except importlib.metadata.PackageNotFoundError:
        return ""
