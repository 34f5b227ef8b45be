// The classes of the package, over what wasm-bindgen makes of the module (`glue.js`). Loading is the business of `web.js` and `node.js`.
//
// Each call goes through `call`, which makes errors of faults, and names a panic. What has structure crosses the boundary as JSON.

import * as glue from "./glue.js";

const CHECK = Symbol("inside");

/** An error of this package: `kind` says which, and `place` where in the text of a constraint. */
export class UnskewError extends Error {
  constructor(kind, message, place) {
    super(message);
    this.name = "UnskewError";
    this.kind = kind;
    if (place !== undefined) this.place = place;
  }
}

// Why the module is not to be used any more.
let broken;
let isLoaded = false;

/** Told by the loader. */
export function loaded() {
  isLoaded = true;
}

function call(work) {
  if (broken) throw new UnskewError("internal", broken);
  if (!isLoaded) throw new UnskewError("argument", "the module is not loaded: `await init()` first");
  try {
    return work();
  } catch (error) {
    if (typeof error === "string") {
      const { kind, message, place } = JSON.parse(error);
      throw new UnskewError(kind, message, place);
    }
    if (error instanceof WebAssembly.RuntimeError || error instanceof RangeError) {
      // The module's memory is in an unknown state.
      broken = `a fault of unskew, and not of its caller: ${(panic() ?? error.message).replace(/\s+/g, " ")}; load the module anew`;
      throw new UnskewError("internal", broken);
    }
    throw error;
  }
}

function panic() {
  try {
    return glue.lastPanic();
  } catch {
    return undefined;
  }
}

function argument(message) {
  return new UnskewError("argument", message);
}

function whole(name, value, least = 0, most = 0xffffffff) {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw argument(`\`${name}\` is ${String(value)}: give a whole number from ${least} to ${most}`);
  }
  return value;
}

function idsOf(name, ids) {
  if (ids instanceof Uint32Array) return ids;
  if (ids === null || typeof ids !== "object") throw argument(`\`${name}\` is no list of ids`);
  return Uint32Array.from(Array.from(ids), (id) => whole(name, id));
}

function textOf(name, text) {
  if (typeof text !== "string") throw argument(`\`${name}\` is a ${typeof text}: give a text`);
  return text;
}

function bytesOf(name, bytes) {
  if (typeof bytes === "string") return new TextEncoder().encode(bytes);
  if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes);
  if (ArrayBuffer.isView(bytes)) return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  throw argument(`\`${name}\` is neither a text nor bytes`);
}

// The JSON of a spec.
function specOf(spec) {
  if (typeof spec === "string") return spec;
  if (spec === null || typeof spec !== "object") throw argument("a spec is an object, or its JSON");
  try {
    // A big integer has no JSON, and a cycle none either.
    return JSON.stringify(spec);
  } catch (error) {
    throw argument(`the spec has no JSON: ${error.message}`);
  }
}

// An object of this package with that of the module inside.
class Handle {
  #inner;

  constructor(check, inner) {
    if (check !== CHECK) throw argument(`${new.target.name} has no constructor: see its static methods`);
    this.#inner = inner;
  }

  static inner(object, Class, name) {
    if (!(object instanceof Class)) throw argument(`\`${name}\` is no ${Class.name} of this package`);
    return object.#use();
  }

  #use() {
    if (this.#inner === undefined) throw new UnskewError("freed", `the ${this.constructor.name} is used after its \`free()\``);
    return this.#inner;
  }

  call(check, work) {
    if (check !== CHECK) throw argument("not for use from outside");
    const inner = this.#use();
    return call(() => work(inner));
  }

  free() {
    const inner = this.#inner;
    this.#inner = undefined;
    if (inner !== undefined && !broken) call(() => inner.free());
  }
}
if (Symbol.dispose) Handle.prototype[Symbol.dispose] = Handle.prototype.free;

const innerOf = Handle.inner;

/** The tokens of a model. */
export class Tokenizer extends Handle {
  static fromJson(json, { ends = [] } = {}) {
    const bytes = bytesOf("json", json);
    const own = idsOf("ends", ends);
    return new Tokenizer(CHECK, call(() => glue.Tokenizer.fromJson(bytes, own)));
  }

