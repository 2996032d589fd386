"""The header of a GGUF file: metadata and what its tensors weigh, without the weights.

The format is that of ggml's docs/gguf.md: magic, version, counts, key-values, tensor infos, then
the data. Files come from anywhere, so that every count is checked against the bytes there are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Read: TypeAlias = Callable[[int, int], bytes]
    """``read(offset, n)``: up to ``n`` bytes at ``offset``, fewer only at the end of the file."""

    Scalar: TypeAlias = int | float | bool | str
    Value: TypeAlias = "Scalar | tuple[Scalar, ...] | Skipped"

VERSIONS = (2, 3)
KEPT_ELEMENTS = 4096
"""Longer arrays (tokens, scores, merges) are counted and passed over."""

_MAGIC = b"GGUF"
_CHUNK = 2**18
_MOST_KEYS = 2**16
_MOST_TENSORS = 2**18
_MOST_STRINGS = 2**23
_MOST_DIMENSIONS = 4
_MOST_NAME = 2**16
_MOST_ELEMENTS = 2**56
_DEFAULT_ALIGNMENT = 32

_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    _BOOL: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}

TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""ggml's tensor types: name, elements of a block, bytes of a block (ggml-common.h)."""


class GgufError(ValueError):
    """The bytes are no GGUF header, or one that cannot be right; the message says where."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """An array too long to keep: how many elements it has."""

    count: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor's info; ``shape`` has the fastest dimension first, as in the file."""

    name: str
    shape: tuple[int, ...]
    type_name: str
    n_bytes: int
    offset: int

    @property
    def elements(self) -> int:
        """Weights in it."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says before its data begin, at ``data_offset``."""

    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    data_offset: int


def read_header(read: Read, size: int, *, keep: int = KEPT_ELEMENTS) -> GgufHeader:
    """Read the header of a file of ``size`` bytes; of longer arrays than ``keep`` the count.

    Raises:
        GgufError: no GGUF file, one of a version or byte order that is not read, or a damaged one.
    """
    cursor = _Cursor(read, size)
    version = _version(cursor)
    n_tensors = cursor.count("tensors", _MOST_TENSORS, at_least=24)
    n_keys = cursor.count("metadata keys", _MOST_KEYS, at_least=13)
    metadata: dict[str, Value] = {}
    for _ in range(n_keys):
        key = cursor.string("a metadata key", _MOST_NAME)
        if key in metadata:
            raise GgufError(f"the metadata key {key!r} is there twice")
        metadata[key] = _value(cursor, key, keep)
    tensors = tuple(_tensor(cursor) for _ in range(n_tensors))
    start = _aligned(cursor.at, metadata)
    _check_data(tensors, start, size)
    return GgufHeader(version, metadata, tensors, start)


def weight_bytes(headers: Sequence[GgufHeader]) -> int:
    """Bytes of all tensors of a model, which may be split over several files."""
    return sum(tensor.n_bytes for header in headers for tensor in header.tensors)


def bytes_by_type(headers: Sequence[GgufHeader]) -> dict[str, int]:
    """Weight bytes of each tensor type, the heaviest first."""
    found: dict[str, int] = {}
    for header in headers:
        for tensor in header.tensors:
            found[tensor.type_name] = found.get(tensor.type_name, 0) + tensor.n_bytes
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def bits_per_weight(headers: Sequence[GgufHeader]) -> float | None:
    """Mean bits of a weight, norms included; ``None`` without weights."""
    elements = sum(tensor.elements for header in headers for tensor in header.tensors)
    return 8 * weight_bytes(headers) / elements if elements else None


def split_count(header: GgufHeader) -> int:
    """Files of the model, by its ``split.count``; 1 if it is not split."""
    count = header.metadata.get("split.count", 1)
    return count if isinstance(count, int) and count > 1 else 1


def split_names(name: str, count: int) -> tuple[str, ...]:
    """Names of all parts, from that of one: ``llama-gguf-split`` writes ``-00001-of-00003.gguf``.

    Raises:
        GgufError: the name is not of that form, or is of another count.
    """
    suffix = f"-of-{count:05}.gguf"
    stem = name[: -len(suffix) - 6]
    if not name.endswith(suffix) or name != f"{stem}-{name[len(stem) + 1 : len(stem) + 6]}{suffix}":
        raise GgufError(f"{name}: one of {count} parts, but its name does not end in {suffix}")
    return tuple(f"{stem}-{part:05}{suffix}" for part in range(1, count + 1))


