"""Imports go only downward, and stages of a layer never import each other."""

import ast
from pathlib import Path

import pytest

import s2r_jax

ROOT = Path(s2r_jax.__file__).parent

#: Module or folder -> layer, as DESIGN has it.
LAYERS = {
    "backend": 0, "types": 0, "errors": 0, "observation": 0, "signals": 0, "motors": 0,
    "document": 0, "files": 0,
    "inertia": 1, "terrain": 1, "surroundings": 1, "slots": 1, "delays": 1,
    "parameters": 1, "targets": 1, "robot": 1, "logs": 1, "sim": 1,
    "identify": 2, "randomize": 2, "adapt": 2,
    "train": 3, "validate": 4,
    "deploy": 5, "hardware": 5, "fleet": 5,
    "cli": 6,
}  # fmt: skip
#: Parts of the robot side, which must run without JAX.
WITHOUT_JAX = ("backend", "types", "errors", "observation")


def parts():
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Names of the package's parts that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    names = {name.split(".")[1] for name in found if name.startswith("s2r_jax.")}
    return names - {"__version__"}


@pytest.mark.parametrize("path", parts(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_only_downward(path):
    own = part_of(path)
    for other in imported(path):
        if other == own:
            continue
        # Stages (from L2 on) never import one of their own layer; below that a layer is one thing.
        is_allowed = LAYERS[other] < LAYERS[own] or LAYERS[other] == LAYERS[own] < 2
        assert is_allowed, f"{own} (L{LAYERS[own]}) imports {other} (L{LAYERS[other]})"


def test_every_part_has_a_layer():
    assert {part_of(path) for path in parts()} <= set(LAYERS)


@pytest.mark.parametrize("name", WITHOUT_JAX)
def test_robot_side_parts_import_no_jax(name):
    tree = ast.parse((ROOT / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not any(n.split(".")[0] in ("jax", "flax", "optax", "mujoco") for n in names)
