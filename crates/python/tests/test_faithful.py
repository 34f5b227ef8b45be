"""Faithful outputs inside a serving engine, without one: a loop that batches, delays and drops sequences as an engine does."""

import math
import random
import re
import threading
from collections import Counter

import numpy as np
import pytest

import unskew
from law import p_value as law_p_value

TOKENS = [b"0", b"1", b"01", "<end>", "<reject>"]
END, REJECT = 3, 4
PATTERN = "[01][01]1?"


@pytest.fixture(scope="module")
def small():
    return unskew.Tokenizer.from_vocabulary(TOKENS, eos=[END])


def row(ids):
    """A model that likes to begin with `0`, and rarely goes on as the constraint demands."""
    probabilities = [0.55, 0.25, 0.05, 0.1, 0.05] if not ids else [0.1, 0.2, 0.1, 0.55, 0.05]
    if ids and ids[-1] == 0:
        probabilities = [0.05, 0.03, 0.02, 0.85, 0.05]
    return np.log(np.array(probabilities, np.float32))


def log_probability(ids):
    return sum(float(row(ids[:at])[id]) for at, id in enumerate([*ids, END]))


def exact(max_tokens=3):
    """The probability of each output given the constraint, by going through all of them, and that of the constraint."""
    outputs, stack = {}, [()]
    while stack:
        ids = stack.pop()
        text = b"".join(TOKENS[id] for id in ids).decode()
        if len(ids) > max_tokens:
            continue
        if re.fullmatch(PATTERN, text):
            outputs[ids] = math.exp(log_probability(list(ids)))
        stack.extend((*ids, id) for id in range(3))
    total = sum(outputs.values())
    return {ids: p / total for ids, p in outputs.items()}, total


def p_value(counts, law):
    return law_p_value(counts, law, sum(counts.values()))


def serve(begin, count, slots, seed=1, drops=0.0, retracts=0.2):
    """The first `count` walks, in the order in which they were begun. In each step some sequences of the batch go on, in one
    call; with probability `drops` one is given up."""
    dice, done, batch = random.Random(seed), [None] * count, []
    begun = 0
    while begun < count or batch:
        while len(batch) < slots and begun < count:
            batch.append((begun, begin(dice.getrandbits(64)), []))
            begun += 1
        now = [entry for entry in batch if dice.random() < 0.7]
        if now:
            # Some have lost the token that was in flight, and are asked again.
            for _, _, tokens in now:
                del tokens[len(tokens) - (bool(tokens) and dice.random() < retracts) :]
            ids = unskew.step_walks([walk for _, walk, _ in now], [len(ids) for *_, ids in now], np.stack([row(ids) for *_, ids in now]))
            for (_, _, tokens), id in zip(now, ids):
                tokens.append(id)
        for number, walk, tokens in list(batch):
            if tokens and tokens[-1] in (END, REJECT):
                assert walk.accepted == (tokens[-1] == END)
                assert walk.ids == (tokens[:-1] if walk.accepted else None)
                done[number] = walk
            elif dice.random() >= drops:
                continue
            batch.remove((number, walk, tokens))
    return [walk for walk in done if walk is not None]


def faithful(small, **options):
    return unskew.Faithful(unskew.Compiler(small), reject_id=REJECT, **options)


def walks(small, mode, count, slots, max_tokens=3, **options):
    engine, con = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model")
    return serve(lambda seed: engine.begin(con, [7], seed=seed, max_tokens=max_tokens, mode=mode), count, slots, **options)


@pytest.mark.parametrize("mode", ["cars", "rejection"])
@pytest.mark.parametrize("slots", [1, 8, 64])
def test_accepted_outputs_follow_the_exact_law(small, mode, slots):
    law, mass = exact()
    done = walks(small, mode, 4000, slots, drops=0.05)
    counts = Counter(tuple(walk.ids) for walk in done if walk.accepted)
    assert set(counts) <= set(law) and p_value(counts, law) > 0.001
    for walk in done[:200]:
        if walk.accepted:
            assert math.isclose(walk.log_prob, log_probability(walk.ids), abs_tol=1e-5) and walk.log_weight == 0.0
    stats = done[-1].stats()
    estimate = math.exp(stats["log_estimate"])
    assert abs(estimate - mass) < 4 * stats["relative_error"] * estimate + 1e-9
    if mode == "cars":
        # Masses that are known are not drawn again.
        late = done[500:]
        assert sum(walk.accepted for walk in late) > 0.99 * len(late) and stats["relative_error"] < 0.05
        assert math.isclose(math.exp(stats["log_bound"]), mass, rel_tol=1e-6)


