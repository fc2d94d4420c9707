"""Jacobian of a robot arm's motion with respect to 18 physical parameters, three ways.

The arm of `tests/problems.py` (6 joints; damping, armature and friction loss of each), 500 steps,
float64 on the CPU:

- MJX differentiated naively, forward mode through the solver's loop (reverse mode is refused), as
  a user of MJX meets it (XLA's default flags) and under the flag that this package sets;
- this package, differentiated at the solver's solution: one rollout, 50 segments of 10 steps from
  known states, and the gradient of a scalar by reverse mode;
- central differences of MuJoCo's C engine on 2 threads.

Run: `python benchmarks/gradients.py [--out table.json]`. Compile and run time are apart; run time
is the median of repeated runs, with the interquartile range. `cpu` is the least processor time of a
run, over all threads: other programs on the machine lengthen it far less than the run time. C keeps
its threads busy, so that alone on the machine it needs cpu / threads.
"""

import argparse
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the model lives beside the tests

from s2r_jax import backend  # (sets XLA's flags before JAX starts)

os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # compile times are what is measured

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx
from mujoco.batch import Batch
from rich.console import Console
from rich.table import Table

from s2r_jax.sim.rollout import rollout, state_of
from tests import problems

jax.config.update("jax_enable_x64", True)

FIELDS = ("dof_damping", "dof_armature", "dof_frictionloss")
STEPS, SEGMENTS = 500, 50
LONG, LONG_SEGMENT = 2000, 50
THREADS = 2
FLAGS = os.environ.get("XLA_FLAGS", "")
# Relative step of central differences in float64: the cube root of rounding, rounded.
DIFFERENCE = 1e-5


def main() -> None:
    """Run every way once, print one table, write it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the rows as JSON")
    parser.add_argument("--repeat", type=int, default=15, help="runs of each way (naive: 1)")
    options = parser.parse_args()
    # First, while this process is small: a child's peak memory starts at its parent's.
    memory = apart(long_reverse_memory)
    rows = [*jacobians(options.repeat), memory]
    if backend.FUSION_FLAG in FLAGS:
        default = FLAGS.replace(backend.FUSION_FLAG, backend.FUSION_FLAG.replace("false", "true"))
        rows.insert(0, apart(naive_jacobian, default))
    show(rows)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2))


def apart(measure: Callable, flags: str | None = None) -> dict[str, Any]:
    """Return the row that `measure` gives in a process of its own, under other XLA flags if given.

    XLA reads its flags once, when it starts.
    """
    os.environ["XLA_FLAGS"] = FLAGS if flags is None else flags
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure)


def arm() -> tuple[mujoco.MjModel, Any, Any]:
    """Return the arm for C and for MJX, and its start."""
    host = problems.load("arm")
    return host, mjx.put_model(host), mjx.put_data(host, problems.start(host))


def with_theta(model: Any, theta: jax.Array) -> Any:
    """Return the model with the 18 parameters scaled by theta."""
    scale = theta.reshape(len(FIELDS), -1)
    return model.replace(**{f: getattr(model, f) * s for f, s in zip(FIELDS, scale, strict=True)})


def jacobians(repeat: int) -> list[dict[str, Any]]:
    """Time the Jacobian of all positions with respect to theta, and compare the results."""
    host, model, data = arm()
    ctrl = jnp.asarray(problems.controls(host, STEPS))
    theta = jnp.ones(len(FIELDS) * host.nv)

    def positions(theta):
        return rollout(with_theta(model, theta), data, ctrl, segment=10).qpos

    states = rollout(model, data, ctrl)
    length = STEPS // SEGMENTS
    starts = jax.tree.map(
        lambda first, x: jnp.concatenate([first[None], x[length - 1 : -1 : length]]),
        state_of(data),
        states,
    )

    def of_segment(theta, start, ctrl):
        start = data.replace(**start._asdict())
        return rollout(with_theta(model, theta), start, ctrl, segment=length).qpos

    def segmented(theta):
        each = jax.vmap(jax.jacfwd(of_segment), (None, 0, 0))
        return each(theta, starts, ctrl.reshape(SEGMENTS, length, -1))

    def loss(theta):
        return jnp.sum(positions(theta) ** 2)

    _, row_c = timed_host(lambda: central_differences(host, data, ctrl), repeat)
    # MJX has no set_const, so its Jacobian holds derived constants; compare with the same in C.
    reference = central_differences(host, data, ctrl, constants=False)
    single, row_single = timed(jax.jacfwd(positions), theta, repeat)
    parts, row_parts = timed(segmented, theta, repeat)
    gradient, row_reverse = timed(jax.grad(loss), theta, repeat)
    forward_gradient = jnp.einsum("tq,tqp->p", 2 * states.qpos, single)
    del parts  # another quantity: nothing to compare it with here
    return [
        naive_jacobian(),
        row("this package, one rollout, forward", row_single, error(single, reference)),
        row(f"this package, {SEGMENTS} segments x {length} steps, forward", row_parts, None),
        row(
            "this package, gradient of a scalar, reverse",
            row_reverse,
            error(gradient, forward_gradient),
        ),
        row(f"C, central differences, {THREADS} threads", row_c, None),
    ]


def naive_jacobian() -> dict[str, Any]:
    """Time the same Jacobian through the loop of MJX's solver."""
    host, model, data = arm()
    ctrl = jnp.asarray(problems.controls(host, STEPS))

    def positions(theta):
        changed = with_theta(model, theta)

        def advance(data, now):
            data = mjx.step(changed, data.replace(ctrl=now))
            return data, data.qpos

        start = jax.tree.map(
            lambda x, like: x.astype(like.dtype), data, jax.eval_shape(mjx.step, changed, data)
        )
        return jax.lax.scan(advance, start, ctrl)[1]

    stock, times = timed(jax.jacfwd(positions), jnp.ones(len(FIELDS) * host.nv), 1)
    reference = central_differences(host, data, ctrl, constants=False)
    flags = os.environ.get("XLA_FLAGS", "")
    name = "this package's" if backend.FUSION_FLAG in flags else "XLA's default"
    return row(f"MJX, through the solver's loop, {name} flags", times, error(stock, reference))


