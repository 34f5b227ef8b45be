// The first part of the page: a text, and the fate of each of its constructs.

import { Client } from "./client.js";
import { $, MOST, dropped, el, guard, number, time } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { follow, mark, select } from "./marks.js";
import { named, places as valuesAt, schemas } from "./places.js";

const FATES = [
  { fate: "rejected", word: "refused", sign: "✕", said: "the constraint cannot be used as it is" },
  { fate: "narrowed", word: "narrowed", sign: "◐", said: "some values that they allow are not written" },
  { fate: "annotation", word: "no effect", sign: "○", said: "they say nothing about outputs" },
  { fate: "enforced", word: "enforced", sign: "✓", said: "every output follows them" },
];

/** The families whose calls the second part can write. */
const STYLES = ["hermes", "qwen_3", "llama", "qwen_3_coder", "deepseek_v3_1", "kimi", "glm_4_7"];

/** The answers that are shown before a button shows more. */
const SHOWN = 120;

const engine = new Client("engine.js", 20_000);
const source = $("source");
let chosen;
let places = [];

export const kind = () => document.querySelector("input[name=kind]:checked").value;

/** The constraint as data. The text stays a text, so that places in it are places in what the user sees. */
export function spec() {
  const text = source.value;
  switch (kind()) {
    case "json_schema":
      return { json_schema: text, ...($("whitespace").value && { whitespace: $("whitespace").value }) };
    case "regex":
      return { regex: text, regex_dialect: $("dialect").value };
    case "grammar":
      return { grammar: text, grammar_format: $("notation").value };
    default:
      return { tools: text };
  }
}

/** The same as a constraint of outputs: tools are called in the manner of a family of models. */
export function outputs() {
  return kind() === "tools" ? { ...spec(), tool_style: $("style").value, tool_choice: "required" } : spec();
}

function draw(kinds) {
  const shown = kinds.filter(({ kind }) => kind !== "enforced");
  mark(source, $("marks"), chosen ? [...shown, { ...chosen, kind: "chosen" }] : shown);
}

/** A place as it is marked: a keyword with its name, and to the end of the word where the engine knows the beginning alone. */
function whole(place) {
  if (place?.start === undefined) return undefined;
  const { start } = place;
  if (place.end > start) return place.path === undefined ? { start, end: place.end } : named(source.value, place);
  const word = /^[\p{L}\p{N}_$-]+/u.exec(source.value.slice(start, start + 200));
  return { start, end: Math.min(source.value.length, start + (word ? word[0].length : 1)) };
}

function verdict(state, text) {
  const line = $("verdict");
  line.className = `banner ${state}`;
  line.textContent = text;
}

function item({ construct, fate, why, pointer, span, place, tool }) {
  const at = whole(place);
  const where = [tool, pointer === "#" ? undefined : pointer, pointer === undefined && span ? `line ${span.replace(":", ", column ")}` : undefined]
    .filter((part) => part !== undefined).join(" ");
  const { sign, word } = FATES.find((known) => known.fate === fate);
  const line = [
    el("span", { class: "sign", title: word }, sign),
    el("span", { class: "what" }, el("code", {}, construct), where === "" ? undefined : el("span", { class: "where" }, ` ${where}`)),
    el("span", { class: "why" }, why),
  ];
  const show = () => {
    chosen = at;
    draw(places);
    select(source, at);
  };
  return el("li", { class: fate }, at ? el("button", { type: "button", onclick: show }, ...line) : el("div", {}, ...line));
}

function group({ fate, word, said }, items) {
  const list = el("ul", {}, ...items.slice(0, SHOWN).map(item));
  const more = items.length > SHOWN &&
    el("button", {
      type: "button",
      class: "quiet",
      onclick: ({ target }) => {
        list.append(...items.slice(SHOWN).map(item));
        target.remove();
      },
    }, `Show all ${number(items.length)}`);
  // What is enforced is what one expects; it is there, and out of the way.
  const open = fate !== "enforced" || items.length <= 40;
  return el("details", { class: fate, open }, el("summary", {}, `${word} `, el("span", { class: "said" }, said)), list, ...(more ? [more] : []));
}

/** The constructs of all tools, with their places in the text of the list. */
function ofTools(tools) {
  let bases = [];
  try {
    bases = schemas(JSON.parse(source.value));
  } catch {
    // What the engine reads and the browser does not is without places.
  }
  const escaped = (key) => key.replaceAll("~", "~0").replaceAll("/", "~1");
  const constructs = tools.flatMap((tool, index) => tool.constructs.map((construct) => ({
    ...construct,
    tool: tool.tool,
    at: bases[index] && construct.pointer !== undefined ? `${bases[index]}${construct.pointer.slice(1)}/${escaped(construct.construct)}` : undefined,
  })));
  const found = valuesAt(source.value, constructs.map(({ at }) => at));
  return constructs.map((construct) => {
    const place = found.get(construct.at);
    return place ? { ...construct, place: { ...place, path: construct.at } } : construct;
  });
}