  static bytes() {
    return new Tokenizer(CHECK, call(() => glue.Tokenizer.bytes()));
  }

  get size() {
    return this.call(CHECK, (it) => it.size);
  }

  get ends() {
    return this.call(CHECK, (it) => it.ends);
  }

  get maskWords() {
    return this.call(CHECK, (it) => it.maskWords);
  }

  encode(text) {
    textOf("text", text);
    return this.call(CHECK, (it) => it.encode(text));
  }

  encodePrompt(text) {
    textOf("text", text);
    return this.call(CHECK, (it) => it.encodePrompt(text));
  }

  decode(ids) {
    const own = idsOf("ids", ids);
    return this.call(CHECK, (it) => it.decode(own));
  }

  token(id) {
    whole("id", id);
    return this.call(CHECK, (it) => it.token(id));
  }

  tokenBytes(id) {
    whole("id", id);
    return this.call(CHECK, (it) => it.tokenBytes(id));
  }
}

/** The fate of every construct of a constraint. */
export function explain(spec, tokenizer) {
  const json = specOf(spec);
  // The handle is given away.
  const tokens = tokenizer === undefined ? undefined : innerOf(tokenizer, Tokenizer, "tokenizer").handle();
  return JSON.parse(call(() => glue.explain(json, tokens)));
}

/** A constraint, compiled for a tokenizer. */
export class Constraint extends Handle {
  constructor(tokenizer, spec, { fuel } = {}) {
    const tokens = innerOf(tokenizer, Tokenizer, "tokenizer");
    if (fuel !== undefined && !(typeof fuel === "number" && fuel > 0)) throw argument(`\`fuel\` is ${String(fuel)}: give a number above 0`);
    const json = specOf(spec);
    super(CHECK, call(() => new glue.Constraint(tokens, json, fuel)));
  }

  matcher({ stopIds } = {}) {
    const stops = stopIds === undefined ? undefined : idsOf("stopIds", stopIds);
    return new Matcher(CHECK, this.call(CHECK, (it) => it.matcher(stops)));
  }

  get fuel() {
    return this.call(CHECK, (it) => it.fuel);
  }

  get memory() {
    return this.call(CHECK, (it) => it.memory);
  }
}

/** One sequence under a constraint. */
export class Matcher extends Handle {
  mask() {
    return this.call(CHECK, (it) => it.mask());
  }

  allowed() {
    return this.call(CHECK, (it) => it.allowed());
  }

  apply(logits) {
    if (!(logits instanceof Float32Array)) throw argument("`logits` is no Float32Array");
    const mask = this.mask();
    if (logits.length > mask.length * 32 || logits.length <= (mask.length - 1) * 32) {
      throw argument(`\`logits\` has ${logits.length} entries, and the mask ${mask.length} words of 32: the vocabulary is another`);
    }
    applyMask(mask, logits);
  }

  advance(id) {
    whole("id", id);
    this.call(CHECK, (it) => it.advance(id));
  }

  allows(id) {
    whole("id", id);
    return this.call(CHECK, (it) => it.allows(id));
  }

  rollback(count) {
    whole("count", count);
    this.call(CHECK, (it) => it.rollback(count));
  }

  reset() {
    this.call(CHECK, (it) => it.reset());
  }

  forced() {
    return this.call(CHECK, (it) => it.forced());
  }

  get ids() {
    return this.call(CHECK, (it) => it.ids);
  }

  get canEnd() {
    return this.call(CHECK, (it) => it.canEnd);
  }

  get done() {
    return this.call(CHECK, (it) => it.done);
  }

  fork() {
    return new Matcher(CHECK, this.call(CHECK, (it) => it.fork()));
  }
}

/** Sets the logits that a mask leaves out to minus infinity. */
export function applyMask(mask, logits) {
  for (let word = 0; word < mask.length; word++) {
    const bits = mask[word];
    const begin = word * 32;
    if (bits === 0xffffffff) continue;
    const end = Math.min(begin + 32, logits.length);
    if (bits === 0) {
      logits.fill(-Infinity, begin, end);
      continue;
    }
    for (let id = begin; id < end; id++) {
      if (((bits >>> (id - begin)) & 1) === 0) logits[id] = -Infinity;
    }
  }
}

