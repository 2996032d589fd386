"""What was done per second of the time that counts, in one window or in several."""

from __future__ import annotations

from itertools import chain
from math import fsum
from typing import TYPE_CHECKING

from .window import emissions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edgesweep.records import Sample

    from .window import Window

BLOCKS = 10
"""Equal parts of a window, so that drift within a level shows."""


def rates(ok: Sequence[Sample], windows: Sequence[Window], suffix: str = "") -> dict[str, float]:
    """Requests and tokens per second of the windows.

    Args:
        ok: The answered requests.
        windows: At least one; they do not overlap.
        suffix: Put to the metrics' names.
    """
    length_s = total_seconds(windows)
    output = chain.from_iterable(map(emissions, ok))
    output_tokens = fsum(tokens for t_ns, tokens in output if _hold(windows, t_ns))
    found = {
        f"requests_per_s{suffix}": requests_per_s(ok, windows),
        f"output_tokens_per_s{suffix}": output_tokens / length_s,
    }
    prompts = prompt_tokens(ok)
    if prompts is not None:
        # A prompt is worked off when its first token is out.
        total = output_tokens + sum(
            tokens
            for sample, tokens in zip(ok, prompts, strict=True)
            if sample.text_ns and _hold(windows, sample.t_send_ns + sample.text_ns[0])
        )
        found[f"total_tokens_per_s{suffix}"] = total / length_s
    return found


def requests_per_s(ok: Iterable[Sample], windows: Sequence[Window]) -> float:
    """Requests whose last token came within the windows, per second of them."""
    ends = (sample.t_send_ns + sample.text_ns[-1] for sample in ok if sample.text_ns)
    return sum(_hold(windows, end_ns) for end_ns in ends) / total_seconds(windows)


def block_rates(ok: Iterable[Sample], windows: Sequence[Window]) -> tuple[float, ...]:
    """Output tokens per second: of ten parts of one window, or of each of several."""
    parts = BLOCKS if len(windows) == 1 else 1
    blocks = [0.0] * (parts * len(windows))
    for t_ns, tokens in chain.from_iterable(map(emissions, ok)):
        for position, window in enumerate(windows):
            if window.holds(t_ns):
                blocks[position * parts + window.block(t_ns, parts)] += tokens
    return tuple(
        blocks[position * parts + part] * parts / window.seconds
        for position, window in enumerate(windows)
        for part in range(parts)
    )


def prompt_tokens(ok: Iterable[Sample]) -> list[int] | None:
    """Of each request; ``None`` if any did not say, since a partial sum is no sum."""
    prompts = [sample.prompt_tokens for sample in ok]
    known = [tokens for tokens in prompts if tokens is not None]
    return known if len(known) == len(prompts) else None


def total_seconds(windows: Iterable[Window]) -> float:
    """Length of all the windows together."""
    return fsum(window.seconds for window in windows)


def _hold(windows: Iterable[Window], t_ns: int) -> bool:
    return any(window.holds(t_ns) for window in windows)
