"""Whether a model's positions are stretched beyond the context that it was trained for.

llama.cpp caps a slot at the training context of the file (tools/server/server-context.cpp, "the
slot context exceeds the training context of the model"), unless the file's own key is overridden.
vLLM multiplies ``max_position_embeddings`` by the scaling factor of the config, and refuses what
is above that (vllm/config/model.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_STRETCHING = re.compile(r"rope|yarn|override|allow[-_]long", re.IGNORECASE)
"""``--rope-scaling``, ``--yarn-orig-ctx``, ``--override-kv``, ``--hf-overrides``,
``VLLM_ALLOW_LONG_MAX_MODEL_LEN`` and their like."""
_NONE = frozenset({"", "none", "default"})


def asked_for(names: Iterable[str]) -> str:
    """The first flag or variable that has to do with it; "" if there is none."""
    return next((name for name in names if _STRETCHING.search(name)), "")


def of_gguf(metadata: Mapping[str, Any]) -> str:
    """The kind of scaling that a file's metadata asks for; "" if none."""
    arch = metadata.get("general.architecture")
    kind = str(metadata.get(f"{arch}.rope.scaling.type") or "")
    return "" if kind in _NONE else kind


def of_config(config: Mapping[str, Any]) -> str:
    """The kind of scaling that a Hugging Face config asks for, of its text part; "" if none."""
    for part in (config, config.get("text_config")):
        for key in ("rope_scaling", "rope_parameters"):
            scaling = part.get(key) if isinstance(part, dict) else None
            if isinstance(scaling, dict):
                kind = str(scaling.get("rope_type") or scaling.get("type") or "")
                if kind not in _NONE:
                    return kind
    return ""
