from __future__ import annotations

import io
import struct

import gguf as upstream
import pytest

from edgesweep_agent import memory
from edgesweep_agent.core import gguf
from edgesweep_agent.errors import UsageError
from random_gguf import Recipe, write


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, payload):
    return string(key) + struct.pack("<I", kind) + payload


def tensor(name="t", shape=(32,), kind=0, offset=0):
    dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return string(name) + dimensions + struct.pack("<IQ", kind, offset)


def image(entries=(), tensors=(), data=b"", version=3, counts=None):
    n_tensors, n_keys = counts or (len(tensors), len(entries))
    head = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys)
    head += b"".join(entries) + b"".join(tensors)
    return head + bytes(-len(head) % 32) + data


def parse(data, reads=None):
    def read(offset, n):
        if reads is not None:
            reads.append((offset, n))
        return data[offset : offset + n]

    return gguf.read_header(read, len(data))


ARCH = entry("general.architecture", 8, string("llama"))


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_and_tensors_are_read(version):
    entries = [
        ARCH,
        entry("a.count", 4, struct.pack("<I", 7)),
        entry("a.signed", 5, struct.pack("<i", -7)),
        entry("a.share", 6, struct.pack("<f", 0.5)),
        entry("a.on", 7, b"\1"),
        entry("a.per_layer", 9, struct.pack("<IQ3I", 4, 3, 1, 0, 2)),
        entry("a.names", 9, struct.pack("<IQ", 8, 2) + string("x") + string("yy")),
    ]
    tensors = [tensor("w", (64, 2), 8), tensor("n", (4,), 0, 160)]
    header = parse(image(entries, tensors, bytes(176), version))
    assert header.version == version
    assert header.metadata == {
        "general.architecture": "llama",
        "a.count": 7,
        "a.signed": -7,
        "a.share": 0.5,
        "a.on": True,
        "a.per_layer": (1, 0, 2),
        "a.names": ("x", "yy"),
    }
    assert [(t.name, t.shape, t.type_name, t.n_bytes) for t in header.tensors] == [
        ("w", (64, 2), "Q8_0", 136),
        ("n", (4,), "F32", 16),
    ]
    assert gguf.weight_bytes([header]) == 152
    assert gguf.bytes_by_type([header]) == {"Q8_0": 136, "F32": 16}
    assert gguf.bits_per_weight([header]) == pytest.approx(8 * 152 / 132)


def test_block_sizes_are_those_of_the_gguf_package():
    for kind, (block, n_bytes) in upstream.GGML_QUANT_SIZES.items():
        assert gguf.TENSOR_TYPES[int(kind)] == (kind.name, block, n_bytes)


def test_a_file_is_read_as_the_gguf_package_reads_it(tmp_path):
    path = write(tmp_path / "m.gguf", Recipe(arch="jamba", vocab=512))
    (header,) = memory.read_gguf(path)
    reference = upstream.GGUFReader(path)
    assert {t.name: (t.n_bytes, t.type_name) for t in header.tensors} == {
        t.name: (t.n_bytes, t.tensor_type.name) for t in reference.tensors
    }
    assert header.data_offset == reference.data_offset
    assert header.metadata["jamba.attention.head_count_kv"] == (0, 0, 0, 2)


def test_a_model_with_a_large_vocabulary_is_read_to_its_end(packaged_model):
    (header,) = memory.read_gguf(packaged_model)
    assert header.metadata["tokenizer.ggml.tokens"] == gguf.Skipped(49152)
    assert header.metadata["llama.block_count"] == 30
    assert gguf.weight_bytes([header]) == packaged_model.stat().st_size - header.data_offset


def test_only_the_header_is_read(tmp_path):
    data = write(tmp_path / "m.gguf", Recipe(layers=1, ffn=4096)).read_bytes()
    reads = []
    header = parse(data, reads)
    last, length = reads[-1]
    assert last + length < header.data_offset + gguf._CHUNK
    assert len(data) > header.data_offset + gguf._CHUNK