def central_differences(
    host: mujoco.MjModel, data: Any, ctrl: jax.Array, constants: bool = True
) -> np.ndarray:
    """Return the Jacobian by 36 rollouts of the C engine, derived constants moved along or held."""
    n = len(FIELDS) * host.nv
    batch = Batch(host, nsim=2 * n, nthread=THREADS)
    scale = np.concatenate([1 + DIFFERENCE * np.eye(n), 1 - DIFFERENCE * np.eye(n)])
    for field, part in zip(FIELDS, np.split(scale, len(FIELDS), axis=1), strict=True):
        batch.expand(field)[:] = getattr(host, field) * part
    if constants:
        batch.set_const()
    for field in ("qpos", "qvel"):
        batch.bind(field)[:] = np.asarray(getattr(data, field))
    control = np.broadcast_to(np.asarray(ctrl), (2 * n, *ctrl.shape))
    control = np.ascontiguousarray(control)
    spec = int(mujoco.mjtState.mjSTATE_CTRL)
    path = batch.rollout(len(ctrl), control=control, control_spec=spec, record=["qpos"])["qpos"]
    return np.moveaxis((path[:n] - path[n:]) / (2 * DIFFERENCE), 0, -1)


def long_reverse_memory() -> dict[str, Any]:
    """Measure the memory of reverse mode over a long rollout, in a process of its own."""
    host, model, data = arm()
    ctrl = jnp.asarray(problems.controls(host, LONG))

    def loss(theta):
        states = rollout(with_theta(model, theta), data, ctrl, segment=LONG_SEGMENT)
        return jnp.sum(states.qpos**2)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    compiled = jax.jit(jax.grad(loss)).lower(jnp.ones(len(FIELDS) * host.nv)).compile()
    compile_s = time.perf_counter() - begin
    after_compile = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, processor_begin = time.perf_counter(), time.process_time()
    gradient = jax.block_until_ready(compiled(jnp.ones(len(FIELDS) * host.nv)))
    run_s = time.perf_counter() - begin
    cpu_s = time.process_time() - processor_begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    analysis: Any = compiled.memory_analysis()
    assert np.isfinite(gradient).all()
    return {
        "way": f"this package, reverse over {LONG} steps, segments of {LONG_SEGMENT}",
        "compile_s": compile_s,
        "run_s": run_s,
        "run_iqr_s": None,
        "cpu_s": cpu_s,
        "error": None,
        "xla_memory_mib": analysis.temp_size_in_bytes / 2**20,
        "process_peak_mib": peak / 2**10,
        "process_before_run_mib": after_compile / 2**10,
        "process_before_compile_mib": before / 2**10,
    }


def timed(f: Callable, theta: jax.Array, repeat: int) -> tuple[Any, dict[str, float]]:
    """Return a jitted function's value with its compile time and run times."""
    begin = time.perf_counter()
    compiled = jax.jit(f).lower(theta).compile()
    compile_s = time.perf_counter() - begin
    value, times = timed_host(lambda: jax.block_until_ready(compiled(theta)), repeat)
    return value, times | {"compile_s": compile_s}


def timed_host(f: Callable, repeat: int) -> tuple[Any, dict[str, float]]:
    """Return a function's value and the median and spread of its run times, the first apart."""
    value, times, processor = f(), [], []
    for _ in range(repeat):
        begin, processor_begin = time.perf_counter(), time.process_time()
        value = f()
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - processor_begin)
    low, middle, high = np.percentile(times, [25, 50, 75])
    spread = {"run_iqr_s": high - low, "cpu_s": min(processor)}
    return value, {"compile_s": 0.0, "run_s": middle} | spread


def error(value: Any, reference: Any) -> float:
    """Return the largest difference over the largest entry of the reference."""
    return float(np.abs(np.asarray(value - reference)).max() / np.abs(np.asarray(reference)).max())


def row(way: str, times: dict[str, float], relative_error: float | None) -> dict[str, Any]:
    """Return one row of the table."""
    return {"way": way, **times, "error": relative_error}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    headers = ("compile [s]", "run [s]", "spread [s]", "cpu [s]", "relative error", "memory [MiB]")
    table = Table("way", *headers)
    for r in rows:
        spread = "" if r["run_iqr_s"] is None else f"{r['run_iqr_s']:.3f}"
        wrong = "" if r["error"] is None else f"{r['error']:.0e}"
        memory = ""
        if "xla_memory_mib" in r:
            memory = f"{r['xla_memory_mib']:.0f} XLA, {r['process_peak_mib']:.0f} process"
        run = (f"{r['compile_s']:.1f}", f"{r['run_s']:.4f}", spread, f"{r['cpu_s']:.4f}")
        table.add_row(r["way"], *run, wrong, memory)
    Console().print(table)


if __name__ == "__main__":
    main()
