from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Contender(_message.Message):
    __slots__ = ("id", "name", "engine", "engine_version", "build", "model", "model_sha256", "weight_format", "slots", "context_per_request", "managed", "launcher", "settings")
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_VERSION_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PER_REQUEST_FIELD_NUMBER: _ClassVar[int]
    MANAGED_FIELD_NUMBER: _ClassVar[int]
    LAUNCHER_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    engine: str
    engine_version: str
    build: str
    model: str
    model_sha256: str
    weight_format: str
    slots: int
    context_per_request: int
    managed: bool
    launcher: str
    settings: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., engine: _Optional[str] = ..., engine_version: _Optional[str] = ..., build: _Optional[str] = ..., model: _Optional[str] = ..., model_sha256: _Optional[str] = ..., weight_format: _Optional[str] = ..., slots: _Optional[int] = ..., context_per_request: _Optional[int] = ..., managed: bool = ..., launcher: _Optional[str] = ..., settings: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("name", "prompt_tokens", "output_tokens")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    name: str
    prompt_tokens: int
    output_tokens: int
    def __init__(self, name: _Optional[str] = ..., prompt_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("device_id", "hardware_class", "performance_state", "attributes", "labels")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_CLASS_FIELD_NUMBER: _ClassVar[int]
    PERFORMANCE_STATE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    device_id: str
    hardware_class: str
    performance_state: str
    attributes: _containers.ScalarMap[str, str]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, device_id: _Optional[str] = ..., hardware_class: _Optional[str] = ..., performance_state: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Birth(_message.Message):
    __slots__ = ("device", "started_wall_ns", "connection")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    STARTED_WALL_NS_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_FIELD_NUMBER: _ClassVar[int]
    device: Device
    started_wall_ns: int
    connection: int
    def __init__(self, device: _Optional[_Union[Device, _Mapping]] = ..., started_wall_ns: _Optional[int] = ..., connection: _Optional[int] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("name", "message", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    message: str
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., message: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("uptime_s", "spool_rows", "spool_bytes", "dropped", "sensor_up", "troubles")
    class DroppedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class SensorUpEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bool
        def __init__(self, key: _Optional[str] = ..., value: bool = ...) -> None: ...
    class TroublesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    SPOOL_ROWS_FIELD_NUMBER: _ClassVar[int]
    SPOOL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    SENSOR_UP_FIELD_NUMBER: _ClassVar[int]
    TROUBLES_FIELD_NUMBER: _ClassVar[int]
    uptime_s: float
    spool_rows: int
    spool_bytes: int
    dropped: _containers.ScalarMap[str, int]
    sensor_up: _containers.ScalarMap[str, bool]
    troubles: _containers.ScalarMap[str, str]
    def __init__(self, uptime_s: _Optional[float] = ..., spool_rows: _Optional[int] = ..., spool_bytes: _Optional[int] = ..., dropped: _Optional[_Mapping[str, int]] = ..., sensor_up: _Optional[_Mapping[str, bool]] = ..., troubles: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Telemetry(_message.Message):
    __slots__ = ("readings",)
    READINGS_FIELD_NUMBER: _ClassVar[int]
    readings: _containers.RepeatedCompositeFieldContainer[Reading]
    def __init__(self, readings: _Optional[_Iterable[_Union[Reading, _Mapping]]] = ...) -> None: ...

class Reading(_message.Message):
    __slots__ = ("name", "unit", "value", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    unit: str
    value: float
    reason: str
    def __init__(self, name: _Optional[str] = ..., unit: _Optional[str] = ..., value: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "state", "reason", "device", "plan_json", "contenders", "started_wall_ns", "ended_wall_ns", "n_levels")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Run.State]
        RUNNING: _ClassVar[Run.State]
        COMPLETE: _ClassVar[Run.State]
        INTERRUPTED: _ClassVar[Run.State]
        FAILED: _ClassVar[Run.State]
    STATE_UNSPECIFIED: Run.State
    RUNNING: Run.State
    COMPLETE: Run.State
    INTERRUPTED: Run.State
    FAILED: Run.State
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PLAN_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTENDERS_FIELD_NUMBER: _ClassVar[int]
    STARTED_WALL_NS_FIELD_NUMBER: _ClassVar[int]
    ENDED_WALL_NS_FIELD_NUMBER: _ClassVar[int]
    N_LEVELS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    state: Run.State
    reason: str
    device: Device
    plan_json: str
    contenders: _containers.RepeatedCompositeFieldContainer[Contender]
    started_wall_ns: int
    ended_wall_ns: int
    n_levels: int
    def __init__(self, run_id: _Optional[str] = ..., state: _Optional[_Union[Run.State, str]] = ..., reason: _Optional[str] = ..., device: _Optional[_Union[Device, _Mapping]] = ..., plan_json: _Optional[str] = ..., contenders: _Optional[_Iterable[_Union[Contender, _Mapping]]] = ..., started_wall_ns: _Optional[int] = ..., ended_wall_ns: _Optional[int] = ..., n_levels: _Optional[int] = ...) -> None: ...

class Distribution(_message.Message):
    __slots__ = ("n", "mean", "min", "max", "p50", "p90", "p95", "p99")
    N_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P90_FIELD_NUMBER: _ClassVar[int]
    P95_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    n: int
    mean: float
    min: float
    max: float
    p50: float
    p90: float
    p95: float
    p99: float
    def __init__(self, n: _Optional[int] = ..., mean: _Optional[float] = ..., min: _Optional[float] = ..., max: _Optional[float] = ..., p50: _Optional[float] = ..., p90: _Optional[float] = ..., p95: _Optional[float] = ..., p99: _Optional[float] = ...) -> None: ...

class Flag(_message.Message):
    __slots__ = ("name", "value", "threshold", "detail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    threshold: float
    detail: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ..., threshold: _Optional[float] = ..., detail: _Optional[str] = ...) -> None: ...

class Level(_message.Message):
    __slots__ = ("run_id", "contender", "session", "workload", "concurrency", "attempt", "status", "reason", "flags", "started_wall_ns", "started_mono_ns", "n_ok", "n_failed", "failed_by", "values", "distributions", "block_output_tokens_per_s", "device", "attributes", "verdict", "window_start_mono_ns", "window_end_mono_ns")
    class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATUS_UNSPECIFIED: _ClassVar[Level.Status]
        VALID: _ClassVar[Level.Status]
        FLAGGED: _ClassVar[Level.Status]
        SKIPPED: _ClassVar[Level.Status]
        FAILED: _ClassVar[Level.Status]
    STATUS_UNSPECIFIED: Level.Status
    VALID: Level.Status
    FLAGGED: Level.Status
    SKIPPED: Level.Status
    FAILED: Level.Status
    class FailedByEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class DistributionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Distribution
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Distribution, _Mapping]] = ...) -> None: ...
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENDER_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    STARTED_WALL_NS_FIELD_NUMBER: _ClassVar[int]
    STARTED_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    N_OK_FIELD_NUMBER: _ClassVar[int]
    N_FAILED_FIELD_NUMBER: _ClassVar[int]
    FAILED_BY_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    DISTRIBUTIONS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_OUTPUT_TOKENS_PER_S_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_START_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_END_MONO_NS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    contender: Contender
    session: int
    workload: Workload
    concurrency: int
    attempt: int
    status: Level.Status
    reason: str
    flags: _containers.RepeatedCompositeFieldContainer[Flag]
    started_wall_ns: int
    started_mono_ns: int
    n_ok: int
    n_failed: int
    failed_by: _containers.ScalarMap[str, int]
    values: _containers.ScalarMap[str, float]
    distributions: _containers.MessageMap[str, Distribution]
    block_output_tokens_per_s: _containers.RepeatedScalarFieldContainer[float]
    device: Device
    attributes: _containers.ScalarMap[str, str]
    verdict: MemoryVerdict
    window_start_mono_ns: int
    window_end_mono_ns: int
    def __init__(self, run_id: _Optional[str] = ..., contender: _Optional[_Union[Contender, _Mapping]] = ..., session: _Optional[int] = ..., workload: _Optional[_Union[Workload, _Mapping]] = ..., concurrency: _Optional[int] = ..., attempt: _Optional[int] = ..., status: _Optional[_Union[Level.Status, str]] = ..., reason: _Optional[str] = ..., flags: _Optional[_Iterable[_Union[Flag, _Mapping]]] = ..., started_wall_ns: _Optional[int] = ..., started_mono_ns: _Optional[int] = ..., n_ok: _Optional[int] = ..., n_failed: _Optional[int] = ..., failed_by: _Optional[_Mapping[str, int]] = ..., values: _Optional[_Mapping[str, float]] = ..., distributions: _Optional[_Mapping[str, Distribution]] = ..., block_output_tokens_per_s: _Optional[_Iterable[float]] = ..., device: _Optional[_Union[Device, _Mapping]] = ..., attributes: _Optional[_Mapping[str, str]] = ..., verdict: _Optional[_Union[MemoryVerdict, _Mapping]] = ..., window_start_mono_ns: _Optional[int] = ..., window_end_mono_ns: _Optional[int] = ...) -> None: ...

class MemoryVerdict(_message.Message):
    __slots__ = ("admit", "needed_bytes", "available_bytes", "reserve_bytes", "limited_by", "terms")
    class Term(_message.Message):
        __slots__ = ("name", "bytes")
        NAME_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        name: str
        bytes: int
        def __init__(self, name: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...
    ADMIT_FIELD_NUMBER: _ClassVar[int]
    NEEDED_BYTES_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESERVE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMITED_BY_FIELD_NUMBER: _ClassVar[int]
    TERMS_FIELD_NUMBER: _ClassVar[int]
    admit: bool
    needed_bytes: int
    available_bytes: int
    reserve_bytes: int
    limited_by: str
    terms: _containers.RepeatedCompositeFieldContainer[MemoryVerdict.Term]
    def __init__(self, admit: bool = ..., needed_bytes: _Optional[int] = ..., available_bytes: _Optional[int] = ..., reserve_bytes: _Optional[int] = ..., limited_by: _Optional[str] = ..., terms: _Optional[_Iterable[_Union[MemoryVerdict.Term, _Mapping]]] = ...) -> None: ...
