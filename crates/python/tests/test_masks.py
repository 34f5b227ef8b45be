"""Masks: bit for bit what `accept` takes, what the command line says, and the same by every way into memory."""

import array
import json
import os
import random
import subprocess
import threading

import numpy as np
import pytest

import unskew
from specs import SPECS, at_random


def bits(row, ids):
    """The ids of a mask."""
    flat = np.unpackbits(np.ascontiguousarray(row).view(np.uint8), bitorder="little")
    return set(np.flatnonzero(flat[:ids]).tolist())


def walk(compiler, spec, seed, steps):
    """A random walk of a matcher: after each step, its ids and its row."""
    tok_ids = compiler.mask_words * 32
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.from_json(spec)))
    mask = np.zeros((1, compiler.mask_words), np.uint32)
    rng = random.Random(seed)
    for _ in range(steps):
        matcher.fill(mask)
        allowed = sorted(bits(mask[0], tok_ids) - set(matcher.stop_ids))
        yield matcher, mask[0].copy()
        if not allowed:
            return
        assert matcher.accept(rng.choice(allowed))


@pytest.mark.parametrize("spec", SPECS)
def test_a_mask_is_what_accept_takes(tok, compiler, spec):
    for matcher, row in walk(compiler, spec, 1, 12):
        taken = {id for id in range(tok.vocab_size) if matcher.validate([id]) == 1}
        assert bits(row, compiler.mask_words * 32) == taken
        assert matcher.is_accepting() == bool(taken & set(matcher.stop_ids))


@pytest.mark.skipif("UNSKEW_ROWS" not in os.environ, reason="UNSKEW_ROWS names the engine's example `rows` (cargo xtask python sets it)")
def test_masks_are_those_of_rust(tok, tokenizer_path, compiler):
    """A thousand prefixes of two hundred constraints, bit for bit."""
    lines, rows = [], []
    specs = SPECS + at_random(200 - len(SPECS), seed=1)
    for seed, spec in enumerate(specs):
        for matcher, row in walk(compiler, spec, seed, 8):
            lines.append(json.dumps({"spec": json.loads(spec), "ids": matcher.ids}))
            rows.append(row)
    assert len(specs) == 200 and len(rows) >= 1000
    program = [os.environ["UNSKEW_ROWS"], str(tokenizer_path)]
    answer = subprocess.run(program, input="\n".join(lines), check=True, capture_output=True, text=True).stdout.split()
    assert len(answer) == len(rows)
    for line, words, row in zip(lines, answer, rows):
        assert words == "".join(f"{word:08x}" for word in row.tolist()), line


def test_every_way_into_memory_gives_the_same_row(tok, compiler):
    words = tok.mask_words
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.regex("[0-9]{4}")))
    rows = np.zeros((3, words), np.int32)
    matcher.fill(rows, 1)
    expected = rows[1].tobytes()
    assert any(expected) and not rows[0].any() and not rows[2].any()

    unsigned = np.full((2, words + 3), 0xFFFFFFFF, np.uint32)
    matcher.fill(unsigned, 1)
    assert unsigned[1, :words].tobytes() == expected
    assert not unsigned[1, words:].any() and (unsigned[0] == 0xFFFFFFFF).all()

    for line in (bytearray(8 * words), array.array("I", [0] * 2 * words), array.array("i", [0] * 2 * words)):
        matcher.fill(line, 1)
        assert memoryview(line).cast("B")[4 * words :].tobytes() == expected
    view = bytearray(4 * words)
    matcher.fill(memoryview(view))
    assert view == expected

    prepared = unskew.Rows(rows, words)
    assert (prepared.rows, prepared.words) == (3, words)
    matcher.fill(prepared, 2)
    assert rows[2].tobytes() == expected


