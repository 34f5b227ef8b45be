"""`serving.masks` without an engine: no error leaves, and each ends its own request alone."""

import numpy as np
import pytest
import unskew
from unskew.serving.masks import Guarded, fill_batch

END = 256
LAST = 31


class Panic(BaseException):
    """As pyo3's PanicException, which is no Exception."""


@pytest.fixture
def compiled(byte_tok):
    return unskew.Compiler(byte_tok).compile(unskew.Constraint.regex("ab*"))


def bits(mask, row=0):
    return set(np.flatnonzero(np.unpackbits(mask[row].view(np.uint8), bitorder="little")).tolist())


def masks(rows):
    return np.full((rows, 9), -1, np.int32)


def filled(guarded):
    mask = masks(1)
    guarded.fill(mask, 0)
    return bits(mask)


def test_it_is_the_matcher_while_all_is_well(compiled):
    guarded, mask = Guarded(unskew.Matcher(compiled), LAST), masks(2)
    guarded.fill(mask, 1)
    assert bits(mask, 1) == {97} and (mask[0] == -1).all()
    guarded.fill(mask, 0, unskew.Rows(mask, 9))
    assert bits(mask) == {97}
    assert guarded.validate([97, 98, 99]) == 2 and guarded.validate([97, -1]) == 1
    assert not guarded.accept(98) and guarded.error == "token 98 is not allowed after 0 tokens of output"
    assert not guarded.accept(-1) and not guarded.accept(1 << 20) and guarded.validate([1 << 20]) == 0
    assert guarded.accept(97)
    other = guarded.fork()
    assert guarded.accept(END) and guarded.is_terminated() and not other.is_terminated()
    # Tokens after the end are counted, and taken back.
    assert guarded.accept(5) and guarded.accept(6) and guarded.validate([5]) == 0
    guarded.rollback(2)
    assert guarded.is_terminated()
    guarded.rollback(1)
    assert filled(guarded) == {98, END} == filled(other)
    guarded.reset()
    assert filled(guarded) == {97}


@pytest.mark.parametrize("error", [Panic("broken"), RuntimeError("already borrowed"), unskew.MatcherError("beyond the start")])
@pytest.mark.parametrize("name", ["fill", "accept", "validate", "rollback", "reset", "is_terminated", "fork"])
def test_no_error_leaves(compiled, broken, name, error):
    guarded = Guarded(broken(unskew.Matcher(compiled), **{name: error}), LAST)
    call = {"fill": lambda: filled(guarded), "accept": lambda: guarded.accept(97), "validate": lambda: guarded.validate([97])}
    answer = call.get(name, {"rollback": lambda: guarded.rollback(1), "fork": guarded.fork}.get(name, getattr(guarded, name)))()
    if name == "fork":
        assert not answer.accept(97) and filled(guarded) == {97}
        return
    if name == "fill":
        assert answer == {LAST}
    if name == "validate":
        assert answer == 0
        if isinstance(error, unskew.MatcherError):
            return
    # The request ends: at the next token at the latest.
    assert not guarded.accept(97) and str(error) in guarded.error
    if not isinstance(error, unskew.MatcherError):
        assert filled(guarded) == {LAST} and not guarded.is_terminated() and guarded.validate([97]) == 0


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_process_leaves(compiled, broken, end):
    guarded = Guarded(broken(unskew.Matcher(compiled), fill=end()), LAST)
    with pytest.raises(end):
        filled(guarded)
    with pytest.raises(end):
        fill_batch([guarded], masks(1), [0])


def test_only_stop_ids_that_may_not_come_yet(compiled):
    """`{"regex": "ab*"}` with `a` as the stop id."""
    guarded = Guarded(unskew.Matcher(compiled, stop_ids=[97]), 97)
    assert filled(guarded) == {97} and not guarded.accept(97) and "stop" in guarded.error


def test_a_rollback_beyond_the_start(compiled):
    guarded = Guarded(unskew.Matcher(compiled), LAST)
    guarded.accept(97)
    guarded.rollback(5)
    assert filled(guarded) == {LAST} and not guarded.accept(98)


def test_an_output_beyond_a_limit(byte_tok):
    """The state itself is sound: what is taken back may go on in another way, and a draft beyond the limit spoils nothing."""
    grammar = unskew.Constraint.lark('start: "b" | x+\nx: "a" | "a" x "a" | "aa" x "aa"').with_limits({"grammar.state_items": 300})
    guarded = Guarded(unskew.Matcher(unskew.Compiler(byte_tok).compile(grammar)), LAST)
    taken = 0
    while filled(guarded) != {LAST}:
        assert guarded.accept(97)
        taken += 1
    assert taken > 1 and not guarded.accept(97) and "state_items" in guarded.error
    guarded.rollback(taken)
    assert filled(guarded) == {97, 98} and guarded.accept(98) and guarded.accept(END)


def test_a_batch_fills_what_it_can(compiled, broken):
    whole, dead, stuck = (Guarded(unskew.Matcher(compiled), LAST) for _ in range(3))
    whole.accept(97)
    dead.rollback(1)
    stuck.matcher = unskew.Matcher(compiled, stop_ids=[97])
    for several in ([whole], [whole, dead], [whole, dead, stuck]):
        mask = masks(5)
        fill_batch(several, mask, range(0, 2 * len(several), 2))
        assert [bits(mask, 2 * at) for at in range(len(several))] == [{98, END}, {LAST}, {LAST}][: len(several)]
        assert (mask[1] == -1).all() and (mask[3] == -1).all()
    assert not stuck.accept(LAST) and whole.accept(98)
