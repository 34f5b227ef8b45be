"""Outputs of a model that is a Python function: their law, by chi-square, and errors."""

import math
import os
import signal
import threading
import time
from collections import Counter

import numpy as np
import pytest

import unskew

TOKENS = [b"0", b"1", b"01", "<end>"]
PATTERN = "[01][01]1?"


@pytest.fixture(scope="module")
def small():
    return unskew.Tokenizer.from_vocabulary(TOKENS, eos=[3])


def row(ids):
    """A model that likes to begin with `0`, and rarely goes on as the constraint demands."""
    probabilities = [0.55, 0.25, 0.05, 0.15] if not ids else [0.1, 0.2, 0.1, 0.6]
    if ids and ids[-1] == 0:
        probabilities = [0.05, 0.03, 0.02, 0.9]
    return np.log(np.array(probabilities, np.float32))


def model(batch):
    return np.stack([row(ids) for ids in batch])


def probability(ids):
    return math.exp(sum(float(row(ids[:at])[id]) for at, id in enumerate([*ids, 3])))


def exact():
    """The probability of each output given the constraint, by going through all of them."""
    import re

    outputs, stack = {}, [()]
    while stack:
        ids = stack.pop()
        text = b"".join(TOKENS[id] for id in ids).decode()
        if len(text) > 3:
            continue
        if re.fullmatch(PATTERN, text):
            outputs[ids] = probability(list(ids))
        stack.extend((*ids, id) for id in range(3))
    total = sum(outputs.values())
    return {ids: p / total for ids, p in outputs.items()}, total


def chi_square(counts, law, n):
    """The statistic with its degrees of freedom, cells with few expected outputs put together."""
    cells, rest_seen, rest_expected = [], 0.0, 0.0
    for ids, p in law.items():
        if n * p < 5:
            rest_seen, rest_expected = rest_seen + counts[ids], rest_expected + n * p
        else:
            cells.append((counts[ids], n * p))
    if rest_expected >= 1:
        cells.append((rest_seen, rest_expected))
    return sum((seen - mean) ** 2 / mean for seen, mean in cells), len(cells) - 1


@pytest.mark.parametrize("sampler", ["rejection", "ars", "cars", "rsft", "disc", "disc:k=1000,form=published", "auto"])
def test_exact_samplers_follow_the_exact_law(small, sampler):
    law, _ = exact()
    n = 4000
    con = unskew.Constraint.regex(PATTERN).with_end("model")
    counts = Counter()
    for draw in unskew.sample(model, con, small, n=n, sampler=sampler, seed=7):
        ids = tuple(draw.ids)
        counts[ids] += 1
        assert draw.log_weight == 0.0 and draw.finish == "stop"
        assert draw.text == b"".join(TOKENS[id] for id in ids).decode()
        assert math.isclose(draw.log_prob, math.log(probability(list(ids))), abs_tol=1e-5)
    assert sum(counts.values()) == n and set(counts) <= set(law)
    statistic, freedom = chi_square(counts, law, n)
    # Beyond six standard deviations of a chi-square: p < 1e-6 by far.
    assert statistic < freedom + 6 * math.sqrt(2 * freedom), (statistic, freedom)


@pytest.mark.parametrize("sampler", ["masked", "awrs", "smc:n=8"])
def test_weighted_samplers_follow_it_by_their_weights(small, sampler):
    law, mass = exact()
    n = 6000
    con = unskew.Constraint.regex(PATTERN).with_end("model")
    shares, weights = Counter(), []
    for draw in unskew.sample(model, con, small, n=n, sampler=sampler, seed=11):
        weight = math.exp(draw.log_weight)
        weights.append(weight)
        shares[tuple(draw.ids)] += weight
    assert len(weights) == n
    total = sum(weights)
    for ids, p in law.items():
        assert abs(shares[ids] / total - p) < 0.05, (ids, shares[ids] / total, p)
    if sampler == "masked":
        # The mean weight is the probability of the constraint.
        mean, deviation = np.mean(weights), np.std(weights) / math.sqrt(n)
        assert abs(mean - mass) < 5 * deviation


def other(batch):
    """A draft model that is wrong in every row."""
    return np.tile(np.log(np.array([0.3, 0.3, 0.1, 0.3], np.float32)), (len(batch), 1))


@pytest.mark.parametrize("draft", ["ngram", "counts", other])
@pytest.mark.parametrize("sampler", ["cars", "rejection", "ars", "disc"])
def test_drafts_change_no_law(small, sampler, draft):
    law, _ = exact()
    n, tested, accepted, counts = 3000, 0, 0, Counter()
    con = unskew.Constraint.lark('start: d d "1"?\nd: "0" | "1"') if draft == "counts" else unskew.Constraint.regex(PATTERN)
    con = con.with_end("model")
    for draw in unskew.sample(model, con, small, n=n, sampler=sampler, seed=5, draft=draft):
        counts[tuple(draw.ids)] += 1
        tested, accepted = tested + draw.drafts_tested, accepted + draw.drafts_accepted
    assert sum(counts.values()) == n and set(counts) <= set(law)
    statistic, freedom = chi_square(counts, law, n)
    assert statistic < freedom + 6 * math.sqrt(2 * freedom), (statistic, freedom)
    # The samplers that learn have no use for drafts once they know the prefixes.
    assert accepted <= tested and (tested > 0 or sampler in ("cars", "disc")), (tested, accepted)


