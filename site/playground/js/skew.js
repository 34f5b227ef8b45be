// The third part of the page: two histograms that fill as draws come, against the exact bars.

import { start } from "./client.js";
import { $, el, guard, number, percent, time } from "./dom.js";
import { TASKS } from "./examples.js";

const SIDES = ["left", "right"];

/** Outputs that are listed at most, and their characters: each is a row of a table. */
const MOST_CHOICES = 12;
const MOST_CHARACTERS = 120;

/** The bytes of the model's files, for the progress that is shown while they come. */
const MODEL_BYTES = 3_989_000;

/** The newest draws that are listed. */
const STREAM = 6;

let worker;
let run = 0;
let state;

/** How many draws are to be seen after `ms`, so that the first can be followed with the eye and 500 take five seconds. */
const watched = (ms, count) => Math.min(count, Math.floor(6 * (ms / 1000) ** 2 * Math.max(1, count / 150) + 4 * (ms / 1000)));

const say = (text) => {
  $("skew-status").textContent = text;
};

function options() {
  const choices = [...new Set($("choices").value.split("\n").map((line) => line.trimEnd()).filter((line) => line !== ""))];
  if (choices.length < 2) throw new Error("Give two outputs or more, one a line.");
  if (choices.length > MOST_CHOICES) throw new Error(`These are ${choices.length} outputs; the page shows up to ${MOST_CHOICES}.`);
  const long = choices.find((text) => text.length > MOST_CHARACTERS);
  if (long) throw new Error(`An output has ${long.length} characters; the page takes up to ${MOST_CHARACTERS}.`);
  const seed = Number($("seed").value);
  if (!$("seed").checkValidity() || !Number.isInteger(seed)) throw new Error("The seed is a whole number from 0 to 4294967295.");
  return { prompt: $("prompt").value, choices, count: Number($("count").value), seed, left: $("left").value };
}

function rows(side) {
  const rows = state.choices.map((text) => {
    const bar = el("span", { class: "bar" });
    const line = el("span", { class: "line" });
    const drawn = el("td", { class: "share" }, "–");
    const exact = el("td", { class: "share" }, "…");
    const row = el("tr", {},
      el("th", { scope: "row" }, el("span", { class: "text" }, text), el("span", { class: "track", "aria-hidden": "true" }, bar, line)), drawn, exact);
    return { row, bar, line, drawn, exact };
  });
  $(`${side}-bars`).replaceChildren(...rows.map(({ row }) => row));
  return rows;
}

/** Half the sum of the differences: the share of the outputs that would have been others. */
function distance(counts, shown, shares) {
  return counts.reduce((sum, count, index) => sum + Math.abs(count / shown - shares[index]), 0) / 2;
}

function paint(side) {
  const { rows, counts, shown, positions } = state[side];
  rows.forEach(({ bar, line, drawn, exact }, index) => {
    const share = shown === 0 ? 0 : counts[index] / shown;
    bar.style.inlineSize = `${100 * share}%`;
    drawn.textContent = shown === 0 ? "–" : percent(share);
    if (!state.exact) return;
    line.style.insetInlineStart = `${100 * state.exact.shares[index]}%`;
    line.classList.add("known");
    // None was found for an output that the model hardly ever gives; it is no zero.
    exact.textContent = percent(Math.max(state.exact.shares[index], 1e-9));
  });
  const off = $(`${side}-off`);
  if (shown === 0 || !state.exact) off.textContent = "\u00a0";
  else off.replaceChildren(
    el("b", {}, String(Math.round(100 * distance(counts, shown, state.exact.shares)))),
    el("span", {}, ` of 100 outputs would have been others (${number(shown)} draws)`));
  $(`${side}-cost`).textContent = shown === 0 ? "" : `${(positions / shown).toFixed(2)} positions of the model for an output`;
}

function frame(now) {
  if (!state || state.ended) return;
  const { seen } = state;
  if (seen !== undefined && !state.paused) state.elapsed += Math.min(100, now - seen);
  state.seen = now;
  let waits = false;
  for (const side of SIDES) {
    const at = state[side];
    const due = state.pace === "full" || state.still ? at.queue.length + at.shown : watched(state.elapsed, state.count);
    let changed = at.painted !== state.exact;
    while (!state.paused && at.shown < due && at.queue.length > 0) {
      const draw = at.queue.shift();
      at.shown++;
      at.positions += draw.positions;
      at.counts[state.choices.indexOf(draw.text)]++;
      at.newest.unshift(draw);
      at.newest.length = Math.min(STREAM, at.newest.length);
      changed = true;
    }
    if (changed) {
      at.painted = state.exact;
      paint(side);
      $(`${side}-stream`).replaceChildren(...at.newest.map(({ text, logprob }) =>
        el("li", {}, el("span", {}, text), el("span", { class: "logprob" }, `log P ${logprob.toFixed(1).replace("-", "−")}`))));
    }
    if (at.shown < state.count) waits = true;
  }
  if (waits || !state.exact) return requestAnimationFrame(frame);
  end();
}