/** A language model with its tokens. */
export class Model extends Handle {
  #rows;
  #isAsync = false;
  #tokenizer;

  static fromCheckpoint({ config, tokenizer, weights }) {
    textOf("config", config);
    const [own, bytes] = [bytesOf("tokenizer", tokenizer), bytesOf("weights", weights)];
    return new Model(CHECK, call(() => glue.Model.fromCheckpoint(config, own, bytes)));
  }

  static of(tokenizer, logits) {
    return Model.#ofFunction(tokenizer, logits, false);
  }

  static ofAsync(tokenizer, logits) {
    return Model.#ofFunction(tokenizer, logits, true);
  }

  static #ofFunction(tokenizer, logits, isAsync) {
    const tokens = innerOf(tokenizer, Tokenizer, "tokenizer");
    if (typeof logits !== "function") throw argument("`logits` is no function");
    const model = new Model(CHECK, call(() => glue.Model.given(tokens)));
    model.#rows = logits;
    model.#isAsync = isAsync;
    return model;
  }

  get tokenizer() {
    this.#tokenizer ??= new Tokenizer(CHECK, this.call(CHECK, (it) => it.tokenizer));
    return this.#tokenizer;
  }

  get isAsync() {
    return this.#isAsync;
  }

  logits(ids) {
    const own = idsOf("ids", ids);
    return this.call(CHECK, (it) => it.logits(own));
  }

  /** The function, for draws. */
  rows(check) {
    return check === CHECK ? this.#rows : undefined;
  }
}

const OVER = 0;
const PASS = 1;

/** Outputs, drawn as they are asked for. */
export class Draws extends Handle {
  #rows;
  #isAsync;
  #isOver = false;
  #isAsked = false;

  constructor(check, inner, rows, isAsync) {
    super(check, inner);
    this.#rows = rows;
    this.#isAsync = isAsync;
  }

  // To the next output, or to the next pass.
  #poll() {
    try {
      const reached = this.#isOver ? OVER : this.call(CHECK, (it) => it.poll());
      this.#isOver = reached === OVER;
      return reached;
    } catch (error) {
      this.#isOver = true;
      throw error;
    }
  }

  #output() {
    const [json, ids] = this.call(CHECK, (it) => [it.draw(), it.drawIds()]);
    const { is_json, ...draw } = JSON.parse(json);
    draw.ids = ids;
    if (is_json && draw.finish === "stop") {
      // A constraint may allow more than JSON.parse reads, such as numbers beyond its range; then there is no value.
      try {
        draw.value = JSON.parse(draw.text);
      } catch {
        draw.value = undefined;
      }
    }
    return draw;
  }

  #prefixes() {
    return this.call(CHECK, (it) => Array.from({ length: it.wants }, (_, at) => it.wanted(at)));
  }

  #give(at, row) {
    if (!(row instanceof Float32Array)) {
      if (row === null || typeof row !== "object" || typeof row.length !== "number") {
        throw new UnskewError("model", "the model gave no row of numbers");
      }
      row = Float32Array.from(row);
    }
    this.call(CHECK, (it) => it.give(at, row));
  }

  // An error of the model ends the draws.
  #answer(work) {
    try {
      work();
      this.call(CHECK, (it) => it.evaluate());
    } catch (error) {
      this.#isOver = true;
      throw error;
    }
  }

  // Two loops over the same draws would answer the same question.
  #ask() {
    if (this.#isAsked) throw argument("the model is asked already: wait for the output before the next");
    this.#isAsked = true;
  }

  #pass() {
    if (this.#isAsync) throw argument("the model is asynchronous: use `for await`");
    this.#ask();
    try {
      this.#answer(() => {
        if (this.#rows) this.#prefixes().forEach((prefix, at) => this.#give(at, this.#rows(prefix)));
      });
    } finally {
      this.#isAsked = false;
    }
  }

  async #passAsync() {
    if (!this.#isAsync) return this.#pass();
    this.#ask();
    try {
      const prefixes = this.#prefixes();
      const rows = await this.#rows(prefixes);
      if (!Array.isArray(rows) || rows.length !== prefixes.length) {
        throw new UnskewError("model", `the model was asked for ${prefixes.length} rows, and gave ${rows?.length ?? "none"}`);
      }
      this.#answer(() => rows.forEach((row, at) => this.#give(at, row)));
    } catch (error) {
      this.#isOver = true;
      throw error;
    } finally {
      this.#isAsked = false;
    }
  }

  step() {
    const reached = this.#poll();
    if (reached === OVER) return { done: true };
    if (reached !== PASS) return { done: false, draw: this.#output() };
    this.#pass();
    return { done: false };
  }

  next() {
    for (;;) {
      const { done, draw } = this.step();
      if (done) return { done: true, value: undefined };
      if (draw) return { done: false, value: draw };
    }
  }

  [Symbol.iterator]() {
    return { next: () => this.next(), [Symbol.iterator]() { return this; } };
  }

  async *[Symbol.asyncIterator]() {
    let last = performance.now();
    for (;;) {
      const reached = this.#poll();
      if (reached === OVER) return;
      if (reached !== PASS) {
        yield this.#output();
        continue;
      }
      await this.#passAsync();
      // Other tasks of a page come in between, and not only other promises.
      if (!this.#isAsync && performance.now() - last > 8) {
        await new Promise((resume) => setTimeout(resume));
        last = performance.now();
      }
    }
  }

  get seed() {
    return this.call(CHECK, (it) => it.seed);
  }

  get sampler() {
    return this.call(CHECK, (it) => it.sampler);
  }

  get explain() {
    return this.call(CHECK, (it) => it.explain);
  }

  get logmass() {
    return this.call(CHECK, (it) => it.logmass());
  }
}