@pytest.mark.parametrize("draft", ["ngram", other])
def test_speculative_sampling_has_the_law_of_masking(small, draft):
    """The outputs of a draft that is verified are those of masking, and the mean of their weights is P(constraint)."""
    law, mass = exact()
    n, weights, shares = 6000, [], Counter()
    for draw in unskew.sample(model, unskew.Constraint.regex(PATTERN).with_end("model"), small, n=n, sampler="speculative", seed=9, draft=draft):
        weights.append(math.exp(draw.log_weight))
        shares[tuple(draw.ids)] += weights[-1]
    for ids, p in law.items():
        assert abs(shares[ids] / sum(weights) - p) < 0.05, (ids, p)
    assert abs(np.mean(weights) - mass) < 5 * np.std(weights) / math.sqrt(n)
    [draw] = unskew.sample(model, unskew.Constraint.regex(PATTERN).with_end("model"), small, n=1, sampler="mentored:kl=0.5", seed=9, draft=draft)
    assert draw.ids


def test_masking_has_another_law(small):
    """A test of the test: the outputs of masking are far from the law."""
    law, _ = exact()
    counts = Counter()
    for draw in unskew.sample(model, unskew.Constraint.regex(PATTERN).with_end("model"), small, n=4000, sampler="masked", seed=7):
        counts[tuple(draw.ids)] += 1
    statistic, freedom = chi_square(counts, law, 4000)
    assert statistic > freedom + 20 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("sampler", [method["name"] for method in unskew.methods() if method["name"] not in ("speculative", "mentored")])
def test_every_sampler_gives_outputs_and_repeats_them(small, sampler):
    con = unskew.Constraint.regex(PATTERN).with_end("model")

    def outputs():
        draws = unskew.sample(model, con, small, n=5, sampler=sampler, seed=3)
        assert draws.seed == 3 and draws.explain.startswith(draws.sampler)
        return [(draw.ids, draw.log_prob, draw.log_weight, draw.origin) for draw in draws]

    assert outputs() == outputs() != []


def test_answers_of_a_model_of_every_form(small):
    con = unskew.Constraint.regex(PATTERN).with_end("model")

    def ids(answer):
        return [draw.ids for draw in unskew.sample(answer, con, small, n=20, sampler="cars", seed=5)]

    expected = ids(model)
    assert ids(lambda batch: model(batch).tolist()) == expected
    assert ids(lambda batch: list(model(batch))) == expected
    assert ids(lambda batch: tuple(tuple(row) for row in model(batch).tolist())) == expected
    assert ids(lambda batch: np.asfortranarray(model(batch)).copy()) == expected
    assert ids(lambda batch: model(batch).astype(np.float64)) == expected


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda batch: np.zeros((len(batch), 5), np.float32), "shape"),
        (lambda batch: np.zeros((len(batch) + 1, 4), np.float32), "shape"),
        (lambda batch: np.zeros(4 * len(batch) + 4, np.float32), "shape"),
        (lambda batch: np.zeros((len(batch), 4), np.int32), "float32 or float64"),
        (lambda batch: [], "shape"),
        (lambda batch: [[0.0] * 3] * len(batch), "shape"),
        (lambda batch: np.full((len(batch), 4), np.nan, np.float32), "NaN"),
        (lambda batch: np.full((len(batch), 4), -np.inf, np.float32), "no finite value"),
    ],
)
def test_answers_that_are_none(small, answer, message):
    draws = unskew.sample(answer, unskew.Constraint.regex(PATTERN).with_end("model"), small, n=5, sampler="cars", seed=1)
    with pytest.raises(unskew.SampleError, match=message):
        list(draws)
    assert list(draws) == []


def test_an_exception_of_the_model_comes_out_as_it_is(small):
    class Own(Exception):
        pass

    error, calls = Own("no"), []

    def failing(batch):
        calls.append(len(batch))
        if len(calls) > 3:
            raise error
        return model(batch)

    draws = unskew.sample(failing, unskew.Constraint.regex("[01]{12}"), small, n=5, sampler="masked", seed=1)
    with pytest.raises(Own) as caught:
        list(draws)
    assert caught.value is error and list(draws) == []
    for answer in (lambda batch: None, lambda batch: object(), lambda batch: [[object()] * 4]):
        with pytest.raises(TypeError):
            list(unskew.sample(answer, None, small, n=1))