def test_the_law_of_early_outputs(small):
    """The first 16 walks of many prompts: they learn from each other while they are under way."""
    law, _ = exact()
    engine, con, counts = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model"), Counter()
    for prompt in range(400):
        begin = lambda seed: engine.begin(con, [prompt], seed=seed, max_tokens=3)  # noqa: B023
        counts.update(tuple(walk.ids) for walk in serve(begin, 16, 16, seed=prompt) if walk.accepted)
    assert engine.states == 400 and p_value(counts, law) > 0.001


def test_masking_fails_this_test(small):
    """A test of the test: the outputs of masking, without their weights, have another law."""
    law, _ = exact()
    counts = Counter(tuple(walk.ids) for walk in walks(small, "weights", 4000, 8))
    assert p_value(counts, law) < 1e-6


def test_outputs_as_they_end_fail_this_test(small):
    """Another test of the test: who takes outputs as they end prefers short ones."""
    law, _ = exact()
    engine, con, counts = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model"), Counter()
    for prompt in range(1500):
        batch = [(engine.begin(con, [prompt], seed=12 * prompt + at, max_tokens=3), []) for at in range(12)]
        first = None
        while first is None and batch:
            for (_, tokens), id in zip(batch, unskew.step_walks([walk for walk, _ in batch], [len(t) for _, t in batch], np.stack([row(t) for _, t in batch]))):
                tokens.append(id)
            first = next((tuple(walk.ids) for walk, tokens in batch if tokens[-1] == END), None)
            batch = [entry for entry in batch if entry[1][-1] not in (END, REJECT)]
        counts[first] += first is not None
    counts.pop(None, None)
    assert p_value(counts, law) < 1e-6


def test_weights_are_the_mass_on_average(small):
    law, mass = exact()
    done = walks(small, "weights", 6000, 16)
    weights = np.array([math.exp(walk.log_weight) if walk.accepted else 0.0 for walk in done])
    error = np.std(weights) / math.sqrt(len(weights))
    assert abs(np.mean(weights) - mass) < 4 * error
    stats = done[-1].stats()
    assert math.isclose(math.exp(stats["log_estimate"]), np.mean(weights), rel_tol=1e-9)
    assert math.isclose(stats["relative_error"], error / np.mean(weights), rel_tol=1e-6)
    shares = Counter()
    for walk, weight in zip(done, weights):
        if walk.accepted:
            shares[tuple(walk.ids)] += weight
    for ids, p in law.items():
        assert abs(shares[ids] / sum(weights) - p) < 0.05


def test_the_length_is_a_part_of_the_constraint(small):
    law, mass = exact(max_tokens=1)
    done = walks(small, "cars", 1000, 8, max_tokens=1)
    counts = Counter(tuple(walk.ids) for walk in done if walk.accepted)
    assert set(counts) == set(law) == {(2,)}
    stats = done[-1].stats()
    assert abs(math.exp(stats["log_estimate"]) / mass - 1) < 4 * stats["relative_error"] + 1e-6


def test_a_temperature(small):
    law, _ = exact()
    engine, con = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model")
    done = serve(lambda seed: engine.begin(con, [], seed=seed, max_tokens=3, temperature=0.5), 3000, 8)
    counts = Counter(tuple(walk.ids) for walk in done if walk.accepted)

    def cold(ids):
        rows = [row(ids[:at]) * 2 for at in range(len(ids) + 1)]
        return math.exp(sum(float(r[id] - np.log(np.exp(r).sum())) for r, id in zip(rows, [*ids, END])))

    weights = {ids: cold(list(ids)) for ids in law}
    total = sum(weights.values())
    assert p_value(counts, {ids: weight / total for ids, weight in weights.items()}) > 0.001


def test_a_truncation_defines_the_model(small):
    """The model after it is the model: an output with a token that is cut off has probability zero."""
    engine, con = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model")
    done = serve(lambda seed: engine.begin(con, [], seed=seed, max_tokens=3, temperature=0.8, top_k=4, top_p=0.93, min_p=0.02), 4000, 8)
    counts = Counter(tuple(walk.ids) for walk in done if walk.accepted)

    def cut(ids):
        total = 0.0
        for at, id in enumerate([*ids, END]):
            p = np.exp(row(ids[:at]).astype(np.float64) / 0.8)
            kept = [i for i in np.argsort(-p, kind="stable") if p[i] >= 0.02 * p.max()][:4]
            needed = int(np.searchsorted(np.cumsum(p[kept]), 0.93 * p[kept].sum())) + 1
            kept = kept[:needed]
            if id not in kept:
                return -math.inf
            total += math.log(p[id] / p[kept].sum())
        return total

    law = {ids: math.exp(cut(ids)) for ids in exact()[0]}
    total = sum(law.values())
    law = {ids: p / total for ids, p in law.items() if p}
    assert len(law) < len(exact()[0]) and set(counts) <= set(law) and p_value(counts, law) > 0.001
    for walk in done[:50]:
        assert not walk.accepted or math.isclose(walk.log_prob, cut(walk.ids), abs_tol=1e-5)
    assert abs(done[-1].stats()["log_estimate"] - math.log(total)) < 4 * done[-1].stats()["relative_error"] + 1e-6


