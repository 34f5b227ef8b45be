"""Exact laws of small tasks by going through all of their outputs, and the chi-square test against them."""

import math
from collections import Counter

import numpy as np

import unskew


def exact(rows, tokenizer, constraint, prompt, most, least=1e-12):
    """The model's probability of every allowed sequence of ids with at most `most` ids, and their sum.

    `rows` is the model as a function. Prefixes of a probability below `least` are left out.
    """
    start = unskew.Matcher(unskew.Compiler(tokenizer).compile(constraint))
    mask = np.zeros((1, tokenizer.mask_words), np.int32)
    (end,) = tokenizer.eos
    outputs, level = {}, [((), start, 0.0)]
    for depth in range(most + 1):
        following = []
        for first in range(0, len(level), 256):
            part = level[first : first + 256]
            logits = np.asarray(rows([[*prompt, *ids] for ids, _, _ in part]), np.float64)
            logits -= logits.max(axis=1, keepdims=True)
            logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
            for (ids, matcher, log_prob), log in zip(part, logs):
                if matcher.is_accepting():
                    outputs[ids] = math.exp(log_prob + log[end])
                if depth == most:
                    continue
                matcher.fill(mask)
                bits = np.unpackbits(mask[0].view(np.uint8), bitorder="little")[: log.shape[0]]
                bits[end] = 0
                for id in np.flatnonzero(bits & (log_prob + log > math.log(least))).tolist():
                    next = matcher.fork()
                    assert next.accept(id)
                    following.append(((*ids, id), next, log_prob + log[id]))
        level = following
        if not level:
            break
    return outputs, sum(outputs.values())


def exact_freely(log_probs, texts, tokenizer):
    """The law of outputs that end where the model's text leaves a list of texts, by reading bytes: the probability of each, that of an output,
    and a bound on the share of prefixes that were left out as too improbable. `log_probs` gives the rows after sequences of one length."""
    texts = [text.encode() for text in texts]
    begun = {text[:length] for text in texts for length in range(len(text) + 1)}
    words = [tokenizer.decode_bytes([id]) for id in range(tokenizer.vocab_size)]

    def is_word(text):
        # The texts here are ASCII; a part of another character counts as a letter.
        return text[:1].isalnum() or text[:1] == b"_" or text[0] >= 0x80

    def law(least, most):
        outputs, left_out, layer = Counter(), 0.0, [((), b"", 0.0)]
        while layer:
            layer, gone = deeper(outputs, layer, least, most)
            left_out += gone
        return outputs, sum(outputs.values()), left_out

    def deeper(outputs, layer, least, most):
        rows, longest, left_out = log_probs([list(ids) for ids, _, _ in layer]), [], 0.0
        for (ids, text, log_p), row in zip(layer, rows):
            # Tokens that are left out here have 1e-6 of the mass of a prefix together, at most.
            for id, more in ((id, row[id]) for id in np.flatnonzero(row > math.log(1e-6 / len(row)))):
                word = words[id] if id < len(words) else b""
                longer = text + word
                if word and longer in begun:
                    if math.exp(log_p + more) >= least:
                        longest.append(((*ids, int(id)), longer, log_p + more))
                    else:
                        left_out += math.exp(log_p + more)
                    continue
                # A token without text leaves at once.
                place = max(at for at in range(len(text), len(longer) + (not word)) if longer[:at] in begun)
                cuts = len(text) < place < len(longer) and is_word(longer[place - 1 : place]) and is_word(longer[place : place + 1])
                if longer[:place] in texts and not cuts:
                    outputs[longer[:place].decode()] += math.exp(log_p + more)
        return sorted(longest, key=lambda entry: -entry[2])[:most], left_out

    _, about, _ = law(0.0, 200)
    outputs, total, left_out = law(1e-5 * about, None)
    return {text: p / total for text, p in outputs.items()}, total, left_out / total


def p_value(counts, law, n):
    """The probability that a chi-square statistic is as great, cells with few expected outputs put together."""
    total = sum(law.values())
    cells, rest = [], [0, 0.0]
    for output, p in law.items():
        mean = n * p / total
        if mean < 5:
            rest = [rest[0] + counts.get(output, 0), rest[1] + mean]
        else:
            cells.append((counts.get(output, 0), mean))
    assert set(counts) <= set(law), "an output that the constraint does not allow, or that the model gives no probability"
    if rest[1] >= 5:
        cells.append(rest)
    elif cells:
        seen, mean = cells.pop()
        cells.append((seen + rest[0], mean + rest[1]))
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    return upper_gamma((len(cells) - 1) / 2, statistic / 2) if len(cells) > 1 else 1.0


def upper_gamma(a, x):
    """The regularised upper incomplete gamma function Q(a, x)."""
    if x <= 0:
        return 1.0
    front = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        at = a
        while abs(term) > 1e-16 * abs(total):
            at += 1
            term *= x / at
            total += term
        return 1 - front * total
    # Lentz's continued fraction.
    b = x + 1 - a
    c, d = 1e300, 1 / b
    value = d
    for at in range(1, 10_000):
        factor = -at * (at - a)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return front * value
