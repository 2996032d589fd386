from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    BIRTH: _ClassVar[Kind]
    EVENT: _ClassVar[Kind]
    LEVEL: _ClassVar[Kind]
    RUN: _ClassVar[Kind]
    HEARTBEAT: _ClassVar[Kind]
    TELEMETRY: _ClassVar[Kind]

class ClockQuality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOCK_UNSPECIFIED: _ClassVar[ClockQuality]
    SYNCED: _ClassVar[ClockQuality]
    HOLDOVER: _ClassVar[ClockQuality]
    UNSYNCED: _ClassVar[ClockQuality]
KIND_UNSPECIFIED: Kind
BIRTH: Kind
EVENT: Kind
LEVEL: Kind
RUN: Kind
HEARTBEAT: Kind
TELEMETRY: Kind
CLOCK_UNSPECIFIED: ClockQuality
SYNCED: ClockQuality
HOLDOVER: ClockQuality
UNSYNCED: ClockQuality

class Envelope(_message.Message):
    __slots__ = ("device_id", "epoch", "seq", "boot_id", "schema", "agent_version", "kind", "wall_ns", "mono_ns", "clock", "payload", "crc32")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    AGENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    WALL_NS_FIELD_NUMBER: _ClassVar[int]
    MONO_NS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    CRC32_FIELD_NUMBER: _ClassVar[int]
    device_id: str
    epoch: int
    seq: int
    boot_id: str
    schema: int
    agent_version: str
    kind: Kind
    wall_ns: int
    mono_ns: int
    clock: ClockQuality
    payload: bytes
    crc32: int
    def __init__(self, device_id: _Optional[str] = ..., epoch: _Optional[int] = ..., seq: _Optional[int] = ..., boot_id: _Optional[str] = ..., schema: _Optional[int] = ..., agent_version: _Optional[str] = ..., kind: _Optional[_Union[Kind, str]] = ..., wall_ns: _Optional[int] = ..., mono_ns: _Optional[int] = ..., clock: _Optional[_Union[ClockQuality, str]] = ..., payload: _Optional[bytes] = ..., crc32: _Optional[int] = ...) -> None: ...

class SeqRange(_message.Message):
    __slots__ = ("first", "last")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("device_id", "epoch", "ranges", "status", "reason", "retry_after_s")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[Ack.Status]
        STORED: _ClassVar[Ack.Status]
        DUPLICATE: _ClassVar[Ack.Status]
        REJECTED: _ClassVar[Ack.Status]
        RETRY: _ClassVar[Ack.Status]
        RESEND: _ClassVar[Ack.Status]
    STATUS_UNSPECIFIED: Ack.Status
    STORED: Ack.Status
    DUPLICATE: Ack.Status
    REJECTED: Ack.Status
    RETRY: Ack.Status
    RESEND: Ack.Status
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RANGES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    device_id: str
    epoch: int
    ranges: _containers.RepeatedCompositeFieldContainer[SeqRange]
    status: Ack.Status
    reason: str
    retry_after_s: float
    def __init__(self, device_id: _Optional[str] = ..., epoch: _Optional[int] = ..., ranges: _Optional[_Iterable[_Union[SeqRange, _Mapping]]] = ..., status: _Optional[_Union[Ack.Status, str]] = ..., reason: _Optional[str] = ..., retry_after_s: _Optional[float] = ...) -> None: ...

class Carried(_message.Message):
    __slots__ = ("envelope", "received_ns", "transport", "effective_wall_ns", "time_source")
    ENVELOPE_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    TRANSPORT_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_WALL_NS_FIELD_NUMBER: _ClassVar[int]
    TIME_SOURCE_FIELD_NUMBER: _ClassVar[int]
    envelope: bytes
    received_ns: int
    transport: str
    effective_wall_ns: int
    time_source: str
    def __init__(self, envelope: _Optional[bytes] = ..., received_ns: _Optional[int] = ..., transport: _Optional[str] = ..., effective_wall_ns: _Optional[int] = ..., time_source: _Optional[str] = ...) -> None: ...