HUGE = 2**63


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "truncated"),
        (b"GGU", "truncated"),
        (b"PK\3\4" + bytes(40), "no GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (image(counts=(HUGE, 0)), "absurd count"),
        (image(counts=(0, HUGE)), "absurd count"),
        (image(counts=(0, 60_000), data=bytes(100)), "absurd count"),
        (image(counts=(0, 1)), "truncated|absurd"),
        (image([struct.pack("<Q", HUGE)], counts=(0, 1), data=bytes(64)), "absurd length"),
        (image([entry("k", 8, struct.pack("<Q", HUGE))], data=bytes(64)), "absurd length"),
        (image([entry("k", 8, struct.pack("<Q", 4000))], data=bytes(64)), "truncated"),
        (image([entry("k", 99, b"")], data=bytes(64)), "unknown value type 99"),
        (image([entry("k", 9, struct.pack("<IQ", 9, 1))], data=bytes(64)), "unknown value type 9"),
        (image([entry("k", 9, struct.pack("<IQ", 4, HUGE))], data=bytes(64)), "absurd count"),
        (image([entry("k", 9, struct.pack("<IQ", 8, 2**40))], data=bytes(64)), "absurd count"),
        (image([ARCH, ARCH]), "twice"),
        (image([entry("general.alignment", 4, struct.pack("<I", 0))]), "alignment"),
        (image(tensors=[tensor(kind=5)], data=bytes(999)), "unknown type 5"),
        (image(tensors=[tensor(shape=())], data=bytes(999)), "0 dimensions"),
        (image(tensors=[tensor(shape=(1,) * 9)], data=bytes(999)), "9 dimensions"),
        (image(tensors=[tensor(shape=(0,))], data=bytes(999)), "cannot have the shape"),
        (image(tensors=[tensor(shape=(HUGE, HUGE))], data=bytes(999)), "cannot have the shape"),
        (image(tensors=[tensor(shape=(33,), kind=2)], data=bytes(999)), "cannot have the shape"),
        (image(tensors=[tensor(shape=(32,))], data=bytes(127)), "truncated"),
        (image(tensors=[tensor(offset=HUGE)], data=bytes(999)), "truncated"),
    ],
)
def test_hostile_bytes_are_refused_with_what_was_wrong(data, said):
    with pytest.raises(gguf.GgufError, match=said):
        parse(data)


def test_a_valid_file_cut_anywhere_is_refused():
    whole = image([ARCH, entry("k", 9, struct.pack("<IQ2H", 2, 2, 1, 2))], [tensor()], bytes(128))
    for end in range(len(whole)):
        with pytest.raises(gguf.GgufError):
            parse(whole[:end])


def test_any_changed_byte_gives_a_header_or_a_refusal():
    whole = image([ARCH, entry("k", 9, struct.pack("<IQ2H", 2, 2, 1, 2))], [tensor()], bytes(128))
    read = refused = 0
    for at in range(len(whole)):
        for value in (0, 0x7F, 0xFF):
            data = whole[:at] + bytes([value]) + whole[at + 1 :]
            try:
                read += isinstance(parse(data), gguf.GgufHeader)
            except gguf.GgufError:
                refused += 1
    assert read + refused == 3 * len(whole)
    assert min(read, refused) > 0


def test_a_file_of_sparse_terabytes_costs_no_memory():
    claimed = 2**40
    head = image([entry("k", 9, struct.pack("<IQ", 8, 2**33))])

    def read(offset, n):
        return io.BytesIO(head).getvalue()[offset : offset + n].ljust(n, b"\0")

    with pytest.raises(gguf.GgufError, match="absurd count"):
        gguf.read_header(read, claimed)


def part(number, count, n_bytes):
    keys = [entry("split.count", 2, struct.pack("<H", count))]
    if number == 1:
        keys += [
            ARCH,
            *(entry(f"llama.{key}", 4, struct.pack("<I", value)) for key, value in {
                "block_count": 1, "embedding_length": 8, "attention.head_count": 2,
                "feed_forward_length": 16, "vocab_size": 9,
            }.items()),
        ]  # fmt: skip
    return image(keys, [tensor(f"t{number}", (n_bytes // 4,))], bytes(n_bytes))


def test_the_parts_of_a_split_model_are_one_model(tmp_path):
    for number, n_bytes in ((1, 64), (2, 128), (3, 256)):
        path = tmp_path / f"m-{number:05}-of-00003.gguf"
        path.write_bytes(part(number, 3, n_bytes))
    assert memory.model(tmp_path / "m-00001-of-00003.gguf").weight_bytes == 448
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    with pytest.raises(UsageError, match=r"m-00002-of-00003\.gguf"):
        memory.model(tmp_path / "m-00001-of-00003.gguf")


def test_a_part_under_another_name_is_refused(tmp_path):
    path = tmp_path / "renamed.gguf"
    path.write_bytes(part(1, 3, 64))
    with pytest.raises(UsageError, match=r"-of-00003\.gguf"):
        memory.model(path)
