import subprocess
import sys

import pytest

from s2r_jax import backend


def environment(code, **variables):
    """Run code in a process of its own and return what it prints."""
    import os

    ours = ("JAX_", "XLA_", *backend.THREADS_VARIABLES)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=clean | variables, capture_output=True, text=True, check=True, timeout=90
    )
    return done.stdout.split()


SHOW = (
    "import os, s2r_jax; "
    "print(os.environ.get('XLA_FLAGS'), os.environ['JAX_COMPILATION_CACHE_DIR'])"
)


@pytest.mark.parametrize("version", ["0.9.0", "0.11.2", "0.12.0.1", ""])
def test_flag_is_only_for_versions_known_to_have_it(monkeypatch, version):
    # An unknown flag aborts the process.
    monkeypatch.setattr(backend, "_jaxlib_version", lambda: version)
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    backend.prepare()
    import os

    assert os.environ["XLA_FLAGS"] == "--xla_dump_to=x"


def test_flag_is_added_to_those_of_the_user(monkeypatch):
    import os

    monkeypatch.setattr(backend, "_jaxlib_version", lambda: "0.10.2")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=x")
    backend.prepare()
    assert os.environ["XLA_FLAGS"] == f"--xla_dump_to=x {backend.FUSION_FLAG}"


def test_users_own_choice_stands():
    chosen = {
        "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=true",
        "JAX_COMPILATION_CACHE_DIR": "/tmp/c",
    }
    assert environment(SHOW, **chosen) == list(chosen.values())


def leave_threads_open(monkeypatch):
    """Unset the variables; also those that were not set are unset again after the test."""
    for name in backend.THREADS_VARIABLES:
        monkeypatch.setenv(name, "1")
        monkeypatch.delenv(name)


#: More independent Cholesky factors than threads of the default pool, each of a large batch.
FACTORS = """
import s2r_jax, jax, jax.numpy as jnp
factors = jax.jit(lambda a: [jnp.linalg.cholesky((i + 1) * a) for i in range(8)])
a = jnp.tile(jnp.eye(14), (1024, 1, 1))
for _ in range(500):
    jax.block_until_ready(factors(a))
print("done")
"""


def test_factors_of_many_worlds_do_not_wait_for_each_other_for_ever():
    # with as many threads as two cores have, 4 of 5 runs stop before the end
    assert environment(FACTORS, JAX_PLATFORMS="cpu") == ["done"]


@pytest.mark.parametrize("version", ["0.10.0", "0.10.1", "0.10.2", "0.11.0"])
def test_pool_is_larger_than_the_factors_that_a_step_makes_at_once(monkeypatch, version):
    import os

    leave_threads_open(monkeypatch)
    monkeypatch.setattr(backend, "_jaxlib_version", lambda: version)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    backend.prepare()
    assert os.environ["PJRT_NPROC"] == "10"


def test_pool_is_never_smaller_than_the_machine(monkeypatch):
    import os

    leave_threads_open(monkeypatch)
    monkeypatch.setattr(backend, "_jaxlib_version", lambda: "0.10.2")
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    backend.prepare()
    assert os.environ["PJRT_NPROC"] == "64"


@pytest.mark.parametrize("chosen", backend.THREADS_VARIABLES)
def test_number_of_threads_that_the_user_chose_stands(chosen):
    code = "import os, s2r_jax; print(os.environ.get('PJRT_NPROC'), os.environ.get('NPROC'))"
    expected = {"PJRT_NPROC": ["3", "None"], "NPROC": ["None", "3"]}[chosen]
    assert environment(code, **{chosen: "3"}) == expected


@pytest.mark.parametrize("version", ["0.11.1", "0.12.0.1", ""])
def test_other_versions_keep_their_threads(monkeypatch, version):
    import os

    leave_threads_open(monkeypatch)
    monkeypatch.setattr(backend, "_jaxlib_version", lambda: version)
    backend.prepare()
    assert "PJRT_NPROC" not in os.environ


def test_cache_lies_in_the_users_cache_folder(tmp_path):
    _, folder = environment(SHOW, XDG_CACHE_HOME=str(tmp_path))
    assert folder == str(tmp_path / "s2r_jax" / "xla")


def test_cache_also_serves_a_jax_that_was_imported_before(tmp_path):
    code = "import jax, s2r_jax; print(jax.config.jax_compilation_cache_dir)"
    assert environment(code, XDG_CACHE_HOME=str(tmp_path)) == [str(tmp_path / "s2r_jax" / "xla")]


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, s2r_jax; print([m for m in ('jax', 'mujoco', 'numpy') if m in sys.modules])"
    assert environment(code) == ["[]"]