class _Cursor:
    """Reads forward in chunks, and says what it was reading when the bytes end."""

    __slots__ = ("_buffer", "_read", "_size", "_start", "at")

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size = read, size
        self._buffer, self._start = b"", 0
        self.at = 0

    def take(self, n: int, what: str) -> bytes:
        self._need(n, what)
        skip = self.at - self._start
        if skip + n > len(self._buffer):
            self._buffer = self._read(self.at, max(n, _CHUNK))
            self._start, skip = self.at, 0
            if len(self._buffer) < n:
                raise GgufError(f"truncated: the file ends in {what}, at byte {self._size}")
        self.at += n
        return self._buffer[skip : skip + n]

    def skip(self, n: int, what: str) -> None:
        self._need(n, what)
        self.at += n

    def _need(self, n: int, what: str) -> None:
        if n > self._size - self.at:
            raise GgufError(
                f"truncated: {what} at byte {self.at} needs {n} bytes, the file has {self._size}"
            )

    def u32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little")

    def count(self, what: str, most: int, *, at_least: int) -> int:
        """A count whose items take ``at_least`` bytes each, so that it cannot be any number."""
        count = self.u64(f"the count of {what}")
        if count > most or count * at_least > self._size - self.at:
            raise GgufError(f"absurd count: {count} {what} in a file of {self._size} bytes")
        return count

    def string(self, what: str, most: int) -> str:
        length = self.u64(f"the length of {what}")
        if length > most:
            raise GgufError(f"absurd length: {what} at byte {self.at} has {length} bytes")
        return self.take(length, what).decode("utf-8", "replace")


def _version(cursor: _Cursor) -> int:
    if (magic := cursor.take(4, "the magic")) != _MAGIC:
        raise GgufError(f"no GGUF file: it begins with {magic!r}, not {_MAGIC!r}")
    version = cursor.u32("the version")
    if version in VERSIONS:
        return version
    if version & 0xFFFF == 0:
        raise GgufError("big-endian GGUF is not read")
    raise GgufError(f"GGUF version {version} is not read, only {VERSIONS}")


def _value(cursor: _Cursor, key: str, keep: int) -> Value:
    kind = cursor.u32(f"the type of {key!r}")
    if kind != _ARRAY:
        return _scalar(cursor, kind, key)
    element = cursor.u32(f"the element type of {key!r}")
    if element == _STRING:
        return _strings(cursor, key, keep)
    layout = _layout(element, key)
    width = struct.calcsize(layout)
    count = cursor.count(f"elements of {key!r}", _MOST_ELEMENTS, at_least=width)
    if count > keep:
        cursor.skip(count * width, repr(key))
        return Skipped(count)
    data = cursor.take(count * width, repr(key))
    return tuple(value for (value,) in struct.iter_unpack(layout, data))


def _strings(cursor: _Cursor, key: str, keep: int) -> Value:
    count = cursor.count(f"strings of {key!r}", _MOST_STRINGS, at_least=8)
    if count <= keep:
        return tuple(cursor.string(repr(key), 2**24) for _ in range(count))
    for _ in range(count):
        cursor.skip(cursor.u64(repr(key)), repr(key))
    return Skipped(count)


def _scalar(cursor: _Cursor, kind: int, key: str) -> Scalar:
    if kind == _STRING:
        return cursor.string(repr(key), 2**26)
    layout = _layout(kind, key)
    (value,) = struct.unpack(layout, cursor.take(struct.calcsize(layout), repr(key)))
    return value  # type: ignore[no-any-return]  # struct's result, by the layout a Scalar


def _layout(kind: int, key: str) -> str:
    layout = _SCALARS.get(kind)
    if layout is None:
        raise GgufError(f"{key!r} has the unknown value type {kind}")
    return layout


def _tensor(cursor: _Cursor) -> Tensor:
    name = cursor.string("a tensor's name", _MOST_NAME)
    n_dimensions = cursor.u32(f"the dimensions of {name!r}")
    if not 0 < n_dimensions <= _MOST_DIMENSIONS:
        raise GgufError(f"tensor {name!r} has {n_dimensions} dimensions")
    shape = tuple(cursor.u64(f"the shape of {name!r}") for _ in range(n_dimensions))
    kind = cursor.u32(f"the type of {name!r}")
    if kind not in TENSOR_TYPES:
        raise GgufError(f"tensor {name!r} has the unknown type {kind}")
    type_name, block, block_bytes = TENSOR_TYPES[kind]
    elements = prod(shape)
    if not 0 < elements <= _MOST_ELEMENTS or shape[0] % block:
        raise GgufError(f"tensor {name!r} of type {type_name} cannot have the shape {shape}")
    return Tensor(name, shape, type_name, elements // block * block_bytes, cursor.u64("an offset"))


def _aligned(at: int, metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or not 0 < alignment <= 2**20:
        raise GgufError(f"general.alignment cannot be {alignment!r}")
    return -(-at // alignment) * alignment


def _check_data(tensors: Sequence[Tensor], start: int, size: int) -> None:
    for tensor in tensors:
        if start + tensor.offset + tensor.n_bytes > size:
            raise GgufError(
                f"truncated: tensor {tensor.name!r} ends at byte "
                f"{start + tensor.offset + tensor.n_bytes}, the file has {size}"
            )