def test_a_context_is_another_model(small):
    """Two adapters, the same prompt: each has its own law. And weights that were replaced are forgotten, with what was under way."""
    engine, con = faithful(small), unskew.Constraint.regex("0|1")

    def shares(context, p):
        rows = [np.log(np.array([p, 1 - p, 1e-9, 1e-9, 1e-9], np.float32)), np.log(np.array([1e-9] * 3 + [1, 1e-9], np.float32))]
        zeros = 0
        for seed in range(1000):
            walk = engine.begin(con, [7], seed=seed, max_tokens=2, context=context)
            zeros += walk.at(0, rows[0]) == 0
            assert walk.at(1, rows[1]) == END
        return zeros / 1000

    assert abs(shares("a", 0.9) - 0.9) < 0.04 and abs(shares("b", 0.1) - 0.1) < 0.04
    walk = engine.begin(con, [7], seed=1, max_tokens=2, context="a")
    engine.forget("a")
    assert walk.at(0) == REJECT and "replaced" in walk.error and engine.states == 1
    assert abs(shares("a", 0.1) - 0.1) < 0.04


def test_a_walk_that_was_not_there_is_rejected(small):
    walk = faithful(small).begin(unskew.Constraint.regex(PATTERN).with_end("model"), [], seed=1, max_tokens=3)
    assert walk.at(2, row([])) == REJECT and "position 2" in walk.error


def test_rows_are_longer_than_the_tokenizer_or_shorter(small):
    con = unskew.Constraint.regex(PATTERN).with_end("model")
    wide = np.concatenate([row([]), np.zeros(3, np.float32)])[None]
    walk = faithful(small).begin(con, [], seed=1, max_tokens=3)
    assert unskew.step_walks([walk], [0], wide)[0] in (0, 1, 2)
    # The last id has no row: it cannot mark rejections.
    with pytest.raises(unskew.OptionError, match="reject_id"):
        unskew.Faithful(unskew.Compiler(small), reject_id=REJECT, row_len=4)
    engine = unskew.Faithful(unskew.Compiler(small), reject_id=1, row_len=4)
    walk = engine.begin(unskew.Constraint.regex("0"), [], seed=1, max_tokens=3)
    assert unskew.step_walks([walk], [0], np.array([[9, 9, 9, 9]] * 2, np.float32), [1]) == [0]


def test_findings_of_replicas_are_put_together(small):
    _, mass = exact()
    each = [walks(small, "weights", 3000, 8, seed=seed)[-1].stats() for seed in (1, 2)]
    both = unskew.merge_stats([*each, None])
    assert both["tries"] == 6000 and both["relative_error"] < min(part["relative_error"] for part in each)
    assert abs(math.exp(both["log_estimate"]) / mass - 1) < 4 * both["relative_error"]
    assert unskew.merge_stats([None]) is None and unskew.merge_stats(each[:1]) == each[0]


def test_masses_of_masks_are_told(small):
    for mode in ("weights", "cars"):
        for walk in walks(small, mode, 50, 4):
            if walk.accepted:
                assert len(walk.log_masks) == len(walk.ids) + 1
                expected = []
                for at in range(len(walk.ids) + 1):
                    text = b"".join(TOKENS[id] for id in walk.ids[:at]).decode()
                    allowed = [id for id in range(3) if at < 3 and any(re.fullmatch(PATTERN, text + TOKENS[id].decode() + rest) for rest in ("", "0", "1", "11", "01"))]
                    allowed += [END] if re.fullmatch(PATTERN, text) else []
                    expected.append(math.log(sum(math.exp(row(walk.ids[:at])[id]) for id in allowed)))
                assert np.allclose(walk.log_masks, expected, atol=1e-4)
                if mode == "weights":
                    assert math.isclose(sum(walk.log_masks), walk.log_weight, abs_tol=1e-5)


def test_seeds_repeat(small):
    def outputs():
        return [(walk.ids, walk.log_prob) for walk in walks(small, "cars", 200, 8, seed=3)]

    assert outputs() == outputs()


