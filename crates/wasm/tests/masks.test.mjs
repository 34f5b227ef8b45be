// Masks and draws are those of Rust. UNSKEW_JUDGE is the file that the example `judge` has written.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Constraint, Model, Tokenizer, UnskewError, sample } from "unskew";

const judge = JSON.parse(readFileSync(process.env.UNSKEW_JUDGE));
const hex = (mask) => Array.from(mask, (word) => word.toString(16).padStart(8, "0")).join("");

const tokenizers = new Map();
function tokenizer(path) {
  if (!tokenizers.has(path)) tokenizers.set(path, Tokenizer.fromJson(readFileSync(path)));
  return tokenizers.get(path);
}

test("masks along walks are those of Rust, bit for bit", () => {
  let [specs, steps, errors] = [0, 0, 0];
  for (const { tokenizer: path, spec, error, ids, steps: expected } of judge.walks) {
    const what = `${path}: ${JSON.stringify(spec).slice(0, 300)}`;
    let constraint;
    try {
      constraint = new Constraint(tokenizer(path), spec);
    } catch (thrown) {
      assert.ok(thrown instanceof UnskewError && thrown.kind !== "internal", `${what}: ${thrown}`);
      // The reason is Rust's; what is no spec has words of the package in front.
      assert.ok(error !== undefined && thrown.message.includes(error), `${what}: ${thrown.message} instead of ${error}`);
      errors++;
      continue;
    }
    assert.equal(error, undefined, what);
    specs++;
    const matcher = constraint.matcher();
    expected.forEach((step, at) => {
      if (at > 0) matcher.advance(ids[at - 1]);
      if (step.error !== undefined) {
        assert.throws(() => matcher.mask(), UnskewError, what);
        return;
      }
      assert.equal(hex(matcher.mask()), step.mask, `${what}, step ${at}`);
      assert.equal(matcher.canEnd, step.end, `${what}, step ${at}`);
      steps++;
    });
    // The same masks again, after all was taken back.
    if (expected.at(-1).error === undefined) {
      matcher.rollback(ids.length < expected.length ? ids.length : expected.length - 1);
      assert.equal(hex(matcher.mask()), expected[0].mask, what);
    }
    matcher.free();
    constraint.free();
  }
  console.log(`${specs} specs with ${steps} masks, ${errors} refused alike`);
  assert.ok(specs >= 200, `${specs} specs`);
});

const rows = (size) => (prefix) => {
  const row = new Float32Array(size);
  for (let id = 0; id < size; id++) {
    let mix = id;
    for (const next of prefix) mix = (Math.imul(mix, 31) + next) >>> 0;
    row[id] = (Math.imul(mix, 2654435761) >>> 24) / 64;
  }
  return row;
};

function same(draws, expected, what, tolerance) {
  assert.deepEqual(draws.map((draw) => draw.text), expected.map((draw) => draw.text), what);
  assert.deepEqual(draws.map((draw) => [...draw.ids]), expected.map((draw) => draw.ids), what);
  draws.forEach((draw, at) => assert.ok(Math.abs(draw.logprob - expected[at].logprob) < tolerance, `${what}: ${draw.logprob}, ${expected[at].logprob}`));
}

test("draws of a function are those of Rust for every sampler", async () => {
  const tokens = Tokenizer.bytes();
  const plain = Model.of(tokens, rows(tokens.size));
  const slow = Model.ofAsync(tokens, async (batch) => {
    await new Promise((resume) => setTimeout(resume));
    return batch.map(rows(tokens.size));
  });
  assert.ok(slow.isAsync && !plain.isAsync);
  for (const { spec, sampler, outputs } of judge.draws.function) {
    same([...sample(plain, spec, { sampler, seed: 11, n: 8 })], outputs, sampler, 1e-9);
    const drawn = [];
    for await (const draw of sample(slow, spec, { sampler, seed: 11n, n: 8 })) drawn.push(draw);
    same(drawn, outputs, `${sampler}, asynchronous`, 1e-9);
  }
});

// A product is a fused multiply-add where the processor has it, and is rounded twice here: WebAssembly has none that is the same everywhere. A
// logit is the end of four layers of sums of up to 512 products. Errors of such sums grow with the root of their length, so that a few times
// sqrt(512) * 2^-24 of the largest logit is expected, 20 * 1.3e-6 = 2.7e-5; the greatest that was seen is 7.6e-6.
const LOGIT = 1e-4;

const probabilities = (row) => {
  const most = row.reduce((most, logit) => Math.max(most, logit), -Infinity);
  const weights = Array.from(row, (logit) => Math.exp(logit - most));
  const sum = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / sum);
};

// How likely a random number picks another token of two rows: the sum of the distances of their cumulative probabilities.
function apart(one, other) {
  const [left, right] = [probabilities(one), probabilities(other)];
  let [sum, gap] = [0, 0];
  left.forEach((probability, id) => {
    gap += probability - right[id];
    sum += Math.abs(gap);
  });
  return sum;
}

// So draws of few tokens are equal. `cars` looks at up to 42,000 tokens for a record, which are the more often another one: of eight records
// 1.9 are expected to differ, and two did. Their log-probabilities are of one model all the same, which `masked` and the rows show.
test("rows of the embedded model are those of Rust to the last digits, and so are draws as far as digits decide", async () => {
  const model = await Model.embedded();
  let [first, most, step] = [undefined, 0, 0];
  for (const { ids, logits } of judge.rows) {
    const row = model.logits(ids);
    assert.equal(row.length, logits.length);
    row.forEach((logit, id) => {
      const gap = Math.abs(logit - logits[id]);
      if (gap > 1e-9) first ??= `the first that differs is of token ${id} after ${ids.length}: ${logit}, ${logits[id]}`;
      most = Math.max(most, gap);
    });
    step += apart(row, logits) / judge.rows.length;
  }
  console.log(`${first}; at most by ${most}; another token in ${Math.round(1 / step)} is drawn`);
  assert.ok(judge.rows.length >= 10 && most < LOGIT, `${most}`);
  for (const { spec, sampler, prompt, outputs } of judge.draws.embedded) {
    const drawn = [...sample(model, spec, { sampler, prompt, seed: 11, n: 8 })];
    assert.equal(drawn.length, outputs.length);
    const equal = drawn.filter((draw, at) => draw.text === outputs[at].text && Math.abs(draw.logprob - outputs[at].logprob) < 1e-3);
    const differ = outputs.reduce((sum, { positions }) => sum - Math.expm1(-positions * step), 0);
    // Twice the standard deviation of a count that is this small, and none where less than a hundredth of one is expected.
    const allowed = differ < 0.01 ? 0 : Math.ceil(differ + 2 * Math.sqrt(differ));
    console.log(`${sampler}: ${equal.length} of ${drawn.length} are equal, ${differ.toPrecision(2)} were expected to differ`);
    assert.ok(equal.length >= drawn.length - allowed, `${sampler}: ${spec}: ${drawn.map((draw) => `${draw.text} ${draw.logprob}`)}`);
  }
  const draws = sample(model, judge.draws.embedded[0].spec, { sampler: "masked", seed: 11, n: 2, prompt: "Dear " });
  let [steps, drawn] = [0, 0];
  for (let step = draws.step(); !step.done; step = draws.step()) {
    steps++;
    if (step.draw) drawn++;
  }
  assert.ok(drawn === 2 && steps > 4, `${steps} steps`);
  model.free();
});
