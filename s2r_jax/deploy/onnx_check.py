"""What a policy's ONNX file may hold, checked before any runtime sees it.

Walks the protobuf by itself, as the robot has no `onnx` package. Allowed are the few operators that
the exporter writes; refused is whatever reaches outside the file (external tensors), hides
operators (functions, subgraphs) or belongs to another domain. Field numbers: onnx.proto.
"""

from collections.abc import Iterator

#: Operators of the standard domain that `export.py` writes.
OPERATORS = frozenset(("Sub", "Div", "Clip", "Gemm", "Elu"))

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MODEL_GRAPH, MODEL_FUNCTIONS, MODEL_TRAINING = 7, 25, 20
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_SPARSE = 1, 5, 15
NODE_OPERATOR, NODE_ATTRIBUTE, NODE_DOMAIN = 4, 5, 7
#: Of an attribute: tensor, graph, tensors, graphs, sparse tensors.
ATTRIBUTE_NESTED = (5, 6, 10, 11, 22, 23)
TENSOR_EXTERNAL, TENSOR_LOCATION = 13, 14


class NotAllowed(ValueError):
    """An ONNX file that a bundle must not hold."""


def check(model: bytes) -> None:
    """Refuse a model with anything but the allowed operators.

    Raises:
        NotAllowed: Says what is in the way.
    """
    graphs = [value for field, value in _fields(model) if field == MODEL_GRAPH]
    if any(field in (MODEL_FUNCTIONS, MODEL_TRAINING) for field, _ in _fields(model)):
        raise NotAllowed("functions and training graphs are not allowed")
    if len(graphs) != 1:
        raise NotAllowed(f"{len(graphs)} graphs, expected 1")
    for field, value in _fields(_message(graphs[0])):
        if field == GRAPH_NODE:
            _check_node(_message(value))
        elif field == GRAPH_INITIALIZER:
            for inner, _ in _fields(_message(value)):
                if inner in (TENSOR_EXTERNAL, TENSOR_LOCATION):
                    raise NotAllowed("a tensor that lies in another file is not allowed")
        elif field == GRAPH_SPARSE:
            raise NotAllowed("sparse tensors are not allowed")


def _check_node(node: bytes) -> None:
    operator, domain = "", ""
    for field, value in _fields(node):
        if field == NODE_OPERATOR:
            operator = _message(value).decode(errors="replace")
        elif field == NODE_DOMAIN:
            domain = _message(value).decode(errors="replace")
        elif field == NODE_ATTRIBUTE and any(
            inner in ATTRIBUTE_NESTED for inner, _ in _fields(_message(value))
        ):
            raise NotAllowed("tensors and graphs as attributes are not allowed")
    if operator not in OPERATORS or domain not in ("", "ai.onnx"):
        name = f"{domain}.{operator}" if domain else operator
        raise NotAllowed(
            f"operator '{name}' is not allowed; allowed: {', '.join(sorted(OPERATORS))}"
        )


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield number and value of every field of a protobuf message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = _varint(message, at)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise NotAllowed("not an ONNX file")
        if at + size > len(message):
            raise NotAllowed("the ONNX file is cut off")
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
    raise NotAllowed("the ONNX file is cut off")


def _message(value: bytes | int) -> bytes:
    if not isinstance(value, bytes):
        raise NotAllowed("not an ONNX file")
    return value
