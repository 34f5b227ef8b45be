// The engine, beside the page and not in it: compiling a hostile constraint may take seconds, and a page that waits is dead for so long.

import init, { Constraint, Tokenizer, explain } from "../unskew/web.js";
import { heal } from "../js/prefix.js";

const ready = init();
/** Tokenizers by name, read once. A file of the user's replaces the one before. */
const tokenizers = new Map();
/** The last constraint, with what it was made of. */
let last;

/** The texts of the tokens that are sent, at most. */
const SHOWN = 240;

async function unpacked(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  // A server may have unpacked it on the way.
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function tokenizer({ name, file }) {
  const known = tokenizers.get(name);
  const version = file && `${file.name} ${file.size} ${file.lastModified}`;
  if (known && known.version === version) return known;
  known?.tokens.free();
  tokenizers.delete(name);
  if (last?.name === name) forget();
  const begin = performance.now();
  let tokens;
  if (file) tokens = Tokenizer.fromJson(new Uint8Array(await file.arrayBuffer()));
  else if (name === "embedded") tokens = await Tokenizer.embedded();
  else tokens = Tokenizer.fromJson(await unpacked(new URL(`../vocabularies/${name}.json.gz`, import.meta.url)));
  const entry = { tokens, texts: undefined, ms: performance.now() - begin, version };
  tokenizers.set(name, entry);
  return entry;
}

function forget() {
  last?.constraint.free();
  last = undefined;
}

/** The constraint of `spec`, and how long it took to compile: the last one is kept, since a prefix is typed more often than a constraint. */
function compiled(entry, name, spec) {
  const key = JSON.stringify(spec);
  if (last?.key === key && last.tokens === entry.tokens) return last;
  forget();
  const begin = performance.now();
  const constraint = new Constraint(entry.tokens, spec);
  last = { key, name, tokens: entry.tokens, constraint, compile: performance.now() - begin };
  return last;
}

async function mask({ tokenizer: which, spec, prefix, find, shown }) {
  const entry = await tokenizer(which);
  const { tokens } = entry;
  const made = compiled(entry, which.name, spec);
  const matcher = made.constraint.matcher();
  try {
    if (made.first === undefined) {
      const begin = performance.now();
      matcher.mask();
      made.first = performance.now() - begin;
    }
    const state = heal(tokens, matcher, prefix);
    const text = (id) => tokens.token(id);
    const answer = {
      size: tokens.size,
      load: entry.ms,
      compile: made.compile,
      first: made.first,
      memory: made.constraint.memory,
      prefix: state.ids.map((id) => ({ id, text: text(id) })),
      rest: state.rest,
      rejected: state.rejected,
    };
    if (state.rejected) return answer;
    entry.texts ??= Array.from({ length: tokens.size }, (_, id) => text(id));
    const ends = new Set(tokens.ends);
    const allowed = state.allowed.filter((id) => !ends.has(id));
    const wanted = find === "" ? allowed : allowed.filter((id) => entry.texts[id].includes(find));
    const bits = new Uint32Array(Math.ceil(tokens.size / 32));
    for (const id of allowed) bits[id >>> 5] |= 1 << (id & 31);
    return {
      ...answer,
      bits,
      allowed: allowed.length,
      found: wanted.length,
      tokens: wanted.slice(0, shown ?? SHOWN).map((id) => ({ id, text: entry.texts[id], plain: tokens.decode([id]) })),
      forced: state.rest === "" ? Array.from(matcher.forced()).map((id) => entry.texts[id]) : [],
      canEnd: state.rest === "" && matcher.canEnd,
      done: state.rest === "" && matcher.done,
    };
  } finally {
    matcher.free();
  }
}

const operations = {
  async explain({ spec }) {
    const begin = performance.now();
    const answer = explain(spec);
    return { ...answer, ms: performance.now() - begin };
  },
  mask,
};

addEventListener("message", async ({ data }) => {
  try {
    await ready;
    postMessage({ id: data.id, answer: await operations[data.operation](data) });
  } catch (error) {
    const { kind, place } = error ?? {};
    // After a fault of the module itself nothing in it can be trusted: the page starts a new worker.
    if (kind === "internal") setTimeout(() => { throw error; });
    else postMessage({ id: data.id, error: { message: String(error?.message ?? error), kind, place } });
  }
});
