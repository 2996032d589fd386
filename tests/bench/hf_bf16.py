"""Writes a GGUF's weights as bf16 in Hugging Face's layout: FILE FOLDER.

Runs in a Python that has transformers, torch, accelerate and gguf: that of vLLM.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers


def main() -> None:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    place = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    asked = {"dtype": torch.bfloat16}
    if hasattr(transformers, "GgufConfig"):
        # Newer ones would keep the weights as they are.
        asked = {"quantization_config": transformers.GgufConfig(dequantize=True)}
    model = transformers.AutoModelForCausalLM.from_pretrained(
        **place, dtype=torch.bfloat16, **asked
    )
    model.save_pretrained(target)
    transformers.AutoTokenizer.from_pretrained(**place).save_pretrained(target)


if __name__ == "__main__":
    main()
