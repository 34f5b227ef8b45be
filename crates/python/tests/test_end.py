"""Who ends an output: laws by reading all that a model can write, byte by byte."""

import math
from collections import Counter

import numpy as np
import pytest

import unskew
from law import p_value

TOKENS = ["a", "b", "1", " ", "!", "ab", "a!", "a b", "1 ", "1a", "!a", "b!!", "}", "}\n", "<end>", "<reject>"]
END, REJECT = 14, 15


@pytest.fixture(scope="module")
def tokens():
    return unskew.Tokenizer.from_vocabulary([token.encode() if token[0] != "<" else token for token in TOKENS], eos=[END])


def probabilities(ids):
    """A model that rarely ends."""
    dice = np.random.default_rng([7, *ids[-2:]])
    weights = dice.integers(0, 6, len(TOKENS)).astype(float) ** 2
    weights[END], weights[REJECT] = 0.1, 0.0
    return weights / weights.sum()


def row(ids):
    with np.errstate(divide="ignore"):
        return np.log(probabilities(ids)).astype(np.float32)


def law(choices):
    """The probability of each output, given that there is one, and that of an output."""
    outputs, open_ = Counter(), [((), "", 1.0)]
    while open_:
        ids, text, p = open_.pop()
        for id, q in enumerate(probabilities(ids)):
            if q == 0:
                continue
            longer = text + (TOKENS[id] if id < END else "\0")
            if any(choice.startswith(longer) for choice in choices):
                open_.append(((*ids, id), longer, p * q))
                continue
            place = max(at for at in range(len(longer)) if any(choice.startswith(longer[:at]) for choice in choices))
            cuts = place > len(text) and longer[place - 1].isalnum() and longer[place].isalnum()
            if longer[:place] in choices and not cuts:
                outputs[longer[:place]] += p * q
    mass = sum(outputs.values())
    return {text: p / mass for text, p in outputs.items()}, mass


CHOICES = [["a", "b", "1"], ["a", "ab", "a b", "1"], ["a}", "1}", "b 1}"], ["!", "!!", "1 a"]]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("sampler", ["cars", "disc", "rejection"])
def test_samples(tokens, choices, sampler):
    con, (exact, mass) = unskew.Constraint.choice(choices), law(choices)
    draws = unskew.sample(lambda batch: np.stack([row(ids) for ids in batch]), con, tokens, n=2000, sampler=sampler, seed=1, end="free")
    assert "where the model's text leaves the constraint" in draws.explain
    texts = Counter(draw.text for draw in draws)
    assert set(texts) <= set(exact) and p_value(texts, exact, 2000) > 0.001
    assert abs(math.exp(draws.log_mass) - mass) < 0.1 * mass


@pytest.mark.parametrize("choices", CHOICES)
def test_walks(tokens, choices):
    """An engine's sequences end after the output, whatever has passed its end."""
    con, (exact, mass) = unskew.Constraint.choice(choices).with_end("free"), law(choices)
    engine, texts, last = unskew.Faithful(unskew.Compiler(tokens), reject_id=REJECT), Counter(), None
    for seed in range(3000):
        walk, ids = engine.begin(con, [3], seed=seed, max_tokens=8), []
        while not ids or ids[-1] not in (END, REJECT):
            ids.append(walk.at(len(ids), row(ids)))
        if walk.accepted:
            assert walk.ids == ids[:-1] and walk.log_prob <= 1e-6
            texts["".join(TOKENS[id] for id in walk.ids)] += 1
        last = walk
    count = sum(texts.values())
    assert count > 2500 and set(texts) <= set(exact) and p_value(texts, exact, count) > 0.001
    stats = last.stats()
    assert abs(math.exp(stats["log_estimate"]) - mass) < 4 * stats["relative_error"] * mass + 1e-6


def test_it_is_a_part_of_the_constraint(tokens):
    con = unskew.Constraint.choice(["a", "b"])
    free = con.with_end("free")
    assert free.to_json() == '{"choices":["a","b"],"end":"free"}' and unskew.Constraint.from_json(free.to_json()) == free != con
    assert unskew.Constraint.of_request({"choices": ["a"], "end": "free"}).to_json() == '{"choices":["a"],"end":"free"}'
    for wrong in ("Free", "", "never"):
        with pytest.raises(unskew.OptionError, match="where the text leaves the constraint"):
            con.with_end(wrong)
    with pytest.raises(unskew.ConstraintError, match="`free`"):
        unskew.Constraint.from_json('{"choices": ["a"], "end": "x"}')
    # Masks are the same, and compiled once.
    compiler = unskew.Compiler(tokens)
    masks = [np.zeros((1, tokens.mask_words), np.int32) for _ in range(2)]
    for each, mask in zip((con, free), masks):
        unskew.Matcher(compiler.compile(each)).fill(mask)
    assert (masks[0] == masks[1]).all() and compiler.stats()["entries"] == 1
    with pytest.raises(unskew.Error, match="whole outputs"):
        compiler.compile(unskew.Constraint.any_of([con, free]))
    assert unskew.Constraint.regex("a").with_end("free").explain()[-1]["construct"] == "end free"
