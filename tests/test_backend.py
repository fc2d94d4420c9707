import subprocess
import sys

import pytest

from s2r_jax import backend


def environment(code, **variables):
    """Run code in a process of its own and return what it prints."""
    import os

    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=clean | variables, capture_output=True, text=True, check=True
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


def test_cache_lies_in_the_users_cache_folder(tmp_path):
    _, folder = environment(SHOW, XDG_CACHE_HOME=str(tmp_path))
    assert folder == str(tmp_path / "s2r_jax" / "xla")


def test_cache_also_serves_a_jax_that_was_imported_before(tmp_path):
    code = "import jax, s2r_jax; print(jax.config.jax_compilation_cache_dir)"
    assert environment(code, XDG_CACHE_HOME=str(tmp_path)) == [str(tmp_path / "s2r_jax" / "xla")]


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, s2r_jax; print([m for m in ('jax', 'mujoco', 'numpy') if m in sys.modules])"
    assert environment(code) == ["[]"]
