from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgesweep_collector.core.lineprotocol import Line, Point, line, plain
from edgesweep_collector.projection.influx import InfluxWriter, Target
from influx import running_influx
from influx_rewrite import rewriting

T = 1767225600000000000


@pytest.fixture(scope="module")
def influx(tmp_path_factory):
    with running_influx(tmp_path_factory.mktemp("influx")) as server:
        yield server


@pytest.fixture(scope="module")
def write(influx):
    with rewriting(influx.url) as rewrite:
        writer = InfluxWriter(Target(rewrite.url, "o", influx.database))
        yield writer.write
        writer.close()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9, "9i"),
        (-(2**63), "-9223372036854775808i"),
        (True, "true"),
        (False, "false"),
        (1e16, "1e+16"),
        (0.1, "0.1"),
        (-0.0, "-0"),
        ('a "b" \\', '"a \\"b\\" \\\\"'),
        ("", '""'),
        ("\ud800", '"\N{REPLACEMENT CHARACTER}"'),
    ],
)
def test_the_python_type_decides_the_field_type(value, text):
    assert line(Point("m", {}, {"f": value}, 7)).text == f"m f={text} 7"


def test_an_integer_beyond_64_bits_is_dropped():
    assert line(Point("m", {}, {"f": 2**63, "g": 1}, 7)) == Line("m g=1i 7", dropped_fields=1)


def test_keys_and_measurements_are_escaped():
    point = Point("a b,c=d", {"k 1": "v", "": "x"}, {"f,=": 1.5}, 7)
    assert line(point).text == r"a\ b\,c=d,k\ 1=v f\,\==1.5 7"


def test_fields_with_one_normal_form_or_the_name_of_a_tag_are_left_out_and_counted():
    fields = {"a\\b": 1, "a/b": 2, "t": 3, "": 4, "g": 5}
    made = line(Point("m", {"t": "x"}, fields, 7))
    assert made == Line("m,t=x a/b=1i,g=5i 7", dropped_fields=3)
    assert line(Point("m", {"t": "x"}, dict(reversed(fields.items())), 7)) == made


def test_a_line_is_never_a_comment():
    assert line(Point("#m", {}, {"f": 1}, 7)).text == "/#m f=1i 7"


def test_a_point_needs_a_measurement():
    with pytest.raises(ValueError, match="measurement"):
        line(Point("", {}, {"f": 1}, 7))


def test_keys_with_one_normal_form_give_one_tag():
    tags = {"a\\b": "1", "a/b": "2"}
    swapped = dict(reversed(tags.items()))
    assert line(Point("m", tags, {"f": 1}, 7)).text.count("a/b=") == 1
    assert line(Point("m", tags, {"f": 1}, 7)) == line(Point("m", swapped, {"f": 1}, 7))


characters = st.characters(exclude_categories=["Cs"])
hostile = st.text(st.sampled_from(" ,=\\\"'\n\r\t\x00#éa\u2028\x85\x7f") | characters, max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
ROUND = count()


def quoted(name):
    """An identifier of InfluxQL."""
    return '"' + name.replace("\\", r"\\").replace('"', r"\"") + '"'


@settings(max_examples=60, deadline=None)
@given(
    table=hostile,
    tags=st.dictionaries(hostile.map(lambda text: f"t{text}"), hostile, max_size=4),
    texts=st.dictionaries(hostile.map(lambda text: f"s{text}"), hostile, max_size=3),
    numbers=st.dictionaries(hostile.map(lambda text: f"f{text}"), NUMBERS, max_size=3),
    whole=st.integers(-(2**63), 2**63 - 1),
)
def test_what_is_written_is_what_is_read(influx, write, table, tags, texts, numbers, whole):
    measurement = f"round{next(ROUND)}{table}"
    fields = {**texts, **numbers, "fi": whole}
    made = line(Point(measurement, tags, fields, T)).text
    # Sent again, it is the same point of the same series.
    for _ in range(2):
        write([made])
    (series,) = influx.query(f"SELECT * FROM {quoted(plain(measurement))} GROUP BY *")
    found = {name: value for name, value in series.get("tags", {}).items() if value}
    assert found == {plain(k): plain(v) for k, v in sorted(tags.items()) if v}
    (values,) = series["values"]
    read = dict(zip(series["columns"], values, strict=True))
    assert read.pop("time") == T
    expected = {plain(name): value for name, value in sorted(fields.items())}
    assert read.keys() == expected.keys()
    for name, value in expected.items():
        # 1.x prints a large float as digits without a point, which JSON reads as an integer.
        assert (float(read[name]) if isinstance(value, float) else read[name]) == value


def test_no_line_injects_a_measurement(influx, write):
    names = {row["name"] for row in influx.rows("SHOW MEASUREMENTS")}
    assert all(name == "bench" or name.startswith("round") for name in names)
