// The model, beside the page: draws of two samplers turn by turn, and the exact probabilities. A run ends when a newer one is asked for.

import init, { Model, sample } from "../unskew/web.js";
import { exact } from "../js/exact.js";

/** How long the worker works before it looks for messages, in milliseconds. */
const SLICE = 24;

let model;
let newest = 0;

async function file(name, progress) {
  const response = await fetch(new URL(`../unskew/embedded/${name}`, import.meta.url));
  if (!response.ok) throw new Error(`${name}: ${response.status}`);
  const parts = [];
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    parts.push(value);
    progress(value.length);
  }
}

async function load() {
  let loaded = 0;
  const progress = (bytes) => postMessage({ kind: "progress", loaded: (loaded += bytes) });
  const [config, tokenizer, weights] = await Promise.all(
    ["config.json", "tokenizer.json", "model.safetensors"].map((name) => file(name, progress)).concat(init()));
  const begin = performance.now();
  const made = Model.fromCheckpoint({ config: new TextDecoder().decode(config), tokenizer, weights });
  return { made, ms: performance.now() - begin };
}

/** Lets messages in. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

async function run({ run: number, prompt, choices, count, seed, left }) {
  model ??= load().catch((error) => {
    model = undefined;
    throw error;
  });
  const { made, ms } = await model;
  postMessage({ kind: "ready", run: number, ms });
  const spec = { choices };
  const sides = {
    left: sample(made, left === "canonical" ? { ...spec, canonical: true } : spec, { sampler: "masked", n: count, seed, prompt }),
    right: sample(made, spec, { sampler: "cars", n: count, seed, prompt }),
  };
  const { tokenizer } = made;
  const before = Array.from(tokenizer.encodePrompt(prompt));
  const tokens = Array.from({ length: tokenizer.size }, (_, id) => tokenizer.tokenBytes(id));
  const bars = exact(choices, tokens, (ids) => made.logits(Uint32Array.from([...before, ...ids])));
  const work = { exact: 0, left: 0, right: 0 };
  const timed = (name, step) => {
    const begin = performance.now();
    const answer = step();
    work[name] += performance.now() - begin;
    return answer;
  };
  try {
    const open = new Set(["exact", "left", "right"]);
    while (open.size > 0 && number === newest) {
      const begin = performance.now();
      const draws = { left: [], right: [] };
      while (open.size > 0 && performance.now() - begin < SLICE) {
        if (open.has("exact")) {
          const { done, value } = timed("exact", () => bars.next());
          if (done) {
            postMessage({ kind: "exact", run: number, ...value, ms: work.exact });
            open.delete("exact");
          }
        }
        for (const side of ["left", "right"]) {
          if (!open.has(side)) continue;
          const { done, draw } = timed(side, () => sides[side].step());
          if (draw) draws[side].push({ text: draw.text, logprob: draw.logprob, positions: draw.cost.positions });
          if (done) {
            open.delete(side);
            draws[`${side}Ms`] = work[side];
          }
        }
      }
      postMessage({ kind: "draws", run: number, ...draws });
      await pause();
    }
  } finally {
    sides.left.free();
    sides.right.free();
  }
}

addEventListener("message", async ({ data }) => {
  newest = data.run;
  try {
    await run(data);
  } catch (error) {
    if (error?.kind === "internal") setTimeout(() => { throw error; });
    else postMessage({ kind: "error", run: data.run, message: String(error?.message ?? error) });
  }
});