const OPTIONS = ["sampler", "n", "seed", "prompt", "maxTokens", "temperature", "topK", "topP", "batch"];

/** Draws outputs of a model under a constraint. */
export function sample(model, spec, options = {}) {
  const inner = innerOf(model, Model, "model");
  const json = specOf(spec);
  if (options === null || typeof options !== "object") throw argument("`options` is no object");
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) throw argument(`\`${unknown}\` is no option of \`sample\`: it has ${OPTIONS.join(", ")}`);
  let { sampler, n, seed, prompt, maxTokens, temperature, topK, topP, batch } = options;
  for (const [name, value] of Object.entries({ n, maxTokens, topK, batch })) {
    if (value !== undefined) whole(name, value);
  }
  for (const [name, value] of Object.entries({ temperature, topP })) {
    if (value !== undefined && !Number.isFinite(value)) throw argument(`\`${name}\` is ${String(value)}: give a number`);
  }
  if (sampler !== undefined) textOf("sampler", sampler);
  if (typeof seed === "number" && !Number.isSafeInteger(seed)) throw argument("`seed` is no whole number; beyond 2^53 give a BigInt");
  seed ??= crypto.getRandomValues(new BigUint64Array(1))[0];
  const prompts = typeof prompt === "string" ? { prompt } : prompt === undefined ? {} : { promptIds: Array.from(idsOf("prompt", prompt)) };
  const own = JSON.stringify({ sampler, n, seed: String(seed), maxTokens, temperature, topK, topP, batch, ...prompts });
  const draws = call(() => new glue.Draws(inner, json, own));
  return new Draws(CHECK, draws, model.rows(CHECK), model.isAsync);
}

/** The samplers by name. */
export function samplers() {
  return JSON.parse(call(() => glue.samplers()));
}

/** For tests of what JavaScript is told of a panic. */
export function panicForTests() {
  call(() => glue.panicForTests());
}

export const version = "VERSION";

const EMBEDDED = { config: "config.json", tokenizer: "tokenizer.json", weights: "model.safetensors" };

/** Adds what reads files, which the loader knows how to. `read(name, base)` has the bytes of a file of the embedded model. */
export function withFiles(read) {
  const file = async (name, base) => {
    try {
      return await read(EMBEDDED[name], base);
    } catch (error) {
      throw new UnskewError("model", `the embedded model is not there: ${error.message}`);
    }
  };
  Model.embedded = async (base) => {
    const [config, tokenizer, weights] = await Promise.all(["config", "tokenizer", "weights"].map((name) => file(name, base)));
    return Model.fromCheckpoint({ config: new TextDecoder().decode(config), tokenizer, weights });
  };
  Tokenizer.embedded = async (base) => Tokenizer.fromJson(await file("tokenizer", base));
}
