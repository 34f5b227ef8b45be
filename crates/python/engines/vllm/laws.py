"""Exact laws of outputs under a constraint, by scoring every output; and the tests that compare counts with them."""

import copy
import math
from collections import Counter

import numpy as np
import torch

import unskew
from law import upper_gamma

#: A prefix that is less probable than this part of the constraint's probability is left out.
PRUNE = 1e-5

#: The prefixes of a length that the first round keeps, which finds about that probability.
FIRST = 200

#: The most prefixes of one pass.
BATCH = 256


class Model:
    """The checkpoint in 32 bits, by transformers; after temperature and top-p, where a request has them."""

    def __init__(self, folder, temperature=1.0, top_p=1.0):
        from transformers import AutoModelForCausalLM

        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.temperature, self.top_p = temperature, top_p
        #: What the model keeps of the last prompt: the prompt, its cache, and the row after it.
        self.kept = (None, None, None)

    @torch.no_grad()
    def log_probs(self, sequences):
        """The row after each sequence; all of one length."""
        batches = [torch.tensor(sequences[at : at + BATCH]) for at in range(0, len(sequences), BATCH)]
        return np.concatenate([self._rows(self.model(ids, logits_to_keep=1).logits) for ids in batches])

    @torch.no_grad()
    def log_probs_after(self, prompt, sequences):
        """The row after the prompt and each sequence; all of one length."""
        if self.kept[0] != list(prompt):
            read = self.model(torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
            self.kept = (list(prompt), read.past_key_values, self._rows(read.logits))
        _, cache, row = self.kept
        if not sequences[0]:
            return np.repeat(row, len(sequences), 0)
        rows = []
        for at in range(0, len(sequences), BATCH):
            ids, own = torch.tensor(sequences[at : at + BATCH]), copy.deepcopy(cache)
            own.batch_repeat_interleave(len(ids))
            rows.append(self._rows(self.model(ids, past_key_values=own, logits_to_keep=1).logits))
        return np.concatenate(rows)

    def _rows(self, logits):
        return torch.log_softmax(warped(logits[:, -1], self.temperature, self.top_p).double(), -1).numpy()


def warped(logits, temperature, top_p):
    """Rows as vLLM's sampler leaves them (`apply_top_k_top_p_pytorch`): the temperature first, then the fewest tokens whose probabilities
    sum up to `top_p`; those before them in ascending order, while the sum is at most 1 - top_p, are left out."""
    logits = logits / temperature
    if top_p < 1:
        ascending, ids = logits.sort(dim=-1)
        left_out = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
        left_out[:, -1] = False
        logits = logits.scatter(-1, ids, ascending.masked_fill(left_out, float("-inf")))
    return logits


def exact(model, compiled, tokenizer, prompt, end, max_tokens, prune=PRUNE, first=FIRST):
    """The probability of each text under the constraint, and that of the constraint: over all of a text's spellings, but for prefixes
    that are too improbable to matter; and a bound on the share of those, by their own probabilities. `end` is the id that ends an
    output, or all of them. `prune` and `first` stand for `PRUNE` and `FIRST` with a larger model."""
    end = (end,) if isinstance(end, int) else tuple(end)
    _, about, _ = _law(model, compiled, tokenizer, prompt, end, max_tokens, 0.0, first)
    if about == 0.0:
        # Truncation has left nothing of the constraint.
        return {}, 0.0, 0.0
    texts, total, left_out = _law(model, compiled, tokenizer, prompt, end, max_tokens, prune * about, None)
    return {text: p / total for text, p in texts.items()}, total, left_out / total


def _law(model, compiled, tokenizer, prompt, end, max_tokens, least, most):
    texts, total, left_out = Counter(), 0.0, 0.0
    words = tokenizer.mask_words
    layer = [((), 0.0, unskew.Matcher(compiled, stop_ids=list(end)))]
    # Length by length, so that each pass has sequences of one length.
    for depth in range(max_tokens + 1):
        if not layer:
            break
        rows = model.log_probs_after(prompt, [ids for ids, _, _ in layer])
        deeper = []
        for (ids, log_p, matcher), row in zip(layer, rows):
            mask = np.zeros((1, words), np.uint32)
            matcher.fill(mask, 0)
            for id in np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(row)]):
                p = log_p + row[id]
                if p == -math.inf:
                    # Truncated.
                    continue
                if id in end:
                    texts[tokenizer.decode(list(ids))] += math.exp(p)
                    total += math.exp(p)
                elif depth < max_tokens and math.exp(p) >= least:
                    deeper.append((p, ids, int(id), matcher))
                elif depth < max_tokens:
                    left_out += math.exp(p)
        deeper.sort(key=lambda entry: -entry[0])
        layer = []
        for p, ids, id, matcher in deeper[:most]:
            fork = matcher.fork()
            assert fork.accept(id)
            layer.append(((*ids, id), p, fork))
    return texts, total, left_out


def p_value(counts, law):
    """Of chi-square, with cells of few expected outputs put together, and outputs that the law leaves out among them."""
    n = sum(counts.values())
    cells, rest = [], [0.0, 0.0]
    for text, p in law.items():
        if n * p < 5:
            rest = [rest[0] + counts[text], rest[1] + n * p]
        else:
            cells.append((counts[text], n * p))
    # Outputs that were left out of the law are counted, and expected hardly ever.
    rest[0] += sum(count for text, count in counts.items() if text not in law)
    if rest[1] >= 5 or not cells:
        cells.append(tuple(rest))
    elif rest[0] or rest[1]:
        least = min(range(len(cells)), key=lambda at: cells[at][1])
        cells[least] = (cells[least][0] + rest[0], cells[least][1] + rest[1])
    statistic = sum((seen - mean) ** 2 / mean for seen, mean in cells)
    return upper_gamma((len(cells) - 1) / 2, statistic / 2) if len(cells) > 1 else 1.0