def test_what_is_refused(small, tok):
    con = unskew.Constraint.regex(PATTERN).with_end("model")
    engine = faithful(small)
    for options, message in [
        ({"mode": "fair"}, "no mode `fair`"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"max_tokens": 1 << 40}, "max_tokens"),
        ({"top_p": 1.5}, "top-p"),
        ({"top_k": 0}, "top-k"),
        ({"min_p": -1.0}, "min-p"),
        ({"top": 1}, "no option `top`"),
    ]:
        with pytest.raises(unskew.OptionError, match=message):
            engine.begin(con, [], **{"seed": 1, "max_tokens": 3, **options})
    with pytest.raises(unskew.ConstraintError):
        engine.begin(unskew.Constraint.regex("("), [], seed=1, max_tokens=3)
    compiler = unskew.Compiler(small)
    for options, message in [({"end_id": 1}, "end_id"), ({"reject_id": END}, "reject_id"), ({"reject_id": 99}, "reject_id")]:
        with pytest.raises(unskew.OptionError, match=message):
            unskew.Faithful(compiler, **options)
    with pytest.raises(unskew.OptionError, match="no id is free"):
        unskew.Faithful(unskew.Compiler(unskew.Tokenizer.from_vocabulary([b"0", "<end>"], eos=[1])))
    # A byte that is in no text marks rejections.
    assert tok.decode_bytes([unskew.Faithful(unskew.Compiler(tok)).reject_id]) == b"\xff"
    walk = engine.begin(con, [], seed=1, max_tokens=3)
    for rows in (np.zeros(4, np.float32), np.zeros((1, 4), np.float32), 3):
        with pytest.raises((unskew.SampleError, TypeError)):
            walk.at(0, rows)
    assert unskew.step_walks([], [], np.zeros((0, 5), np.float32)) == []
    assert walk.accepted is None and walk.at(0) is None and walk.at(0, row([])) in (0, 1, 2)
    with pytest.raises(RuntimeError):
        unskew.step_walks([walk, walk], [0, 0], np.zeros((2, 5), np.float32))
    for positions, rows in (([0], [1]), ([0, 0], [0]), ([], [])):
        with pytest.raises(unskew.SampleError):
            unskew.step_walks([walk], positions, np.zeros((1, 5), np.float32), rows)


def test_rows_that_are_no_distribution_end_one_walk(small):
    engine, con = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model")
    for bad, message in [(np.full(5, np.nan), "not a distribution"), (np.full(5, -np.inf), "not a distribution")]:
        walk = engine.begin(con, [], seed=1, max_tokens=3)
        assert walk.at(0, bad.astype(np.float32)) == REJECT
        assert walk.accepted is False and message in walk.error and walk.ids is None
    never = np.full(5, -np.inf, np.float32)
    never[END] = 0
    walk = engine.begin(con, [1], seed=1, max_tokens=3)
    assert walk.at(0, never) == REJECT and "probability zero" in walk.error
    assert engine.begin(con, [], seed=1, max_tokens=3).at(0, row([])) in (0, 1, 2)


def test_an_id_that_marks_rejections_and_is_needed(small):
    engine = unskew.Faithful(unskew.Compiler(small), reject_id=1)
    walk = engine.begin(unskew.Constraint.regex("11"), [], seed=1, max_tokens=3)
    assert walk.at(0, row([])) == 1 and walk.accepted is False and "`reject_id`" in walk.error


def test_memory_is_bounded():
    """Random prompts, random outputs: states are forgotten, and walks under way go on."""
    rng = np.random.default_rng(1)
    letters = unskew.Tokenizer.from_vocabulary([bytes([97 + i]) for i in range(26)] + ["<end>", "<no>"], eos=[26])
    limit = 300_000
    engine = unskew.Faithful(unskew.Compiler(letters), max_bytes=limit, state_bytes=100_000)
    con, held, most, refused = unskew.Constraint.regex("[a-z]{12}"), [], 0, 0
    for at in range(3000):
        try:
            walk = engine.begin(con, [at % 40], seed=at, max_tokens=12)
        except unskew.SampleError:
            refused += 1
            held.pop(0)
            continue
        for position in range(at % 13):
            walk.at(position, rng.normal(size=28).astype(np.float32))
        held.append(walk)
        if len(held) > 10:
            held.pop(0)
        most = max(most, engine.bytes)
    assert 100_000 < most < 1.5 * limit and refused < 100, (most, refused)


def test_threads_share_it(small):
    law, _ = exact()
    engine, con, counts = faithful(small), unskew.Constraint.regex(PATTERN).with_end("model"), [Counter() for _ in range(8)]

    def work(mine, seed):
        begin = lambda seed: engine.begin(con, [seed % 3], seed=seed, max_tokens=3)
        mine.update(tuple(walk.ids) for walk in serve(begin, 400, 8, seed=seed) if walk.accepted)

    threads = [threading.Thread(target=work, args=(mine, at)) for at, mine in enumerate(counts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert p_value(sum(counts, Counter()), law) > 0.001
