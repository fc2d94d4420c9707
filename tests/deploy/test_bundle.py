import dataclasses
import io
import json
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
import safetensors.numpy
from numpy.testing import assert_allclose, assert_array_equal
from onnx import helper, numpy_helper

from s2r_jax.deploy import bundle, onnx_check
from s2r_jax.deploy.describe import contract_of
from s2r_jax.deploy.export import export, onnx_of
from s2r_jax.deploy.policy import OnnxPolicy
from s2r_jax.errors import BadBundle, BadValue, MissingFile
from s2r_jax.observation import Term
from s2r_jax.train import policy as policies
from s2r_jax.train.networks import MLP
from tests.hardware import bench

TERMS = (Term("value", (0, 1, 2, 3), 0.0, 1.0), Term("action", (0, 1), 0.0, 1.0))


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    return bench.load(tmp_path_factory.mktemp("bench"))


@pytest.fixture(scope="module")
def policy():
    # Statistics far from 0 and 1: an export that forgets the normaliser cannot pass.
    key_mean, key_std, key_net = jax.random.split(jax.random.key(0), 3)
    actor = MLP((16, 16, 2)).init(key_net, jnp.zeros(6))["params"]
    mean = 3 * jax.random.normal(key_mean, (6,))
    return policies.Policy(actor, mean, jax.random.uniform(key_std, (6,)) + 0.1)


@pytest.fixture(scope="module")
def sound(robot, policy, tmp_path_factory):
    path = tmp_path_factory.mktemp("out") / "policy.s2r"
    verdict = {"verdict": "go"}
    export(policy, robot, TERMS, path, version=3, validation=verdict, provenance={"seed": 7})
    return path


def test_bundle_gives_back_policy_contract_and_papers(sound, robot, policy):
    got = bundle.read(sound)
    assert (got.version, got.validation, got.provenance["seed"]) == (3, {"verdict": "go"}, 7)
    assert got.contract == contract_of(robot, TERMS)
    tensors = safetensors.numpy.load(got.members["params.safetensors"])
    assert_array_equal(tensors["actor/Dense_0/kernel"], policy.actor["Dense_0"]["kernel"])
    assert_array_equal(tensors["std"], policy.std)
    assert [p.name for p in sound.parent.iterdir()] == ["policy.s2r"]


def test_onnx_answers_as_the_policy_does(sound, policy):
    got = bundle.read(sound)
    rng = np.random.default_rng(1)
    observations = np.asarray(policy.mean) + 2 * rng.standard_normal((50, 6))
    expected = [policies.act(policy, jnp.asarray(row, jnp.float32)) for row in observations]
    # Single precision: two layers of 16 products.
    assert_allclose([got.policy(row) for row in observations], expected, atol=2e-6)
    assert np.abs(expected).max() <= 1.0


def test_stablehlo_answers_as_the_policy_does(sound, policy):
    act = jax.export.deserialize(bytearray(bundle.read(sound).members["policy.stablehlo"]))
    observation = policy.mean + 0.5
    assert_allclose(act.call(observation), policies.act(policy, observation), atol=1e-6)


def test_same_policy_gives_the_same_bytes(sound, robot, policy, tmp_path):
    members = dict(bundle.read(sound).members)
    del members["manifest.json"], members["contract.json"]
    bundle.write(tmp_path / "again.s2r", members, 3, contract_of(robot, TERMS))
    assert (tmp_path / "again.s2r").read_bytes() == sound.read_bytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_observation_that_is_not_finite_gives_no_action(sound, bad):
    got = bundle.read(sound)
    assert np.isnan(got.policy(np.array([0, 0, bad, 0, 0, 0]))).all()


def test_policy_of_another_size_or_not_finite_is_not_exported(robot, policy, tmp_path):
    with pytest.raises(BadValue, match=r"policy is 'of sizes \[6, 2\]', expected '?\[4, 2\]"):
        export(policy, robot, TERMS[:1], tmp_path / "x.s2r")
    broken = policy._replace(std=policy.std.at[2].set(jnp.inf))
    with pytest.raises(BadValue, match="policy: std is 'not finite', expected finite numbers"):
        export(broken, robot, TERMS, tmp_path / "x.s2r")
    assert list(tmp_path.iterdir()) == []


def test_bundle_for_another_machine_is_refused_with_the_differences(sound, robot):
    got = bundle.read(sound)
    bundle.require_contract(got, contract_of(robot, TERMS))
    turned = dataclasses.replace(robot.joints[1], sign=-1.0)
    other = dataclasses.replace(robot, joints=(robot.joints[0], turned))
    with pytest.raises(BadBundle) as caught:
        bundle.require_contract(got, contract_of(other, TERMS))
    assert str(caught.value) == (
        f"{sound}: made under another contract (bundle against robot): "
        "joints/1/sign: 1.0 against -1.0"
    )