function end() {
  state.ended = true;
  $("pause").disabled = true;
  $("draw").textContent = "Draw again";
  const { exact } = state;
  const off = (side) => Math.round(100 * distance(state[side].counts, state[side].shown, exact.shares));
  say(`${number(state.count)} draws on each side. Of 100 outputs, ${off("left")} on the left and ${off("right")} on the right would have been others. ` +
    `The exact bars: ${number(exact.rows)} rows of the model in ${time(exact.ms)}, right to ${percent(Math.max(exact.bound, 1e-6))}. ` +
    `The draws: ${time(state.ms.left)} and ${time(state.ms.right)} of computing.`);
}

function fail(message) {
  if (state) state.ended = true;
  state = undefined;
  $("pause").disabled = true;
  say(message);
}

function listen() {
  worker = start("skew.js");
  worker.addEventListener("message", ({ data }) => {
    if (!state || state.ended) return;
    if (data.kind === "progress") return say(`Loading the model: ${Math.min(100, Math.round((100 * data.loaded) / MODEL_BYTES))} %`);
    if (data.run !== run) return;
    if (data.kind === "ready") {
      $("draw").textContent = "Draw again";
      say("Drawing …");
    } else if (data.kind === "exact") {
      if (data.mass === 0) return fail("The model gives these outputs no probability that the page could find.");
      state.exact = data;
    } else if (data.kind === "draws") {
      for (const side of SIDES) {
        state[side].queue.push(...data[side]);
        if (data[`${side}Ms`] !== undefined) state.ms[side] = data[`${side}Ms`];
      }
    } else if (data.kind === "error") fail(`The draws stopped: ${data.message}`);
  });
  worker.addEventListener("error", (event) => {
    worker.terminate();
    worker = undefined;
    fail(`The model stopped: ${event.message || "it could not be started"}`);
  });
}

function draw() {
  let chosen;
  try {
    chosen = options();
  } catch (error) {
    return say(error.message);
  }
  if (!worker) listen();
  if (state) state.ended = true;
  const fresh = { ...chosen, pace: $("pace").value, still: matchMedia("(prefers-reduced-motion: reduce)").matches, elapsed: 0, ms: {} };
  state = fresh;
  for (const side of SIDES) {
    fresh[side] = { queue: [], counts: chosen.choices.map(() => 0), shown: 0, positions: 0, newest: [] };
    fresh[side].rows = rows(side);
    paint(side);
    $(`${side}-stream`).replaceChildren();
  }
  $("left-title").textContent = chosen.left === "canonical" ? "Masked, canonical" : "Masked";
  $("left-help").textContent = chosen.left === "canonical"
    ? "A mask that also forbids spellings that the tokenizer does not write. It cures the spelling, not the skew."
    : "Tokens that the constraint forbids are taken out of each row. As engines usually do it.";
  $("pause").disabled = false;
  $("pause").textContent = "Pause";
  say("Starting …");
  worker.postMessage({ run: ++run, ...chosen });
  requestAnimationFrame(frame);
}

/** Starts this part. The model is loaded when the first draw is asked for. */
export function begin() {
  const take = ({ prompt, choices }) => {
    $("prompt").value = prompt;
    $("choices").value = choices.join("\n");
  };
  $("skew-example").replaceChildren(...TASKS.map(({ name }, index) => el("option", { value: String(index) }, name)));
  $("skew-example").addEventListener("change", ({ target }) => take(TASKS[target.value]));
  guard($("prompt"), 1000, say);
  guard($("choices"), MOST_CHOICES * (MOST_CHARACTERS + 1), say);
  $("skew-form").addEventListener("submit", (event) => {
    event.preventDefault();
    draw();
  });
  $("pause").addEventListener("click", () => {
    if (!state || state.ended) return;
    state.paused = !state.paused;
    $("pause").textContent = state.paused ? "Go on" : "Pause";
  });
  take(TASKS[0]);
  // The rows are there from the beginning, so that the first draw moves nothing.
  state = { choices: TASKS[0].choices, ended: true };
  for (const side of SIDES) {
    state[side] = { counts: state.choices.map(() => 0), shown: 0, positions: 0 };
    state[side].rows = rows(side);
    paint(side);
  }
}
