"""Pickles of arrays are read; any other object is refused before it is created."""

from __future__ import annotations

import io
import os
import pickle
import struct

import numpy as np
import pytest

from optsmith._errors import DataError
from optsmith.data import load_arrays

ARRAYS = [
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.asfortranarray(np.arange(12, dtype=np.int64).reshape(3, 4)),
    np.arange(5, dtype=">i2"),
    np.array([True, False]),
    np.zeros((0, 3), np.uint8),
    np.array(2.5),
]


def load(content: bytes):
    return load_arrays(io.BytesIO(content), "it.pkl")


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.str}{a.shape}")
def test_arrays_are_read(array, protocol):
    read, again = load(pickle.dumps([array, {"x": (1, array)}], protocol))
    np.testing.assert_array_equal(read, array)
    assert read.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(again["x"][1], array)


def test_a_pickle_of_python_2_is_read():
    """The instructions are those that NumPy wrote with Python 2."""
    content = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x02\x85cnumpy\ndtype\nU\x02f4K\x00K\x01\x87R"
        b"(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x08"
        + struct.pack("<2f", 0.25, 0.5)
        + b"tb."
    )
    np.testing.assert_array_equal(load(content), [0.25, 0.5])


class Reduced:
    """Is pickled as a function call."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def test_a_malicious_pickle_is_refused_and_not_run(tmp_path):
    mark = tmp_path / "mark"
    attack = pickle.dumps([ARRAYS[0], Reduced(os.system, f"touch {mark}")], 4)
    with pytest.raises(DataError, match=r"it\.pkl is refused: it contains (posix|nt)\.system"):
        load(attack)
    assert not mark.exists()
    pickle.loads(attack)
    assert mark.exists(), "the attack has no effect, so the test proves nothing"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (pickle.dumps(Reduced(eval, "1")), "builtins.eval"),
        (pickle.dumps(Reduced(np.load, "x")), "numpy.load"),
        (pickle.dumps(np.float32(1), 4), "scalar"),
        (pickle.dumps(np.array([print], dtype=object), 4), "refused"),
        (pickle.dumps(np.zeros(2, "U3"), 4), "'U3' is not numeric"),
        (pickle.dumps(np.zeros(2, "i4,f4"), 4), "is not numeric"),
        (pickle.dumps(np.zeros(2, "M8[s]"), 4), "is not numeric"),
        (b"\x80\x04\x8c\x05numpy\x94\x8c\x0cndarray.dump\x94\x93.", "numpy.ndarray.dump"),
        (b"Psomething\n.", "an external object"),
        (pickle.dumps(ARRAYS[0], 4)[:-20], "damaged"),
        (b"", "damaged"),
        (b"not a pickle", "damaged"),
    ],
)
def test_anything_else_is_refused(content, says):
    with pytest.raises(DataError, match=r"it\.pkl is (refused|damaged)") as caught:
        load(content)
    assert says in str(caught.value)


@pytest.mark.parametrize("shape", [(3, 5), (-3, -4), (12.0,), (10**30,)])
def test_a_shape_that_does_not_fit_is_refused(shape):
    function, arguments, state = ARRAYS[0].__reduce__()

    class Lying:
        def __reduce__(self):
            return function, arguments, (state[0], shape, *state[2:])

    with pytest.raises(DataError, match="shape"):
        load(pickle.dumps(Lying(), 4))


def test_more_can_be_allowed():
    content = pickle.dumps(Reduced(complex, 1.0, 2.0))
    with pytest.raises(DataError, match="complex"):
        load(content)
    allow = {("builtins", "complex"): lambda *parts: ("stand-in", parts)}
    assert load_arrays(io.BytesIO(content), "x", allow) == ("stand-in", (1.0, 2.0))
