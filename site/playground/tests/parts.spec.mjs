// Parts of the page that need no browser: the exact probabilities against a plain reading of all that a small model can write, and the
// prefix that is typed half.

import { expect, test } from "@playwright/test";
import { exact } from "../js/exact.js";
import { named, places, schemas } from "../js/places.js";
import { heal } from "../js/prefix.js";

/** Numbers from 0 to 1 that are the same in each run. */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A row for each prefix, the same whenever it is asked for. */
function model(size, seed) {
  return (ids) => {
    const next = random(ids.reduce((sum, id) => Math.imul(sum, 31) + id + 1, seed));
    return Float32Array.from({ length: size }, () => 4 * next());
  };
}

/** The law of `end: "free"`, read text by text: all sequences of tokens, each until its text leaves the outputs. */
function plain(choices, texts, logits) {
  const shares = choices.map(() => 0);
  const begins = (text) => choices.some((choice) => choice.startsWith(text));
  const give = (text, p) => {
    const index = choices.indexOf(text);
    if (index >= 0) shares[index] += p;
  };
  const walk = (ids, text, p) => {
    const row = logits(ids).map(Math.exp);
    const sum = row.reduce((left, right) => left + right, 0);
    texts.forEach((token, id) => {
      const q = (p * row[id]) / sum;
      const longer = text + token;
      if (token !== "" && begins(longer)) {
        if (choices.some((choice) => choice.startsWith(longer) && choice !== longer)) walk([...ids, id], longer, q);
        else give(longer, q);
        return;
      }
      let read = longer.length;
      while (!begins(longer.slice(0, read))) read--;
      read = Math.max(read, text.length);
      const inside = read > text.length;
      const cut = inside && /\w/.test(longer[read - 1]) && /\w/.test(longer[read]);
      if (!cut) give(longer.slice(0, read), q);
    });
  };
  walk([], "", 1);
  return shares;
}

test("exact shares are those of a plain reading, for outputs that begin each other and tokens that pass the end", () => {
  const texts = ["", "a", "b", "ab", "a ", " b", "b!", "!", "ab a", "ba", " "];
  const tokens = texts.map((text) => new TextEncoder().encode(text));
  for (let seed = 1; seed <= 40; seed++) {
    for (const choices of [["a", "b"], ["a", "ab", "ab a"], ["a b", "ab!", "b"], ["ab", "ba ba"], ["!", "a!a", "a"]]) {
      const logits = model(texts.length, seed);
      const walk = exact(choices, tokens, logits, { tolerance: 0, mostRows: 1e6 });
      let step;
      do step = walk.next(); while (!step.done);
      const shares = plain(choices, texts, logits);
      const mass = shares.reduce((left, right) => left + right, 0);
      expect(step.value.mass).toBeCloseTo(mass, 6);
      shares.forEach((share, index) => expect(step.value.shares[index]).toBeCloseTo(share / mass, 6));
      expect(step.value.bound).toBeLessThan(1e-9);
      // Stopped early, it is right to the bound that it gives.
      const short = exact(choices, tokens, logits, { tolerance: 0.3 });
      do step = short.next(); while (!step.done);
      shares.forEach((share, index) => expect(Math.abs(step.value.shares[index] - share / mass)).toBeLessThanOrEqual(step.value.bound + 1e-6));
    }
  }
});

test("a letter in two halves counts as one where a word may be cut", () => {
  const half = Uint8Array.of(0xc3);
  const tokens = [new Uint8Array(), new TextEncoder().encode("a"), Uint8Array.of(97, ...half), new TextEncoder().encode("a.")];
  const walk = exact(["a"], tokens, () => new Float32Array(4), { tolerance: 0 });
  let step;
  do step = walk.next(); while (!step.done);
  // `a` and `a.` are the output; `a` with the first half of a letter is the beginning of a word.
  expect(step.value.mass).toBeCloseTo(0.5, 6);
});

