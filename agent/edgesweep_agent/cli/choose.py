"""From the options of ``sweep`` to a plan that was checked as a whole."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from edgesweep.complaints import readable
from edgesweep_agent.errors import UsageError
from edgesweep_agent.plan import AttachedSpec, SweepPlan
from edgesweep_agent.presets import PRESETS, with_preset
from edgesweep_agent.settings import load
from edgesweep_agent.workloads.registry import QUICK, WORKLOADS
from edgesweep_agent.workloads.replayed import stated
from edgesweep_agent.workloads.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgesweep_agent.settings import Settings


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line says of the workload, and what it wants instead of the plan's own."""

    workloads: str | None = None
    prompts: Path | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    arrival: str | None = None
    rate: float | None = None
    preset: str | None = None
    levels: str | None = None
    values: Mapping[str, object] = field(default_factory=dict)


def chosen(
    wanted: Wanted,
    *,
    url: str | None,
    plan: Path | None,
    model: str | None,
    api_key_file: Path | None,
    settings: Settings | None,
) -> SweepPlan:
    """The plan of a file, or a quick one for an address, with what the command line says instead.

    Raises:
        UsageError: options that do not go together, or a value that cannot be.
        SettingsError: the plan's file, or one that it replays.
    """
    if plan is not None:
        if url is not None or model is not None or api_key_file is not None:
            raise UsageError("give --plan, or --url with its options, not both")
        if wanted.preset is not None:
            raise UsageError('give --preset with --url; in a plan write preset = "NAME"')
        base = load(_plan_file(plan, settings), SweepPlan, with_preset)
    elif url is None:
        raise UsageError("nothing to measure: give --url http://HOST:PORT, or --plan FILE")
    else:
        base = _for_address(wanted, url=url, model=model, api_key_file=api_key_file)
    return _with_files(_override(base, wanted))


def _plan_file(plan: Path, settings: Settings | None) -> Path:
    """A file, or what the daemon's configuration calls by that name."""
    named = settings.plans.get(str(plan)) if settings is not None else None
    return plan if named is None or plan.exists() else named.file


def _for_address(wanted: Wanted, **fields: Any) -> SweepPlan:
    preset = wanted.preset or "quick"
    if preset not in PRESETS:
        raise UsageError(f"--preset: no preset {preset!r}; there is {', '.join(PRESETS)}")
    try:
        spec = msgspec.to_builtins(AttachedSpec(**fields), enc_hook=str)
        tree = {**with_preset({"preset": preset}), "contenders": [spec]}
        return msgspec.convert(tree, SweepPlan, dec_hook=_as_path)
    except ValueError as error:
        # The key of a plan has the option's name, but for its dashes.
        raise UsageError("--" + str(error).replace("api_key_file", "--api-key-file")) from error


def _override(plan: SweepPlan, wanted: Wanted) -> SweepPlan:
    """The plan with what the command line says instead, checked as a whole again."""
    changed = {name: value for name, value in wanted.values.items() if value is not None}
    tokens = {"prompt_tokens": wanted.prompt_tokens, "output_tokens": wanted.output_tokens}
    options = changed | {name: n for name, n in tokens.items() if n is not None}
    if (levels := _levels(wanted.levels)) is not None:
        changed["levels"] = levels
        options["levels"] = wanted.levels
    if (shapes := _shapes(plan, wanted)) is not None:
        changed["workloads"] = shapes
    fields = {name: getattr(plan, name) for name in plan.__struct_fields__} | changed
    try:
        built = SweepPlan(**fields)
        return msgspec.convert(
            msgspec.to_builtins(built, enc_hook=str), SweepPlan, dec_hook=_as_path
        )
    except msgspec.ValidationError as error:
        raise UsageError(_as_typed(readable(str(error)), options)) from error
    except ValueError as error:
        raise UsageError(_as_typed(str(error), options)) from error


def _as_typed(complaint: str, options: Mapping[str, object]) -> str:
    """A complaint about a plan's key by the option that gave it: ``--levels 0``, not a key.

    What comes of a file is left as it is: there the key is what was typed.
    """
    named = re.match(r"(?:workloads\[\d+\]\.)?(\w+)(?:\[\d+\])?(?: \[[^\]]*\])?:? ", complaint)
    if named is None or named[1] not in options:
        return complaint
    option = f"--{named[1].replace('_', '-')}"
    return f"{option} {options[named[1]]}: {complaint[named.end() :]}"


def _with_files(plan: SweepPlan) -> SweepPlan:
    """Replays with the lengths of what they replay."""
    shapes = tuple(one if isinstance(one, str) else stated(one) for one in plan.workloads)
    return msgspec.structs.replace(plan, workloads=shapes)


def _levels(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError(f"--levels {text!r}: write whole numbers, such as 1,2,4,8") from error


def _shapes(plan: SweepPlan, wanted: Wanted) -> tuple[Shape, ...] | None:
    if wanted.rate is not None and wanted.arrival != "poisson":
        raise UsageError("--rate is of --arrival poisson: give both")
    own = _named(wanted) or _replayed(wanted) or _measured(wanted)
    if own is None and wanted.arrival is None:
        return None
    return tuple(_arriving(shape, wanted) for shape in own or plan.shapes())


def _named(wanted: Wanted) -> tuple[Shape, ...] | None:
    if wanted.workloads is None:
        return None
    if (wanted.prompts, wanted.prompt_tokens, wanted.output_tokens) != (None, None, None):
        raise UsageError(
            "give --workload, or --prompts, or --prompt-tokens and --output-tokens: one of them"
        )
    names = [name.strip() for name in wanted.workloads.split(",")]
    for name in names:
        if name not in WORKLOADS:
            raise UsageError(f"--workload: no workload {name!r}; there is {', '.join(WORKLOADS)}")
    return tuple(WORKLOADS[name] for name in names)


def _replayed(wanted: Wanted) -> tuple[Shape, ...] | None:
    if wanted.prompts is None:
        return None
    output = wanted.output_tokens or QUICK.output_tokens
    name = f"replay-{wanted.prompts.stem}"
    return (Shape(output_tokens=output, name=name, kind="replay", file=wanted.prompts.resolve()),)


def _measured(wanted: Wanted) -> tuple[Shape, ...] | None:
    if wanted.prompt_tokens is None and wanted.output_tokens is None:
        return None
    prompt, output = wanted.prompt_tokens, wanted.output_tokens
    return (Shape(prompt or QUICK.prompt_tokens, output or QUICK.output_tokens),)


def _arriving(shape: Shape, wanted: Wanted) -> Shape:
    if wanted.arrival is None:
        return shape
    if wanted.arrival not in {"closed", "poisson"}:
        raise UsageError(f"--arrival {wanted.arrival!r}: closed or poisson")
    try:
        # Built anew: a struct that is replaced is not checked.
        fields = {name: getattr(shape, name) for name in shape.__struct_fields__}
        arrival = {"arrival": wanted.arrival, "rate_per_user_per_s": wanted.rate}
        return Shape(**{**fields, **arrival})
    except ValueError as error:
        raise UsageError(f"--arrival: {error}; give --rate") from error


def _as_path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"{kind} is no type of a plan")