function show(answer) {
  const constructs = answer.tools ? ofTools(answer.tools) : answer.constructs;
  const by = new Map(FATES.map(({ fate }) => [fate, constructs.filter((construct) => construct.fate === fate)]));
  const [rejected, narrowed] = [by.get("rejected").length, by.get("narrowed").length];
  if (answer.error) {
    const { line, column } = answer.error.place ?? {};
    verdict("bad", `It cannot be read${line ? ` (line ${line}, column ${column})` : ""}: ${answer.error.message}`);
  } else if (rejected > 0) {
    const of = answer.tools ? answer.tools.filter((tool) => tool.fate === "rejected").length : 0;
    verdict("bad", answer.tools
      ? `${of} of ${answer.tools.length} tools cannot be enforced: ${rejected} ${rejected === 1 ? "construct is" : "constructs are"} refused.`
      : `Refused: ${rejected} ${rejected === 1 ? "construct" : "constructs"} cannot be enforced, and nothing is ignored in silence.`);
  } else if (narrowed > 0) {
    verdict("fair", `It can be used, and every output is valid. ${narrowed === 1 ? "1 construct is" : `${narrowed} constructs are`} narrowed: not all values are written.`);
  } else {
    verdict("good", answer.tools ? `All ${answer.tools.length} tools are enforced exactly.` : "It can be used, and is enforced exactly.");
  }
  $("counts").replaceChildren(...FATES.filter(({ fate }) => by.get(fate).length > 0).map(({ fate, word, sign }) =>
    el("li", { class: fate }, el("span", { class: "sign", "aria-hidden": "true" }, sign), ` ${number(by.get(fate).length)} ${word}`)),
    el("li", { class: "time", title: "inside the engine" }, `explained in ${time(answer.ms)}`));
  $("fates").replaceChildren(
    ...(answer.notes ?? []).map((note) => el("p", { class: "note" }, note)),
    ...FATES.filter(({ fate }) => by.get(fate).length > 0).map((known) => group(known, by.get(known.fate))));
  places = constructs.flatMap(({ place, fate }) => (whole(place) ? [{ ...whole(place), kind: fate }] : []));
  const fault = whole(answer.error?.place);
  if (fault) places.push({ ...fault, kind: "rejected" });
  chosen = undefined;
  draw(places);
}

const busy = (is) => $("answer").setAttribute("aria-busy", String(is));

async function explain(changed) {
  chosen = undefined;
  draw([]);
  busy(true);
  changed();
  const nothing = source.value.trim() === "";
  if (nothing) {
    verdict("wait", "Paste a constraint, or take an example.");
    $("counts").replaceChildren();
    $("fates").replaceChildren();
  }
  const text = source.value;
  try {
    const answer = await engine.latest("explain", { operation: "explain", spec: spec() });
    if (!answer || text !== source.value) return;
    if (!nothing) show(answer);
    busy(false);
  } catch (error) {
    busy(false);
    verdict("bad", `The engine gave no answer: ${error.message}`);
    $("counts").replaceChildren();
    $("fates").replaceChildren();
  }
}

/** Starts this part. `changed(prefix)` is called whenever the constraint changes, with a prefix where an example brings one. */
export function begin(changed) {
  const update = (prefix) => explain(() => changed(prefix));
  const take = (example) => {
    source.value = example.text;
    if (example.notation) $("notation").value = example.notation;
    source.scrollTop = 0;
    update(example.prefix);
  };
  const fill = () => {
    for (const part of document.querySelectorAll("[data-kind]")) part.hidden = part.dataset.kind !== kind();
    $("example").replaceChildren(...EXAMPLES[kind()].map(({ name }, index) => el("option", { value: String(index) }, name)));
  };
  const say = (text) => {
    $("source-note").textContent = text;
  };
  $("style").replaceChildren(...STYLES.map((name) => el("option", {}, name)));
  for (const radio of document.querySelectorAll("input[name=kind]")) {
    radio.addEventListener("change", () => {
      fill();
      take(EXAMPLES[kind()][0]);
    });
  }
  $("example").addEventListener("change", ({ target }) => take(EXAMPLES[kind()][target.value]));
  for (const id of ["whitespace", "dialect", "notation", "style"]) $(id).addEventListener("change", () => update());
  guard(source, MOST, say);
  source.addEventListener("input", () => update());
  source.addEventListener("scroll", () => follow(source, $("marks")));
  dropped(source.parentElement, async (file) => {
    if (file.size > MOST) return say(`${file.name} has ${number(file.size)} bytes; this field takes ${number(MOST)}. The command line takes files.`);
    source.value = await file.text();
    say(`${file.name} is read.`);
    update();
  });
  fill();
  take(EXAMPLES.json_schema[0]);
}