def test_options_that_are_refused(small):
    con = unskew.Constraint.regex(PATTERN).with_end("model")
    for options, message in [
        ({"sampler": "fair"}, "there is no sampler `fair`"),
        ({"sampler": "cars:n=3"}, "cars has no parameter `n`"),
        ({"sampler": "speculative"}, "draft"),
        ({"sampler": "cars", "draft": "guess"}, "`draft` is"),
        ({"sampler": "greedy", "draft": "ngram"}, "draft"),
        ({"batch": 0}, "`batch` is 0"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 2.0}, "top-p"),
        ({"top_k": 0}, "top-k"),
        ({"prompt": [9]}, "beyond the vocabulary"),
    ]:
        with pytest.raises(unskew.OptionError, match=message):
            unskew.sample(model, con, small, n=1, **options)
    with pytest.raises(unskew.ConstraintError):
        unskew.sample(model, unskew.Constraint.regex("("), small)
    with pytest.raises(unskew.TokenizerError):
        unskew.sample(model, con, small, prompt="x")
    with pytest.raises(TypeError, match="no function"):
        unskew.sample(3, con, small)
    with pytest.raises(TypeError):
        unskew.sample(model, "[01]", small)


@pytest.mark.parametrize("option", ["n", "seed", "max_tokens", "top_k", "batch"])
def test_numbers_below_zero_are_refused_by_name(small, option):
    for number in (-1, 2**64):
        with pytest.raises(unskew.OptionError, match=f"`{option}` is {number}: give"):
            unskew.sample(model, unskew.Constraint.regex("0"), small, **{option: number})
        with pytest.raises(unskew.OptionError, match=f"`{option}` is {number}: give"):
            unskew.audit(model, unskew.Constraint.regex("0"), small, **{option: number})


def test_prompts_are_in_front(small):
    seen = []

    def watching(batch):
        seen.extend(batch)
        return model(batch)

    for prompt in ("01", [0, 1], [2]):
        seen.clear()
        draw = next(unskew.sample(watching, unskew.Constraint.regex("1"), small, prompt=prompt, sampler="masked", seed=1))
        ids = small.encode(prompt) if isinstance(prompt, str) else prompt
        assert draw.text == "1" and all(sequence[: len(ids)] == ids for sequence in seen)


def test_outputs_come_as_they_are_drawn(small):
    """The model is called between outputs, on the thread of the caller, and no more once nobody asks."""
    threads, calls = set(), []

    def watching(batch):
        threads.add(threading.get_ident())
        calls.append(len(batch))
        return model(batch)

    # Outputs so long that no row of one is known from another.
    con = unskew.Constraint.regex("[01]{30}")
    draws = unskew.sample(watching, con, small, sampler="masked", seed=1, batch=1)
    first = next(draws)
    after_one = len(calls)
    list(zip(range(10), draws))
    assert first.text and 0 < after_one < len(calls) and threads == {threading.get_ident()}
    other = []
    thread = threading.Thread(target=lambda: other.append(next(draws)))
    thread.start()
    thread.join()
    assert len(other) == 1 and len(threads) == 2
    draws.close()
    rest = len(calls)
    time.sleep(0.05)
    assert list(draws) == [] and len(calls) == rest


def test_a_hundred_abandoned_samplers_leave_no_threads(small):
    def sampling_threads():
        tasks = "/proc/self/task"
        if not os.path.isdir(tasks):
            pytest.skip("threads are counted by /proc")
        return len(os.listdir(tasks))

    before = sampling_threads()
    for seed in range(100):
        next(unskew.sample(model, unskew.Constraint.regex(PATTERN).with_end("model"), small, sampler="cars", seed=seed))
    for _ in range(100):
        if sampling_threads() <= before + 2:
            break
        time.sleep(0.05)
    assert sampling_threads() <= before + 2


def test_the_model_may_not_ask_for_the_next_output(small):
    def nested(batch):
        next(draws)
        return model(batch)

    draws = unskew.sample(nested, unskew.Constraint.regex(PATTERN).with_end("model"), small, seed=1)
    with pytest.raises(RuntimeError, match="borrowed"):
        next(draws)


def test_a_sampler_that_finds_nothing_says_so(small):
    def never(batch):
        rows = np.full((len(batch), 4), -50.0, np.float32)
        rows[:, 0] = 0.0
        return rows

    con = unskew.Constraint.regex("1")
    with pytest.raises(unskew.SampleError, match="tries"):
        list(unskew.sample(never, con, small, n=1, sampler="rejection:tries=20", seed=1))


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs an alarm")
def test_a_signal_ends_the_wait(small):
    """A sampler that works for long without the model ends when a signal raises."""

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    def never(batch):
        rows = np.full((len(batch), 4), -80.0, np.float32)
        rows[:, 0] = 0.0
        return rows

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Alarm):
            list(unskew.sample(never, unskew.Constraint.regex("1"), small, n=1, sampler="rejection:tries=10000000"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork(small):
    con = unskew.Constraint.regex(PATTERN).with_end("model")
    draws = unskew.sample(model, con, small, seed=1)
    next(draws)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                next(draws)
            except unskew.SampleError:
                # A new one works.
                code = 0 if next(unskew.sample(model, con, small, seed=1)).text else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(draws).text