def test_memory_that_does_not_fit_is_refused(tok, compiler):
    words = tok.mask_words
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.regex("[0-9]{4}")))
    for mask, row, message in [
        (np.zeros((4, words - 1), np.int32), 0, "too short"),
        (np.zeros((4, words), np.int32), 4, "beyond the end"),
        (np.zeros((4, words), np.int64), 0, "int32, uint32 or bytes"),
        (np.zeros((4, words), np.float32), 0, "int32, uint32 or bytes"),
        (np.zeros((4, 2 * words), np.int32)[:, ::2], 0, "in one piece"),
        (np.zeros((0, words), np.int32), 0, "empty"),
        (np.zeros((2, 2, words), np.int32), 0, "3 dimensions"),
        (np.zeros(words + 1, np.int32), 0, "no whole number of rows"),
        (bytes(4 * words), 0, "read-only"),
        (bytearray(4 * words + 1), 0, "no whole number of words"),
        (bytearray(4), 0, "too short"),
    ]:
        with pytest.raises(unskew.MatcherError, match=message):
            matcher.fill(mask, row)
    frozen = np.zeros((4, words), np.int32)
    frozen.flags.writeable = False
    with pytest.raises(unskew.MatcherError, match="read-only"):
        matcher.fill(frozen)
    with pytest.raises(TypeError):
        matcher.fill([0] * words)
    with pytest.raises(OverflowError):
        matcher.fill(np.zeros((4, words), np.int32), -1)


def states(compiler, count):
    """Matchers of many constraints, some steps in."""
    matchers = []
    for seed in range(count):
        matcher = None
        for matcher, _ in walk(compiler, SPECS[seed % len(SPECS)], seed, 1 + seed % 7):
            pass
        matchers.append(matcher)
    return matchers


def one_by_one(matchers, words):
    mask = np.zeros((len(matchers), words), np.int32)
    for row, matcher in enumerate(matchers):
        matcher.fill(mask, row)
    return mask


def test_a_batch_is_its_rows(tok, compiler):
    matchers = states(compiler, 64)
    expected = one_by_one(matchers, tok.mask_words)
    for threads in (None, 1, 2, 8):
        mask = np.zeros_like(expected)
        unskew.fill_batch(matchers, mask, threads=threads)
        assert (mask == expected).all()
    order = random.Random(3).sample(range(80), 64)
    mask = np.full((80, tok.mask_words), -7, np.int32)
    unskew.fill_batch(matchers, mask, rows=order)
    assert (mask[order] == expected).all()
    assert (mask[sorted(set(range(80)) - set(order))] == -7).all()
    unskew.fill_batch([], mask)


def test_drafts_are_steps(tok, compiler):
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.regex("[0-9]{4}")))
    (four,) = tok.encode("4")
    (wrong,) = tok.encode("x")
    drafts = [four, four, wrong, four]
    mask = np.zeros((5, tok.mask_words), np.int32)
    unskew.fill_batch([matcher], mask, drafts=[drafts])
    expected = np.zeros_like(mask)
    stepped = matcher.fork()
    stepped.fill(expected, 0)
    for row in (1, 2):
        assert stepped.accept(four)
        stepped.fill(expected, row)
    expected[3] = expected[4] = expected[2]
    assert (mask == expected).all() and matcher.ids == []


def test_draft_trees_are_forks(tok, compiler):
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.regex("[0-9]{2}[a-z]")))
    four, five, letter = (tok.encode(text)[0] for text in ("4", "5", "b"))
    drafts, parents = [four, five, letter, letter], [-1, 0, 1, 0]
    mask = np.zeros((6, tok.mask_words), np.int32)
    unskew.fill_batch([matcher, matcher], mask, drafts=[drafts, []], parents=[parents, []])
    expected = np.zeros_like(mask)
    for row, ids in enumerate([[], [four], [four, five], [four, five, letter], [four], []]):
        stepped = matcher.fork()
        # The last draft token is not allowed: its row is that of its parent.
        assert stepped.accept_all(ids) == len(ids)
        stepped.fill(expected, row)
    assert (mask == expected).all() and matcher.ids == []
    for wrong, message in [
        ([[-1, 0, 1], []], "4 tokens and 3 parents"),
        ([[-1, 0, 1, -2], []], "parent -2"),
        ([[-1, 0, 1, 3], []], "parent"),
        ([[-1, 0, 1, 99], []], "parent"),
        ([[-1, 0, 1, 0]], "`parents` has 1 entries"),
    ]:
        with pytest.raises(unskew.MatcherError, match=message):
            unskew.fill_batch([matcher, matcher], mask, drafts=[drafts, []], parents=wrong)
    with pytest.raises(unskew.MatcherError, match="parents"):
        unskew.fill_batch([matcher], mask, parents=[[-1]])


