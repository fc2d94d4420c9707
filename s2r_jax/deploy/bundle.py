"""The bundle `policy.s2r`: one file that holds a policy and everything to judge and run it.

A zip without code. It is read as if an enemy had written it: nothing is unpacked to disk, every
name is on a list, every size is bounded, every member has its SHA-256 in the manifest, arrays are
read without pickle, the network may only use a few operators, and at the end the policy must
reproduce its own recorded actions.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from s2r_jax import files
from s2r_jax.deploy import contract_file
from s2r_jax.deploy.contract import Contract
from s2r_jax.deploy.policy import OnnxPolicy
from s2r_jax.errors import BadBundle, MissingFile, S2RError

FORMAT = 1
MANIFEST = "manifest.json"
#: Member -> whether every bundle has it.
MEMBERS = {
    MANIFEST: True,
    "contract.json": True,
    "policy.onnx": True,
    "params.safetensors": True,
    "golden.npz": True,
    "provenance.json": True,
    "validation.json": False,
    "policy.stablehlo": False,
}
#: Largest member; a policy of a robot has a few megabytes.
MAX_SIZE = 64 * 2**20
#: Replayed actions are in [-1, 1] and single precision; runtimes sum in different orders.
TOLERANCE = 1e-4


class Golden(NamedTuple):
    """What the policy answered when it was exported."""

    observation: Float[np.ndarray, "case obs"]
    action: Float[np.ndarray, "case nu"]


class Bundle(NamedTuple):
    """A bundle that passed every check."""

    file: Path
    version: int
    """Of the policy; rises with every release."""
    contract: Contract
    policy: OnnxPolicy
    golden: Golden
    validation: Mapping[str, Any] | None
    """`validation.json` of `s2r validate`; None where the policy was not validated."""
    provenance: Mapping[str, Any]
    sha256: str
    """Of the manifest, and so of all the rest."""
    members: Mapping[str, bytes]


def write(path: Path, members: Mapping[str, bytes], version: int, contract: Contract) -> Bundle:
    """Write a bundle beside its place, read it back with all checks, and move it there.

    Args:
        path: Where to; an older bundle is replaced at once or not at all.
        members: All but the manifest and the contract.
        version: Of the policy, from 1.
        contract: Of the policy and the machine.

    Raises:
        BadBundle: What was to be written would not be accepted.
    """
    members = {"contract.json": contract.to_json().encode(), **members}
    manifest = {
        "format": FORMAT,
        "version": version,
        "robot": contract.robot,
        "contract": contract.hash,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.whole(path) as beside:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in {MANIFEST: text.encode(), **members}.items():
                # A fixed date: the same policy gives the same bytes.
                archive.writestr(_entry(name), data)
        return read(beside, name=path)


def read(path: Path, *, name: Path | None = None) -> Bundle:
    """Read a bundle and check all of it.

    Args:
        path: The file.
        name: What messages call it, if not by its path.

    Raises:
        MissingFile: There is no such file.
        BadBundle: Names the file, the member and what is wrong with it.
    """
    file = path if name is None else name
    if not path.is_file():
        raise MissingFile(file, "bundle", "s2r export writes one")
    members = _members(path, str(file))
    manifest = _manifest(members, str(file))
    text = _text(members, "contract.json", str(file))
    try:
        contract = contract_file.from_json(text, "contract.json")
    except S2RError as error:
        raise BadBundle(str(file), str(error)) from None
    for key, value in (("contract", contract.hash), ("robot", contract.robot)):
        if manifest[key] != value:
            problem = f"{MANIFEST}: {key} is {manifest[key]!r}, contract.json has {value!r}"
            raise BadBundle(str(file), problem)
    sizes = contract.observation_size, contract.action_size
    try:
        policy = OnnxPolicy(members["policy.onnx"], *sizes)
    except ValueError as error:
        raise BadBundle(str(file), f"policy.onnx: {error}") from None
    golden = _golden(members["golden.npz"], sizes, str(file))
    _replay(policy, golden, str(file))
    validation = _object(members, "validation.json", str(file))
    return Bundle(
        file,
        manifest["version"],
        contract,
        policy,
        golden,
        validation if "validation.json" in members else None,
        _object(members, "provenance.json", str(file)),
        hashlib.sha256(members[MANIFEST]).hexdigest(),
        members,
    )


def require_contract(bundle: Bundle, contract: Contract) -> None:
    """Refuse a bundle that was made for another machine, or another description of this one.

    Raises:
        BadBundle: Lists what differs.
    """
    if bundle.contract.hash != contract.hash:
        lines = contract_file.differences(bundle.contract, contract)
        shown = "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else "")
        problem = f"made under another contract (bundle against robot): {shown}"
        raise BadBundle(str(bundle.file), problem)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _members(path: Path, file: str) -> dict[str, bytes]:
    """Return all members; each has an allowed name and size and a sound CRC."""
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            for entry in entries:
                if entry.filename not in MEMBERS:
                    problem = f"member {entry.filename!r} is not allowed; allowed: "
                    raise BadBundle(file, problem + ", ".join(MEMBERS))
                if entry.filename in found:
                    raise BadBundle(file, f"{entry.filename}: is there twice")
                if entry.file_size > MAX_SIZE:
                    raise BadBundle(file, f"{entry.filename}: larger than {MAX_SIZE} bytes")
                found[entry.filename] = _member(archive, entry, file)
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError) as error:
        if isinstance(error, BadBundle):
            raise
        problem = f"not a whole bundle ({error}); it may be cut off or no bundle at all"
        raise BadBundle(file, problem) from None
    for name, is_required in MEMBERS.items():
        if is_required and name not in found:
            raise BadBundle(file, f"{name}: missing")
    return found


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, file: str) -> bytes:
    if entry.flag_bits & 1 or entry.compress_type not in (
        zipfile.ZIP_STORED,
        zipfile.ZIP_DEFLATED,
    ):
        raise BadBundle(file, f"{entry.filename}: encrypted, or packed in an unknown way")
    try:
        with archive.open(entry) as stream:
            # The size that the directory promises is not to be trusted either.
            data = stream.read(MAX_SIZE + 1)
    except Exception as error:
        # Damaged streams end in zlib.error, BadZipFile, EOFError or struct.error.
        problem = f"{entry.filename}: damaged ({' '.join(str(error).split())})"
        raise BadBundle(file, problem) from None
    if len(data) > MAX_SIZE or len(data) != entry.file_size:
        raise BadBundle(file, f"{entry.filename}: another size than promised")
    return data


def _manifest(members: Mapping[str, bytes], file: str) -> Mapping[str, Any]:
    manifest = _object(members, MANIFEST, file)
    kinds = {"format": int, "version": int, "robot": str, "contract": str, "sha256": dict}
    if set(manifest) != set(kinds):
        problem = f"{MANIFEST}: has the keys {', '.join(sorted(manifest))}, expected "
        raise BadBundle(file, problem + ", ".join(sorted(kinds)))
    for key, kind in kinds.items():
        if not isinstance(manifest[key], kind) or isinstance(manifest[key], bool):
            raise BadBundle(file, f"{MANIFEST}: {key} is {manifest[key]!r}, not {kind.__name__}")
    if manifest["format"] != FORMAT:
        problem = f"{MANIFEST}: format {manifest['format']}; this version reads {FORMAT}"
        raise BadBundle(file, problem)
    if manifest["version"] < 1:
        raise BadBundle(file, f"{MANIFEST}: version is {manifest['version']}, expected 1 or more")
    digests = manifest["sha256"]
    for name in members:
        if name != MANIFEST and name not in digests:
            raise BadBundle(file, f"{name}: not in {MANIFEST}")
    for name, digest in digests.items():
        if name not in members:
            raise BadBundle(file, f"{name}: missing, but in {MANIFEST}")
        if hashlib.sha256(members[name]).hexdigest() != digest:
            problem = f"{name}: its SHA-256 is not the one in {MANIFEST}; damaged or changed"
            raise BadBundle(file, problem)
    return manifest


def _text(members: Mapping[str, bytes], name: str, file: str) -> str:
    try:
        return members[name].decode()
    except UnicodeDecodeError:
        raise BadBundle(file, f"{name}: not UTF-8") from None


def _object(members: Mapping[str, bytes], name: str, file: str) -> Mapping[str, Any]:
    if name not in members:
        return {}
    try:
        value = json.loads(_text(members, name, file))
    except (ValueError, RecursionError) as error:
        raise BadBundle(file, f"{name}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadBundle(file, f"{name}: not a JSON object")
    return value


def _golden(data: bytes, sizes: tuple[int, int], file: str) -> Golden:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_SIZE:
                raise BadBundle(file, f"golden.npz: larger than {MAX_SIZE} bytes")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            golden = Golden(arrays["observation"], arrays["action"])
    except BadBundle:
        raise
    except Exception as error:
        # numpy raises whatever its parsers do, pickled arrays among them.
        raise BadBundle(file, f"golden.npz: {' '.join(str(error).split())}") from None
    for field, values, size in zip(Golden._fields, golden, sizes, strict=True):
        fits = values.ndim == 2 and len(values) and values.shape[1] == size
        if not fits or values.dtype.kind != "f" or not np.isfinite(values).all():
            problem = f"golden.npz: {field} must hold rows of {size} finite numbers"
            raise BadBundle(file, problem)
    if len(golden.observation) != len(golden.action):
        raise BadBundle(file, "golden.npz: observation and action differ in length")
    return golden


def _replay(policy: OnnxPolicy, golden: Golden, file: str) -> None:
    for case, (observation, action) in enumerate(zip(*golden, strict=True)):
        error = float(np.max(np.abs(policy(observation) - action)))
        # Written so that NaN fails.
        if not error <= TOLERANCE:
            problem = f"policy.onnx: answers golden case {case} with an error of {error:.3g} "
            raise BadBundle(file, problem + f"(allowed {TOLERANCE:g})")