def refusal(path) -> str:
    with pytest.raises(BadBundle) as caught:
        bundle.read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def rezip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def forged(sound, tmp_path, **changes):
    """Return a bundle whose members are changed and whose manifest agrees with them."""
    members = dict(bundle.read(sound).members)
    members |= {name.replace("__", "."): data for name, data in changes.items()}
    manifest = json.loads(members.pop("manifest.json"))
    manifest["sha256"] = {n: bundle.hashlib.sha256(d).hexdigest() for n, d in members.items()}
    return rezip(tmp_path / "x.s2r", {"manifest.json": json.dumps(manifest), **members})


def test_missing_file_is_named(tmp_path):
    with pytest.raises(MissingFile, match=r"none\.s2r: no such bundle; s2r export writes one"):
        bundle.read(tmp_path / "none.s2r")


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_bundle_that_is_cut_off_is_refused(sound, tmp_path, part):
    data = sound.read_bytes()
    cut = tmp_path / "cut.s2r"
    cut.write_bytes(data[: int(part * len(data))])
    message = refusal(cut)
    assert message.startswith("not a whole bundle (")
    assert message.endswith("; it may be cut off or no bundle at all")


def test_every_byte_that_flips_is_refused_or_changes_nothing(sound, tmp_path):
    data, path = sound.read_bytes(), tmp_path / "flipped.s2r"
    before = bundle.read(sound).members
    rng = np.random.default_rng(0)
    refused = 0
    for at in rng.choice(len(data), 150, replace=False):
        flipped = bytearray(data)
        flipped[at] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        try:
            # Dates and attributes of the zip are read by nobody.
            assert bundle.read(path).members == before
        except BadBundle:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "code.py", "sub/policy.onnx", "policy.onnx\\x"]
)
def test_member_with_any_other_name_is_refused(sound, tmp_path, name):
    members = {**bundle.read(sound).members, name: b"x"}
    message = refusal(rezip(tmp_path / "x.s2r", members))
    assert message.startswith(f"member {name!r} is not allowed; allowed: manifest.json, ")


def test_tampered_member_is_named(sound, tmp_path):
    members = {**bundle.read(sound).members, "provenance.json": b"{}"}
    assert refusal(rezip(tmp_path / "x.s2r", members)) == (
        "provenance.json: its SHA-256 is not the one in manifest.json; damaged or changed"
    )


@pytest.mark.parametrize("name", ["manifest.json", "contract.json", "policy.onnx", "golden.npz"])
def test_missing_member_is_named(sound, tmp_path, name):
    members = dict(bundle.read(sound).members)
    del members[name]
    assert refusal(rezip(tmp_path / "x.s2r", members)) == f"{name}: missing"


def test_optional_member_may_neither_vanish_nor_appear(sound, tmp_path):
    members = dict(bundle.read(sound).members)
    del members["validation.json"]
    message = refusal(rezip(tmp_path / "x.s2r", members))
    assert message == "validation.json: missing, but in manifest.json"
    manifest = json.loads(members["manifest.json"])
    del manifest["sha256"]["validation.json"]
    members["manifest.json"] = json.dumps(manifest).encode()
    assert bundle.read(rezip(tmp_path / "y.s2r", members)).validation is None
    members["validation.json"] = b"{}"
    message = refusal(rezip(tmp_path / "z.s2r", members))
    assert message == "validation.json: not in manifest.json"


def test_member_twice_is_refused(sound, tmp_path):
    path = rezip(tmp_path / "x.s2r", bundle.read(sound).members)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("policy.onnx", b"x")
    assert refusal(path) == "policy.onnx: is there twice"


def test_member_that_unpacks_to_too_much_is_refused(sound, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "MAX_SIZE", 100_000)
    members = {**bundle.read(sound).members, "provenance.json": b" " * 200_000}
    path = rezip(tmp_path / "x.s2r", members)
    assert refusal(path) == "provenance.json: larger than 100000 bytes"
    # The same with a directory that lies about the size.
    data = bytearray(path.read_bytes())
    size = (200_000).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (2_000).to_bytes(4, "little")))
    assert refusal(path).startswith("provenance.json: ")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"format": 2}, "manifest.json: format 2; this version reads 1"),
        ({"version": 0}, "manifest.json: version is 0, expected 1 or more"),
        ({"version": "3"}, "manifest.json: version is '3', not int"),
        ({"contract": "0" * 64}, "manifest.json: contract is '000"),
        ({"robot": "other"}, "manifest.json: robot is 'other', contract.json has 'bench'"),
        ({"extra": 1}, "manifest.json: has the keys contract, extra, format, "),
    ],
)
def test_manifest_is_read_strictly(sound, tmp_path, edit, message):
    members = dict(bundle.read(sound).members)
    members["manifest.json"] = json.dumps({**json.loads(members["manifest.json"]), **edit}).encode()
    assert refusal(rezip(tmp_path / "x.s2r", members)).startswith(message)


