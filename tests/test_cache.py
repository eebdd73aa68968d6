"""The cache of values per object."""

from __future__ import annotations

from dataclasses import dataclass

from optsmith._cache import ObjectCache


@dataclass
class Point:
    """Defines equality, so it is not hashable."""

    x: int


def test_a_value_is_made_once_per_object_and_key():
    cache, made = ObjectCache(), []
    one, equal = Point(1), Point(1)
    for owner in (one, one, equal):
        for key in ("a", "b"):
            cache.get(owner, key, lambda key=key: made.append(key))
    assert made == ["a", "b", "a", "b"]


def test_values_are_forgotten_with_their_object():
    cache = ObjectCache()
    one = Point(1)
    assert cache.get(one, "key", lambda: 5) == 5
    assert len(cache) == 1
    del one
    assert len(cache) == 0
