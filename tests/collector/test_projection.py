from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgesweep.metrics import QUANTILES, REGISTRY, Shape
from edgesweep.records import (
    Contender,
    Device,
    Distribution,
    Flag,
    LevelResult,
    LevelStatus,
    Workload,
)
from edgesweep_collector.core.lineprotocol import line
from edgesweep_collector.core.projection import (
    MEASUREMENT,
    SCHEMA,
    TAGS,
    FieldType,
    Place,
    label_tag,
    level_point,
    place,
    unknown_metrics,
)

DOC = Path(__file__).parents[2] / "docs/influxdb.md"
T = 1767225600000000000
AT = Place(T, "5f")
PYTHON_TYPES = {FieldType.FLOAT: float, FieldType.INTEGER: int, FieldType.STRING: str}

LEVEL = LevelResult(
    run_id="0199-run",
    device=Device("n97-01", "n97-8g", "tdp12", labels={"site": "graz", "line": "3"}),
    contender=Contender("small", "llama.cpp", "b6000", model="C:\\m.gguf", weight_format="Q4_K_M"),
    session=1,
    workload=Workload("chat-128-256", 128, 256),
    concurrency=4,
    status=LevelStatus.FLAGGED,
    started_wall_ns=T,
    started_mono_ns=1,
    flags=(Flag("throttled"), Flag("errors", 0.02, 0.01)),
    n_ok=20,
    n_failed=1,
    values={"output_tokens_per_s": 100, "prompt_tokens": 2560.0},
    distributions={"ttft_s": Distribution(20, 0.5, 0.1, 0.9, p50=0.4)},
)
FULL = replace(
    LEVEL,
    contender=replace(LEVEL.contender, slots=8),
    values={name: 1.5 for name, m in REGISTRY.items() if m.shape is Shape.SCALAR},
    distributions={
        name: Distribution(700, 1, 1, 1, 1, 1, 1, 1)
        for name, m in REGISTRY.items()
        if m.shape is Shape.DISTRIBUTION
    },
)


def test_the_line_of_a_level():
    contender = LEVEL.contender.id
    assert line(level_point(LEVEL, AT)).text == (
        r"edgesweep_level,contender=small,device=n97-01,engine=llama.cpp,hardware_class=n97-8g,"
        r"line=3,model=C:/m.gguf,performance_state=tdp12,site=graz,spool=5f,status=flagged,"
        r"weight_format=Q4_K_M,workload=chat-128-256 "
        rf'attempt=1i,concurrency=4i,contender_id="{contender}",contender_name="small",'
        r'engine_version="b6000",flags="errors,throttled",model_name="C:\\m.gguf",n_failed=1i,'
        r'n_ok=20i,output_tokens_per_s=100,prompt_tokens=2560i,reason="",run_id="0199-run",'
        rf"session=1i,ttft_s_mean=0.5,ttft_s_n=20i,ttft_s_p50=0.4 {T}"
    )


def test_the_order_of_dicts_does_not_change_a_byte():
    turned = replace(
        FULL,
        device=replace(FULL.device, labels=dict(reversed(FULL.device.labels.items()))),
        values=dict(reversed(FULL.values.items())),
        distributions=dict(reversed(FULL.distributions.items())),
    )
    assert line(level_point(turned, AT)) == line(level_point(FULL, AT))


def test_every_field_has_its_registered_type_and_none_is_left_out():
    fields = level_point(FULL, AT).fields
    assert fields.keys() == SCHEMA.keys()
    assert {name: type(value) for name, value in fields.items()} == {
        name: PYTHON_TYPES[kind] for name, kind in SCHEMA.items()
    }


def test_tags_and_fields_share_no_name():
    assert not SCHEMA.keys() & set(TAGS)
    assert level_point(FULL, AT).tags.keys() - {"site", "line"} == set(TAGS)


def test_metrics_of_a_newer_agent_are_left_out_and_named():
    newer = replace(
        LEVEL,
        values={**LEVEL.values, "quantum_s": 1.0, "ttft_s": 1.0},
        distributions={**LEVEL.distributions, "aura": Distribution(1, 1, 1, 1)},
    )
    assert level_point(newer, AT) == level_point(LEVEL, AT)
    assert unknown_metrics(newer) == ("quantum_s", "ttft_s", "aura")
    assert unknown_metrics(LEVEL) == ()


def test_values_without_a_spelling_are_dropped_when_the_line_is_made():
    values = {"output_tokens": float("nan"), "cached_tokens": 1e300, "window_s": float("inf")}
    made = line(level_point(replace(LEVEL, values=values), AT))
    assert made.dropped_fields == 3
    assert not set(values) & set(re.findall(r"\w+(?==)", made.text))


@pytest.mark.parametrize("key", ["device", "thermal", "run_id", "ttft_s_p50", "time", "_field"])
def test_a_label_never_takes_a_name_of_ours(key):
    point = level_point(replace(LEVEL, device=replace(LEVEL.device, labels={key: "theirs"})), AT)
    assert point.tags[f"label_{key}"] == "theirs"
    assert point.tags["device"] == "n97-01"


def test_two_labels_never_end_in_one_tag():
    keys = ["device", "label_device", "label_label_device", "site", "label_site"]
    assert len({label_tag(key) for key in keys}) == len(keys)


def test_a_label_without_a_key_is_left_out():
    labels = replace(LEVEL, device=replace(LEVEL.device, labels={"": "x"}))
    assert "" not in level_point(labels, AT).tags


def test_the_time_is_the_effective_one_to_the_millisecond_and_the_tie_below_it():
    assert place(T + 123_456_789, 42) == Place(T + 123_000_042, "0")
    assert place(T + 123_456_789, 7_000_042) == Place(T + 123_000_042, "7")
    assert place(-1, 1_000_001) == Place(-999_999, "1")


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2**63), st.integers(0, 3_000_000)),
        unique_by=lambda record: record[1] + record[2],
    )
)
def test_no_two_records_of_a_device_have_one_place(records):
    """Whatever their times: effective times of a few ms, epochs and numbers at will."""
    places = {place(ms * 500_000, epoch + seq) for ms, epoch, seq in records}
    assert len(places) == len(records)


def test_records_in_turn_share_a_series_a_million_at_a_time():
    epoch = 0x1122334455667788
    spools = [place(T, epoch + seq).spool for seq in range(0, 3_000_000, 1000)]
    assert len(set(spools)) == 4
    assert spools == sorted(spools)


def described(section):
    """The table under a heading of the document: first cell -> second cell."""
    text = DOC.read_text(encoding="utf-8").split(f"## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", text, re.MULTILINE)
    return {name: cell.strip() for name, cell in rows}


def test_the_document_has_every_tag_and_every_field_with_its_type():
    assert MEASUREMENT in DOC.read_text(encoding="utf-8")
    assert set(described("Tags")) == set(TAGS)
    fields = described("Fields")
    expected = {name: kind.value for name, kind in SCHEMA.items()}
    for name, metric in REGISTRY.items():
        if metric.shape is Shape.DISTRIBUTION:
            for part in (*QUANTILES, "mean", "n"):
                del expected[f"{name}_{part}"]
            expected[f"{name}_*"] = "distribution"
    assert fields == expected


def test_the_document_says_what_the_registry_says():
    text = DOC.read_text(encoding="utf-8")
    for metric in REGISTRY.values():
        suffix = "_*" if metric.shape is Shape.DISTRIBUTION else ""
        (row,) = re.findall(rf"^\| `{metric.name}{re.escape(suffix)}` .*$", text, re.MULTILINE)
        assert row.endswith(f"| {metric.unit} | {metric.description} |")