@pytest.mark.parametrize("name", ["manifest__json", "contract__json", "provenance__json"])
@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_member_that_is_no_json_object_is_named(sound, tmp_path, name, text):
    members = dict(bundle.read(sound).members)
    if name == "manifest__json":
        path = rezip(tmp_path / "x.s2r", {**members, "manifest.json": text})
    else:
        path = forged(sound, tmp_path, **{name: text})
    assert refusal(path).startswith(name.replace("__", ".") + ":")


def npz(**arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("the pickle was loaded",))


def test_pickled_array_is_refused_and_not_loaded(sound, tmp_path):
    data = npz(observation=np.array([Bomb()], dtype=object), action=np.zeros((1, 2)))
    message = refusal(forged(sound, tmp_path, golden__npz=data))
    assert message == "golden.npz: Object arrays cannot be loaded when allow_pickle=False"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"observation": np.zeros((3, 6))}, "golden.npz: 'action is not a file in the archive'"),
        (
            {"observation": np.zeros((3, 5)), "action": np.zeros((3, 2))},
            "golden.npz: observation must hold rows of 6 finite numbers",
        ),
        (
            {"observation": np.zeros((0, 6)), "action": np.zeros((0, 2))},
            "golden.npz: observation must hold rows of 6 finite numbers",
        ),
        (
            {"observation": np.zeros((1, 6)), "action": np.full((1, 2), np.nan)},
            "golden.npz: action must hold rows of 2 finite numbers",
        ),
        (
            {"observation": np.zeros((1, 6)), "action": np.zeros((2, 2))},
            "golden.npz: observation and action differ in length",
        ),
    ],
)
def test_golden_cases_are_read_strictly(sound, tmp_path, arrays, message):
    assert refusal(forged(sound, tmp_path, golden__npz=npz(**arrays))) == message


def test_policy_without_its_normaliser_fails_its_golden_cases(sound, tmp_path, policy):
    plain = policy._replace(mean=jnp.zeros(6), std=jnp.ones(6))
    path = forged(sound, tmp_path, policy__onnx=onnx_of(plain).SerializeToString())
    message = refusal(path)
    assert message.startswith("policy.onnx: answers golden case 0 with an error of ")
    assert message.endswith("(allowed 0.0001)")


def model_of(*nodes, **graph_parts) -> onnx.ModelProto:
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])
        for name, size in (("observation", 6), ("action", 2))
    ]
    graph = helper.make_graph(list(nodes), "g", ports[:1], ports[1:], **graph_parts)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external():
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "w")
    onnx.external_data_helper.set_external_data(tensor, "/etc/passwd")
    return model_of(initializer=[tensor])


def hidden_in_a_subgraph():
    inner = helper.make_graph([helper.make_node("Loop", ["a"], ["b"])], "inner", [], [])
    return model_of(helper.make_node("Clip", ["observation"], ["action"], then_branch=inner))


def hidden_in_a_function():
    model = model_of(helper.make_node("Clip", ["observation"], ["action"]))
    function = helper.make_function(
        "", "Elu", ["x"], ["y"], [helper.make_node("Loop", ["x"], ["y"])], []
    )
    model.functions.append(function)
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            model_of(helper.make_node("Loop", ["observation"], ["action"])),
            "operator 'Loop' is not allowed; allowed: Clip, Div, Elu, Gemm, Sub",
        ),
        (
            model_of(helper.make_node("Gemm", ["observation"], ["action"], domain="evil")),
            "operator 'evil.Gemm' is not allowed; allowed: Clip, Div, Elu, Gemm, Sub",
        ),
        (external(), "a tensor that lies in another file is not allowed"),
        (hidden_in_a_subgraph(), "tensors and graphs as attributes are not allowed"),
        (hidden_in_a_function(), "functions and training graphs are not allowed"),
        (onnx.ModelProto(), "0 graphs, expected 1"),
    ],
)
def test_network_may_only_use_the_allowed_operators(sound, tmp_path, model, message):
    path = forged(sound, tmp_path, policy__onnx=model.SerializeToString())
    assert refusal(path) == f"policy.onnx: {message}"


def test_operators_of_the_export_are_those_that_are_allowed(policy):
    assert {node.op_type for node in onnx_of(policy).graph.node} == onnx_check.OPERATORS


def test_what_is_no_onnx_is_refused_whatever_it_is(sound, policy):
    rng = np.random.default_rng(0)
    model = onnx_of(policy).SerializeToString()
    cases = [b"", b"\xff" * 20, model[: len(model) // 2], *(rng.bytes(64) for _ in range(200))]
    for case in cases:
        with pytest.raises(ValueError):  # noqa: PT011
            OnnxPolicy(case, 6, 2)


def test_network_of_another_size_is_refused(policy):
    with pytest.raises(ValueError, match=r"has inputs and outputs .* expected"):
        OnnxPolicy(onnx_of(policy).SerializeToString(), 5, 2)