/** A matcher of the token sequences `words`, over tokens of these texts. */
function matcher(words) {
  let ids = [];
  const next = () => new Set(words.filter((word) => ids.every((id, index) => word[index] === id) && word.length > ids.length).map((word) => word[ids.length]));
  return {
    advance(id) {
      if (!next().has(id)) throw new Error(`token ${id} is not allowed`);
      ids.push(id);
    },
    rollback: (count) => {
      ids = ids.slice(0, ids.length - count);
    },
    allowed: () => Uint32Array.from([...next()].sort((left, right) => left - right)),
    ids: () => ids,
  };
}

test("a prefix that is typed half: tokens are taken back, and what begins with their text may come next", () => {
  const texts = ["H", "e", "l", "o", " W", "or", "Hello", " World", " Wor", "x", "W"];
  // The longest token first, as a tokenizer of merges nearly does.
  const tokens = {
    encode(text) {
      const ids = [];
      for (let at = 0; at < text.length; ) {
        const [id] = texts.map((token, id) => [id, token]).filter(([, token]) => text.startsWith(token, at)).sort(([, left], [, right]) => right.length - left.length)[0];
        ids.push(id);
        at += texts[id].length;
      }
      return ids;
    },
    decode: (ids) => Array.from(ids).map((id) => texts[id]).join(""),
  };
  const world = [[6, 7]];
  expect(heal(tokens, matcher(world), "Hello")).toMatchObject({ ids: [6], rest: "", allowed: [7] });
  expect(heal(tokens, matcher(world), "Hello Wor")).toMatchObject({ ids: [6], rest: " Wor", allowed: [7] });
  expect(heal(tokens, matcher(world), "He")).toMatchObject({ ids: [], rest: "He", allowed: [6] });
  const spelled = matcher([[0, 1, 2, 2, 3, 4, 5]]);
  const answer = heal(tokens, spelled, "Helx");
  expect(answer.rejected).toMatchObject({ at: 3 });
  expect(answer.ids).toEqual([0, 1, 2]);
  expect(spelled.ids()).toEqual([0, 1, 2]);
});

/** All values of a JSON text by their pointers, from the values themselves. */
function pointers(value, at = "", all = []) {
  all.push([at, value]);
  if (Array.isArray(value)) value.forEach((item, index) => pointers(item, `${at}/${index}`, all));
  else if (value && typeof value === "object") {
    for (const [key, item] of Object.entries(value)) pointers(item, `${at}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, all);
  }
  return all;
}

test("places in JSON are those of the values", () => {
  const value = { "a/b~": [1, { 'q"}]': "x\\\",{" }, [], {}], "": { "é𝄞": [true, null, -1.5e3], c: "" }, last: [[["deep"]]] };
  for (const text of [JSON.stringify(value), JSON.stringify(value, null, 3), ` \n${JSON.stringify(value, null, "\t")}\n`]) {
    const all = pointers(value);
    const found = places(text, all.map(([pointer]) => pointer));
    expect(found.size).toBe(all.length);
    for (const [pointer, value] of all) {
      const { start, end } = found.get(pointer);
      expect(JSON.parse(text.slice(start, end))).toEqual(value);
    }
  }
  const text = '{"a": {"pattern": "x"}, "items": {"b": 1}}';
  const part = ({ start, end }) => text.slice(start, end);
  const [pattern, items] = [...places(text, ["/a/pattern", "/items"]).values()];
  expect(part(named(text, pattern))).toBe('"pattern": "x"');
  expect(part(named(text, items))).toBe('"items"');
  // What is no JSON, or very deep, ends.
  expect(places("[".repeat(100_000), [""]).size).toBe(0);
  expect(places(`${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`, ["", "/a/a"]).size).toBe(2);
  expect(places('{"a": "', ["/a"]).size).toBe(0);
});

test("the schemas of lists of tools", () => {
  expect(schemas({ tools: [{ name: "a", inputSchema: {} }, { name: "b" }] })).toEqual(["/tools/0/inputSchema", undefined]);
  expect(schemas([{ type: "function", function: { name: "a", parameters: {} } }, { name: "c", input_schema: {} }])).toEqual(["/0/function/parameters", "/1/input_schema"]);
});