class Foreign:
    """An array that is known by `__dlpack__` alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_arrays_by_dlpack(tok, compiler):
    matcher = unskew.Matcher(compiler.compile(unskew.Constraint.regex("[0-9]{4}")))
    mask, expected = (np.zeros((3, tok.mask_words), np.int32) for _ in range(2))
    matcher.fill(Foreign(mask), 1)
    matcher.fill(expected, 1)
    assert (mask == expected).all()
    unskew.fill_batch([matcher] * 3, Foreign(mask))
    logits = np.zeros((3, tok.vocab_size), np.float32)
    unskew.apply(Foreign(logits), Foreign(mask))
    assert set(np.flatnonzero(np.isfinite(logits[2]))) == bits(mask[2], tok.vocab_size)

    class Elsewhere(Foreign):
        def __dlpack__(self, **options):
            raise BufferError("the memory of a GPU")

    with pytest.raises(unskew.MatcherError, match="`mask` cannot be read where it is: the memory of a GPU"):
        matcher.fill(Elsewhere(mask))


def test_a_wrong_batch_is_refused(tok, compiler):
    matchers = states(compiler, 2)
    mask = np.zeros((2, tok.mask_words), np.int32)
    for options, message in [
        ({"rows": [0]}, "`rows` has 1 entries"),
        ({"rows": [0, 2]}, "beyond the end"),
        ({"rows": [1, 1]}, "asked for twice"),
        ({"drafts": [[]]}, "`drafts` has 1 entries"),
        ({"drafts": [[1], []]}, "beyond the end"),
        ({"threads": 0}, "`threads` is 0"),
        ({"threads": 10**6}, "`threads` is 1000000"),
    ]:
        with pytest.raises(unskew.MatcherError, match=message):
            unskew.fill_batch(matchers, mask, **options)
    with pytest.raises(TypeError):
        unskew.fill_batch([1, 2], mask)
    with pytest.raises(unskew.MatcherError, match="beyond the vocabulary"):
        unskew.fill_batch([matchers[0]], mask, drafts=[[10**6]])


def test_eight_threads_fill_256_rows(tok, compiler):
    matchers = states(compiler, 256)
    expected = one_by_one(matchers, tok.mask_words)
    mask = np.zeros_like(expected)
    failures = []

    def work(first):
        try:
            for _ in range(4):
                for row in range(first, 256, 8):
                    matchers[row].fill(mask, row)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and (mask == expected).all()


def test_apply_forbids_in_place():
    logits = np.arange(3 * 70, dtype=np.float32).reshape(3, 70)
    mask = np.zeros((3, 3), np.int32)
    mask[0] = -1
    mask[1, 0] = 0b101
    mask[2, 2] = 1 << 5
    before = logits.copy()
    unskew.apply(logits, mask)
    assert (logits[0] == before[0]).all()
    assert np.flatnonzero(np.isfinite(logits[1])).tolist() == [0, 2] and logits[1, 2] == before[1, 2]
    assert np.flatnonzero(np.isfinite(logits[2])).tolist() == [69]
    # Ids beyond the mask, and words beyond the logits.
    row = np.zeros(70, np.float32)
    unskew.apply(row, np.full(2, -1, np.int32))
    assert np.isfinite(row).sum() == 64
    row = np.zeros(40, np.float32)
    unskew.apply(row, np.full(4, -1, np.int32))
    assert np.isfinite(row).all()


def test_apply_refuses_what_does_not_fit():
    logits = np.zeros((2, 64), np.float32)
    with pytest.raises(unskew.MatcherError, match="not float32"):
        unskew.apply(logits.astype(np.float64), np.zeros((2, 2), np.int32))
    with pytest.raises(unskew.MatcherError, match="2 rows and `mask` has 1"):
        unskew.apply(logits, np.zeros((1, 2), np.int32))
    with pytest.raises(unskew.MatcherError, match="in one piece"):
        unskew.apply(logits.T, np.zeros((64, 1), np.int32))
