"""Inputs that nobody would write: real ones with damage, and texts made of what hurts parsers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

_NUMBERS = [
    0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32,
    2**53, 2**63 - 1, 2**63, 2**64 - 1,
]  # fmt: skip
_HOSTILE = " ,=\\\"'\n\r\t\x00\x0b\x1f\x7f\x85\u2028\u2029\ufeff\ud800é😀#:/{}[]()<>%$*.-_0aZ"
_BLOCK = 4096


def text(rng: random.Random, longest: int = 12) -> str:
    """A short text, mostly of characters that mean something to somebody; seldom a long one."""
    if rng.random() < 0.01:
        return rng.choice(_HOSTILE) * rng.randrange(_BLOCK)
    length = rng.randrange(longest + 1)
    if rng.random() < 0.1:
        return "".join(chr(rng.randrange(0x20, 0x3000)) for _ in range(length))
    return "".join(rng.choices(_HOSTILE, k=length))


def utf8(rng: random.Random, longest: int = 12) -> str:
    """As :func:`text`, but fit for a request: protobuf takes no lone surrogate."""
    return text(rng, longest).replace("\ud800", "?")


def number(rng: random.Random) -> int:
    """An integer at or about the end of some range."""
    if rng.random() < 0.3:
        return rng.getrandbits(rng.randrange(1, 70))
    return rng.choice(_NUMBERS) + rng.randrange(-2, 3)


def real(rng: random.Random) -> float:
    """A float; one in eight is not finite, or at the end of what there is."""
    odd = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308]
    return rng.choice(odd) if rng.random() < 0.125 else rng.uniform(-1e6, 1e6)


def damaged(rng: random.Random, samples: Sequence[bytes]) -> bytes:
    """One of the samples, damaged in up to four places."""
    data = bytearray(rng.choice(samples))
    for _ in range(rng.randrange(1, 5)):
        rng.choice(_DAMAGE)(rng, data, samples)
    return bytes(data)


def changed(rng: random.Random, message: Message) -> None:
    """Set one field of a protobuf message, at any depth, to what nobody expects there."""
    inner = [value for field, value in message.ListFields() if _is_message(field)]
    if inner and rng.random() < 0.6:
        found = rng.choice(inner)
        if hasattr(found, "ListFields"):
            changed(rng, found)
        elif len(found) and hasattr(found, "append"):
            changed(rng, found[rng.randrange(len(found))])
        return
    field = rng.choice(message.DESCRIPTOR.fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        _enter(rng, getattr(message, field.name), field.message_type.fields_by_name["value"])
    elif not _is_message(field) and hasattr(getattr(message, field.name), "extend"):
        getattr(message, field.name).extend([_scalar(rng, field)] * rng.choice([1, 3, 300]))
    elif not _is_message(field):
        setattr(message, field.name, _scalar(rng, field))


def _is_message(field: FieldDescriptor) -> bool:
    return field.message_type is not None and not field.message_type.GetOptions().map_entry


def _enter(rng: random.Random, entries: object, field: FieldDescriptor) -> None:
    for _ in range(rng.choice([1, 1, 40])):
        if field.message_type is None:
            entries[utf8(rng)] = _scalar(rng, field)
        else:
            changed(rng, entries[utf8(rng)])


def _scalar(rng: random.Random, field: FieldDescriptor) -> object:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_STRING:
        return utf8(rng) if field.type == FieldDescriptor.TYPE_STRING else utf8(rng).encode()
    if kind in {FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT}:
        return real(rng)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    bits = 31 if kind in {FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_ENUM} else 63
    return number(rng) % 2 ** (32 if kind == FieldDescriptor.CPPTYPE_UINT32 else bits)


def _flip(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice([0, 10, 13, 32, 34, 44, 61, 92, 127, 128, 255])


def _number(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = rng.choice([1, 2, 4, 8])
    at = rng.randrange(len(data) + 1)
    value = number(rng) % 2 ** (8 * size)
    data[at : at + size] = value.to_bytes(size, rng.choice(["little", "big"]))


def _delete(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    del data[start:end]


def _cut(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _repeat(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    again = data[start : min(end, start + 64)] * rng.choice([1, 2, 3, 50])
    data[start:start] = again[:_BLOCK]


def _insert(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = utf8(rng).encode()


def _splice(rng: random.Random, data: bytearray, samples: Sequence[bytes]) -> None:
    other = rng.choice(samples)
    data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other) + 1) :]


_DAMAGE: list[Callable[[random.Random, bytearray, Sequence[bytes]], None]] = [
    _flip, _set, _number, _delete, _cut, _repeat, _insert, _splice,
]  # fmt: skip
