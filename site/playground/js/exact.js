// The exact probabilities of a list of outputs under a model, given that the model's text is one of them, by the law of `end: "free"`
// (docs/ends.md): the text is read as long as some output begins with it; the byte that goes on with none ends it; a token may pass the
// end, unless it cuts a word.
//
// All spellings of the outputs are walked, the most probable prefix first. A prefix that is not walked yet has at most its own
// probability to give, so the sum over those is a bound on what is missing, and the walk ends where it is small. Tried instead: the
// tokenizer's own spelling of each output alone, which misses the others and tokens that pass the end.

/** The outputs as a tree of bytes. `choice` is the output that ends at a node, or -1. */
function tree(choices) {
  const root = { choice: -1, next: new Map() };
  const encoder = new TextEncoder();
  choices.forEach((text, choice) => {
    let node = root;
    for (const byte of encoder.encode(text)) {
      if (!node.next.has(byte)) node.next.set(byte, { choice: -1, next: new Map() });
      node = node.next.get(byte);
    }
    node.choice = choice;
  });
  return root;
}

const WORD = /[\p{Alphabetic}\p{N}_]/u;

/** Whether a word goes on from the last character of `before` to the first of `after`; what is no whole character counts as a letter. */
function cuts(before, after) {
  const decoder = new TextDecoder();
  const last = [...decoder.decode(before)].at(-1);
  const [first] = [...decoder.decode(after)];
  const word = (character) => character === "\ufffd" || WORD.test(character);
  return word(last) && word(first);
}

/** The largest of a heap in an array comes first. */
function push(heap, item) {
  let at = heap.push(item) - 1;
  while (at > 0) {
    const above = (at - 1) >> 1;
    if (heap[above].p >= heap[at].p) break;
    [heap[above], heap[at]] = [heap[at], heap[above]];
    at = above;
  }
}

function pop(heap) {
  const top = heap[0];
  const end = heap.pop();
  if (heap.length > 0) {
    heap[0] = end;
    for (let at = 0; ; ) {
      let best = at;
      for (const below of [2 * at + 1, 2 * at + 2]) if (below < heap.length && heap[below].p > heap[best].p) best = below;
      if (best === at) break;
      [heap[best], heap[at]] = [heap[at], heap[best]];
      at = best;
    }
  }
  return top;
}

/** The probabilities of a row of logits. */
function softmax(row) {
  let most = -Infinity;
  for (const logit of row) if (logit > most) most = logit;
  const weights = Float64Array.from(row, (logit) => Math.exp(logit - most));
  let sum = 0;
  for (const weight of weights) sum += weight;
  return weights.map((weight) => weight / sum);
}

/**
 * Walks spellings, a row of the model at a time: a generator that yields after each row, and returns
 * `{ shares, mass, bound, rows }`: for each choice its probability given that the text is one of them; the probability that it is one;
 * how far a share can be off; the rows that it took.
 *
 * `tokens[id]` are the bytes of a token (none for a control token); `logits(ids)` is the row after the prompt and these ids.
 */
export function* exact(choices, tokens, logits, { tolerance = 1e-5, mostRows = 2000 } = {}) {
  const found = new Float64Array(choices.length);
  const heap = [{ p: 1, ids: [], node: tree(choices) }];
  let rows = 0;
  let open = 1;
  let mass = 0;
  while (heap.length > 0 && rows < mostRows && open > tolerance * mass) {
    const { p, ids, node } = pop(heap);
    const row = softmax(logits(ids));
    rows++;
    for (let id = 0; id < tokens.length; id++) {
      const token = tokens[id];
      let at = node;
      let read = 0;
      for (; read < token.length; read++) {
        const next = at.next.get(token[read]);
        if (!next) break;
        at = next;
      }
      const q = p * row[id];
      if (read === token.length && read > 0) {
        // Where nothing more may follow, the output is over, whatever the model writes.
        if (at.next.size === 0) found[at.choice] += q;
        else if (q > 0) push(heap, { p: q, ids: [...ids, id], node: at });
      } else if (at.choice >= 0 && (read === 0 || !cuts(token.subarray(0, read), token.subarray(read)))) {
        found[at.choice] += q;
      }
    }
    open = heap.reduce((sum, item) => sum + item.p, 0);
    mass = found.reduce((sum, value) => sum + value, 0);
    yield rows;
  }
  if (mass === 0) return { shares: [...found], mass, bound: 1, rows };
  return { shares: [...found].map((value) => value / mass), mass, bound: Math.min(1, open / mass), rows };
}
