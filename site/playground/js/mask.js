// The second part of the page: the tokens that may come next.

import { Client } from "./client.js";
import { $, dropped, el, guard, number, percent, time, visible } from "./dom.js";

const TOKENIZERS = [
  { name: "embedded", label: "the embedded model’s: 2,048 tokens" },
  { name: "gpt2", label: "GPT-2’s: 50,257 tokens (0.6 MB)" },
  { name: "qwen3", label: "Qwen 3’s: 151,669 tokens (2 MB)" },
];

/** The characters of a prefix, and the bytes of a file of tokens, at most. */
const MOST = 20_000;
const MOST_BYTES = 64_000_000;

/** The chips that one more click adds. */
const STEP = 480;

const engine = new Client("engine.js", 60_000);
const prefix = $("prefix");
let constraint;
let file;
let shown;
let bits;

function figures(values) {
  for (const [id, value] of Object.entries(values)) $(id).replaceChildren(...[value].flat());
}

function clear() {
  figures({ allowed: "–", ending: "–", forced: "–", "compile-time": "–", "mask-time": "–" });
  $("tokens").replaceChildren();
  $("prefix-tokens").replaceChildren();
  $("found").textContent = "";
  $("more").hidden = true;
  bits = undefined;
  paint();
}

/** The mask as a picture: a cell for each token, in the order of their ids. */
function paint() {
  const canvas = $("bits");
  canvas.hidden = !bits;
  $("bits-help").hidden = !bits;
  if (!bits) return;
  const { size, words } = bits;
  const columns = Math.ceil(Math.sqrt(size * (size < 5000 ? 8 : 5)));
  canvas.width = columns;
  canvas.height = Math.ceil(size / columns);
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  // Runs of equal bits are one rectangle: most masks are a few runs.
  for (let id = 0; id < size; ) {
    const bit = (words[id >>> 5] >>> (id & 31)) & 1;
    const row = Math.floor(id / columns);
    const from = id;
    while (id < size && id < (row + 1) * columns && ((words[id >>> 5] >>> (id & 31)) & 1) === bit) id++;
    context.fillStyle = bit ? style.color : style.borderTopColor;
    context.fillRect(from - row * columns, row, id - from, 1);
  }
}

function chip({ id, text, plain }) {
  // Bytes that are no whole character cannot be typed; they are shown, and no button.
  if (plain === "" || plain.includes("\ufffd")) return el("span", { class: "chip" }, ...visible(text));
  const append = () => {
    prefix.value += plain;
    prefix.dispatchEvent(new Event("input"));
    prefix.focus();
  };
  // White space beyond the space shows nothing, and a button needs a name.
  const name = text.trim() === "" ? `token ${id}` : undefined;
  return el("button", { type: "button", class: "chip", onclick: append, "aria-label": name, title: `token ${id}` }, ...visible(text));
}

/** What the field has refused since the last question. The answer to that question does not take its place. */
let refused = "";

const note = (text) => {
  $("prefix-note").textContent = refused || text;
};

const refuse = (text) => {
  refused = text;
  note();
};

function show(answer) {
  const { rejected } = answer;
  $("prefix-tokens").replaceChildren(...answer.prefix.map(({ text, id }) => el("span", { class: "chip taken", title: `token ${id}` }, ...visible(text))));
  figures({ "compile-time": time(answer.compile), "mask-time": time(answer.first) });
  if (rejected) {
    const [good, bad] = [prefix.value.slice(0, rejected.at), prefix.value.slice(rejected.at)];
    $("prefix-tokens").replaceChildren(
      el("span", { class: "chip taken" }, ...visible(good.replaceAll(" ", "␣"))),
      el("span", { class: "chip refused" }, ...visible((bad.length > 40 ? `${bad.slice(0, 40)}…` : bad).replaceAll(" ", "␣"))));
    figures({ allowed: "–", ending: "–", forced: "–" });
    $("tokens").replaceChildren();
    $("found").textContent = "";
    $("more").hidden = true;
    bits = undefined;
    paint();
    return note(`No output begins with this text: it leaves the constraint after ${rejected.at} characters. ${rejected.message}`);
  }
  note(answer.rest === "" ? "" : `“${answer.rest}” may become another token when more is typed: these are the tokens that begin with it.`);
  figures({
    allowed: `${number(answer.allowed)} of ${number(answer.size)} (${percent(answer.allowed / answer.size)})`,
    ending: answer.done ? "it has ended" : answer.canEnd ? "yes" : "no",
    forced: answer.forced.length === 0 ? "–" : answer.forced.slice(0, 24).flatMap((text) => [el("span", { class: "chip taken" }, ...visible(text))]),
  });
  bits = { size: answer.size, words: answer.bits };
  paint();
  $("bits").setAttribute("aria-label", `The mask: ${number(answer.allowed)} of ${number(answer.size)} tokens are allowed`);
  $("tokens").replaceChildren(...answer.tokens.map(chip));
  $("found").textContent = $("find").value === "" ? "" : `${number(answer.found)} of ${number(answer.allowed)}`;
  $("more").hidden = answer.tokens.length >= answer.found;
}

async function ask() {
  refused = "";
  const name = $("tokenizer").value;
  const spec = $("canonical").checked ? { ...constraint(), canonical: true } : constraint();
  const slow = setTimeout(() => note(name === "embedded" ? "Compiling …" : "Loading the tokenizer, and compiling …"), 300);
  try {
    const answer = await engine.latest("mask", {
      operation: "mask",
      tokenizer: { name, file: name === "file" ? file : undefined },
      spec,
      prefix: prefix.value,
      find: $("find").value.replaceAll(" ", "␣"),
      shown,
    });
    clearTimeout(slow);
    if (answer) show(answer);
  } catch (error) {
    clearTimeout(slow);
    clear();
    note(`No mask: ${error.message}`);
  }
}

function fresh() {
  shown = undefined;
  return ask();
}

/** A tokenizer of the user's own. */
function own(next) {
  if (next.size > MOST_BYTES) return note(`${next.name} has ${number(next.size)} bytes; a tokenizer may have ${number(MOST_BYTES)}.`);
  file = next;
  const list = $("tokenizer");
  [...list.options].find((option) => option.value === "file")?.remove();
  list.append(el("option", { value: "file" }, `yours: ${next.name}`));
  list.value = "file";
  fresh();
}

/** Starts this part for the constraint that `outputs` answers. The result is called whenever it changes. */
export function begin(outputs) {
  constraint = outputs;
  $("tokenizer").replaceChildren(...TOKENIZERS.map(({ name, label }) => el("option", { value: name }, label)));
  guard(prefix, MOST, refuse);
  prefix.addEventListener("input", fresh);
  $("find").addEventListener("input", fresh);
  $("tokenizer").addEventListener("change", fresh);
  $("canonical").addEventListener("change", fresh);
  $("tokenizer-file").addEventListener("change", ({ target }) => target.files[0] && own(target.files[0]));
  dropped($("mask"), own);
  $("more").addEventListener("click", () => {
    shown = (shown ?? 240) + STEP;
    ask();
  });
  document.addEventListener("themechange", paint);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  return (text) => {
    if (text !== undefined) prefix.value = text;
    fresh();
  };
}
