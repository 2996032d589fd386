from __future__ import annotations

import msgspec
import pytest

from edgesweep.complaints import readable


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    port: int


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner
    many: list[Inner] = []


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({}, "inner: missing"),
        ({"inner": {}}, "inner.port: missing"),
        ({"inner": {"port": 1}, "x": 2}, "x: unknown key"),
        ({"inner": {"port": 1, "x": 2}}, "inner.x: unknown key"),
        ({"inner": {"port": "a"}}, "inner.port: Expected `int`, got `str`"),
        (
            {"inner": {"port": 1}, "many": [{"port": None}]},
            "many[0].port: Expected `int`, got `null`",
        ),
        (3, "Expected `object`, got `int`"),
    ],
)
def test_the_key_comes_first(tree, says):
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(tree, Outer)
    assert readable(str(raised.value)) == says
