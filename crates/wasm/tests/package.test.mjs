// What the package promises besides the numbers: errors with kinds and places, hostile inputs, memory, types, size and the README.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { brotliCompressSync, constants } from "node:zlib";

import init, * as unskew from "unskew";

const { Constraint, Draws, Matcher, Model, Tokenizer, UnskewError, explain, sample, samplers } = unskew;
const folder = process.env.UNSKEW_PACKAGE;
const bytes = Tokenizer.bytes();

function fault(work, kind) {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof UnskewError && error instanceof Error, `${error.stack}`);
    if (kind) assert.equal(error.kind, kind, error.message);
    assert.ok(error.message.length > 5 && error.message.length < 5000, error.message);
    return error;
  }
  assert.fail(`no error, and ${kind} is due`);
}

test("errors have kinds and places", () => {
  const refused = fault(() => new Constraint(bytes, { regex: "é(" }), "constraint");
  assert.deepEqual([refused.place.start, refused.place.line, refused.place.column], [1, 1, 2]);
  const schema = '{\n "properties": {"a": {"minimum": "x"}}}';
  const value = fault(() => new Constraint(bytes, { json_schema: schema }), "constraint");
  assert.equal(schema.slice(value.place.start, value.place.end), '"x"');
  assert.equal(value.place.path, "#/properties/a/minimum");
  fault(() => new Constraint(bytes, { regx: "a" }), "spec");
  fault(() => new Constraint(bytes, { regex: "a", choices: ["b"] }), "spec");
  fault(() => new Constraint(bytes, { set: "/etc/passwd" }), "spec");
  fault(() => new Constraint(bytes, { regex: "a", canonical: true }), "combination");
  fault(() => new Constraint(bytes, { regex: "(a|b){2000}" }, { fuel: 10 }), "fuel");
  fault(() => Tokenizer.fromJson("{}"), "tokenizer");
  const matcher = new Constraint(bytes, { regex: "ab" }).matcher();
  assert.match(fault(() => matcher.advance(98), "token").message, /expected: "a"/);
  fault(() => matcher.rollback(1), "rollback");
  fault(() => matcher.advance(1 << 20), "argument");
  fault(() => sample(Model.of(bytes, () => []), { regex: "a" }, { sampler: "none" }), "sampler");
  assert.match(fault(() => new Constraint(bytes, { tools: [] }), "spec").message, /tool_style/);
});

test("arguments of wrong types are errors", () => {
  for (const wrong of [undefined, null, 1, "x", [], {}, Symbol.iterator, () => 1, NaN, -1, 2n ** 70n]) {
    fault(() => new Constraint(wrong, { regex: "a" }), "argument");
    if (typeof wrong !== "string" && !Array.isArray(wrong) && (wrong === null || typeof wrong !== "object")) {
      fault(() => new Constraint(bytes, wrong), "argument");
      fault(() => bytes.encode(wrong), "argument");
      fault(() => bytes.decode(wrong), "argument");
      fault(() => Tokenizer.fromJson(wrong), "argument");
    }
    const matcher = new Constraint(bytes, { regex: "a" }).matcher();
    if (!Number.isInteger(wrong)) fault(() => matcher.advance(wrong), "argument");
    if (!Number.isInteger(wrong)) fault(() => matcher.rollback(wrong), "argument");
    fault(() => matcher.apply(wrong), "argument");
    fault(() => sample(wrong, { regex: "a" }), "argument");
    if (wrong !== 1) fault(() => sample(Model.of(bytes, () => []), { regex: "a" }, { n: wrong ?? null }), "argument");
  }
  fault(() => new Matcher(), "argument");
  fault(() => new Draws(), "argument");
  fault(() => bytes.call(undefined, () => 1), "argument");
  fault(() => bytes.decode([1.5]), "argument");
  fault(() => bytes.token(999), "argument");
  fault(() => sample(Model.of(bytes, () => []), { regex: "a" }, { seeds: 1 }), "argument");
  fault(() => sample(Model.of(bytes, () => []), { regex: "a" }, { seed: 1.5 }), "argument");
  fault(() => new Constraint(bytes, { choices: [2n] }), "argument");
  const cycle = {};
  cycle.any_of = [cycle];
  fault(() => new Constraint(bytes, cycle), "argument");
});

test("a model that fails, or gives no rows, ends its draws with an error", async () => {
  const own = new Error("own");
  const of = (logits) => sample(Model.of(bytes, logits), { regex: "a|b" }, { seed: 1, n: 3 });
  assert.throws(() => of(() => { throw own; }).next(), own);
  for (const row of [undefined, null, 1, "text", [], [1, 2], new Float32Array(258)]) fault(() => of(() => row).next(), "model");
  fault(() => of(() => new Float32Array(257).fill(NaN)).next());
  const draws = of(() => []);
  fault(() => draws.next(), "model");
  assert.equal(draws.next().done, true);
  const slow = sample(Model.ofAsync(bytes, async () => []), { regex: "a|b" }, { n: 1 });
  fault(() => slow.next(), "argument");
  await assert.rejects((async () => { for await (const draw of slow) assert.fail(draw); })(), { kind: "model" });
  const rejecting = sample(Model.ofAsync(bytes, () => Promise.reject(own)), { regex: "a|b" }, { n: 1 });
  await assert.rejects((async () => { for await (const draw of rejecting) assert.fail(draw); })(), own);
  // A function that uses the package, and the draws themselves, while it is asked.
  let inner;
  const nested = of(() => {
    inner ??= fault(() => nested.next());
    assert.equal(explain({ regex: "a" }).ok, true);
    return new Float32Array(257);
  });
  assert.equal(nested.next().done, false);
  const flat = sample(Model.of(bytes, () => new Float32Array(257)), { regex: "a|b" }, { seed: 3n, n: 2, sampler: "masked" });
  assert.deepEqual([...flat].map((draw) => draw.text.length), [1, 1]);
  assert.equal(flat.seed, 3n);
  assert.match(flat.explain, /masked/);
  assert.ok(flat.logmass < 0);
});

test("hostile inputs are answers or errors", () => {
  const deep = (open, close, count) => open.repeat(count) + close.repeat(count);
  const texts = ["", "\0", "(", "((((((((((a*)*)*)*)*)*)*)*)*)*", "a{1000000000}", "(a{999}){999}", deep("(", ")", 100_000), "[^", "\ud800", "\\", "|".repeat(10_000), "(?=", "é".repeat(3000), ".*".repeat(3000)];
  const specs = texts.flatMap((text) => [
    { regex: text },
    { json_schema: text },
    { grammar: text, grammar_format: "lark" },
    { grammar: text, grammar_format: "gbnf" },
    { structural_tag: text },
    { choices: [text] },
    { json_schema: { pattern: text } },
  ]);
  specs.push(
    { json_schema: deep("[", "]", 100_000) },
    { json_schema: deep('{"a":', "}", 50_000) },
    { json_schema: `${'{"items":'.repeat(5000)}{}${"}".repeat(5000)}` },
    { json_schema: `${'{"not":'.repeat(120)}{}${"}".repeat(120)}` },
    { json_schema: { minLength: 1e15 } },
    { json_schema: { minItems: 1e9, items: { type: "integer" } } },
    { json_schema: { multipleOf: 1e-300 } },
    { json_schema: { $ref: "#" } },
    { json_schema: { $ref: "https://example.com/nothing.json" } },
    { json_schema: { allOf: Array.from({ length: 300 }, (_, n) => ({ not: { const: n } })) } },
    { json_schema: { enum: Array.from({ length: 20_000 }, (_, n) => `value ${n}`) } },
    { grammar: "start: start | start start", grammar_format: "lark" },
    { grammar: `start: ${"(".repeat(20_000)}"a"${")".repeat(20_000)}`, grammar_format: "lark" },
    { grammar: Array.from({ length: 2000 }, (_, n) => `r${n}: r${n + 1} r${n + 1}`).join("\n") + "\nr2000: \"a\"\nstart: r0", grammar_format: "lark" },
    { limits: { "grammar.nodes": 1e300 } },
    { any_of: Array.from({ length: 50 }, () => ({ regex: "a" })) },
  );
  let nested = {};
  for (let at = 0; at < 100_000; at++) nested = { any_of: [nested] };
  fault(() => explain(nested), "argument");
  specs.push(`${'{"any_of":['.repeat(3000)}{"regex":"a"}${"]}".repeat(3000)}`, deep('{"any_of":[', "]}", 60), "nonsense", "[]", "null", "\ud800");
  for (const spec of specs) {
    const answer = explain(spec);
    assert.equal(typeof answer.ok, "boolean");
    assert.notEqual(answer.error?.kind, "internal", answer.error?.message);
    try {
      const matcher = new Constraint(bytes, spec, { fuel: 5e7 }).matcher();
      for (let step = 0; step < 5 && !matcher.done; step++) {
        const allowed = matcher.allowed();
        matcher.advance(allowed[allowed.length >> 1]);
      }
    } catch (error) {
      assert.ok(error instanceof UnskewError && error.kind !== "internal", `${JSON.stringify(spec).slice(0, 200)}: ${error.stack}`);
    }
  }
});

test("50 MB are answered", () => {
  const text = "x".repeat(50_000_000);
  for (const spec of [{ regex: text }, { json_schema: text }, { json_schema: `{"enum": ["${text}"]}` }, { grammar: text, grammar_format: "lark" }, text]) {
    const answer = explain(spec);
    assert.ok(answer.error?.message !== undefined || answer.constructs.length > 0);
    assert.notEqual(answer.error?.kind, "internal", answer.error?.message);
    assert.ok((answer.error?.message ?? "").length < 5000);
  }
});

test("explanations have the data of the command line, and places", () => {
  const schema = JSON.stringify({ type: "object", properties: { age: { type: "integer", minimum: 18, title: "Age" } } }, null, 2);
  const { ok, constructs } = explain({ json_schema: schema });
  assert.ok(ok);
  const minimum = constructs.find((one) => one.construct === "minimum");
  assert.deepEqual([minimum.fate, schema.slice(minimum.place.start, minimum.place.end)], ["enforced", "18"]);
  const tools = explain({ tools: [{ name: "a", inputSchema: { type: "object" } }] });
  assert.deepEqual(tools.tools.map((tool) => [tool.tool, tool.fate]), [["a", "enforced"]]);
  assert.ok(explain({ choices: ["a"] }, bytes).ok);
});

test("a schema of 130 KB is explained", () => {
  const properties = {};
  for (let at = 0; JSON.stringify(properties).length < 100_000; at++) {
    properties[`field_${at}`] = { type: "string", maxLength: 10 + (at % 7), description: "a field" };
  }
  const schema = JSON.stringify({ type: "object", properties, additionalProperties: false }, null, 1);
  explain({ json_schema: '{"type": "integer"}' });
  const begin = performance.now();
  const answer = explain({ json_schema: schema });
  const took = performance.now() - begin;
  assert.ok(answer.ok && answer.constructs.length > 1000, answer.error?.message);
  console.log(`explain of ${schema.length} bytes: ${took.toFixed(0)} ms, ${answer.constructs.length} constructs`);
});

test("freed objects are errors, and memory is given back over 10,000 matchers", async () => {
  const constraint = new Constraint(bytes, { json_schema: { type: "array", items: { type: "integer" } } });
  const one = constraint.matcher();
  one.free();
  one.free();
  fault(() => one.mask(), "freed");
  const use = () => {
    const matcher = constraint.matcher();
    matcher.advance(91);
    matcher.mask();
    return matcher;
  };
  const memory = () => unskew.memoryForTests();
  for (let at = 0; at < 1000; at++) use().free();
  const before = memory();
  for (let at = 0; at < 10_000; at++) use().free();
  assert.equal(memory(), before);
  // Without `free`, the collector does it.
  for (let round = 0; round < 10; round++) {
    for (let at = 0; at < 1000; at++) use();
    globalThis.gc();
    await new Promise((resume) => setTimeout(resume, 5));
  }
  assert.ok(memory() - before <= 4 << 20, `${memory() - before} bytes more`);
  const tokens = Tokenizer.bytes();
  const kept = new Constraint(tokens, { regex: "a+" });
  tokens.free();
  assert.deepEqual([...kept.matcher().allowed()], [97]);
  fault(() => new Constraint(tokens, { regex: "a" }), "freed");
});

test("apply sets what the mask leaves out", () => {
  const matcher = new Constraint(bytes, { regex: "[a-c]x" }).matcher();
  const logits = new Float32Array(257).fill(1);
  matcher.apply(logits);
  assert.deepEqual([...logits.keys()].filter((id) => logits[id] === 1), [97, 98, 99]);
  fault(() => matcher.apply(new Float32Array(200)), "argument");
  assert.deepEqual([...new Constraint(bytes, { regex: "abc" }).matcher().forced()], [97, 98, 99]);
});

test("the names of the types are those of the module", () => {
  const types = readFileSync(join(folder, "unskew.d.ts"), "utf8");
  const declared = [...types.matchAll(/^export (?:declare )?(?:class|function|const) (\w+)/gm)].map((found) => found[1]);
  assert.deepEqual(declared.sort(), Object.keys(unskew).filter((name) => name !== "default" && !name.endsWith("ForTests")).sort());
  for (const name of ["Tokenizer", "Constraint", "Matcher", "Model", "Draws"]) {
    const body = types.slice(types.indexOf(`export class ${name} `)).split("\n}\n")[0];
    const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)(?:\(|:)/gm)].map((found) => found[1]).filter((member) => member !== "constructor");
    const own = Object.getOwnPropertyNames(unskew[name].prototype).concat("free");
    for (const member of members) assert.ok(own.includes(member), `${name}.${member}`);
    const left = own.filter((member) => !members.includes(member) && !["constructor", "call", "rows"].includes(member));
    assert.deepEqual(left, [], name);
  }
  assert.ok(samplers().some((one) => one.name === "cars" && one.distribution.length > 5));
});

test("a compiler of TypeScript accepts the README and refuses wrong uses", () => {
  const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc", { paths: [process.env.UNSKEW_TOOLS] });
  const readme = readFileSync(join(folder, "README.md"), "utf8");
  const blocks = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map((found) => found[1]);
  const compile = (name, text) => {
    const file = join(process.env.UNSKEW_TOOLS, name);
    writeFileSync(file, text);
    const options = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom,esnext.disposable", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck", "false"];
    // No types but those of the package: a folder that is not there. An empty list cannot be written on a command line.
    options.push("--typeRoots", join(process.env.UNSKEW_TOOLS, "no-types"));
    execFileSync(process.execPath, [tsc, ...options, file], { cwd: process.env.UNSKEW_TOOLS, encoding: "utf8" });
  };
  compile("readme.mts", blocks[0]);
  assert.throws(() => compile("wrong.mts", 'import { Constraint } from "unskew";\nnew Constraint(1, {});\n'));
});

test("the eight lines of the README run", async () => {
  const readme = readFileSync(join(folder, "README.md"), "utf8");
  const code = readme.match(/```js\n([\s\S]*?)```/)[1];
  assert.ok(code.trim().split("\n").length <= 8, code);
  const file = join(process.env.UNSKEW_TOOLS, "readme.mjs");
  writeFileSync(file, code);
  const said = execFileSync(process.execPath, [file], { encoding: "utf8" });
  assert.equal(said.trim(), readme.match(/```text\n([\s\S]*?)```/)[1].trim());
});

// The goal is 1.2 MB. By brotli, 1.42 MB of what wasm-opt is given is code: automata 0.16, notations 0.14, schemas 0.13, regexes of tokenizers
// 0.13, grammars 0.10, the engine 0.09, 117 sorts 0.08, samplers 0.07, collections and formats of std 0.11, transformers 0.05, hash tables 0.03,
// and the rest. Samplers and transformers in a second module would take 0.20 from the first; wasm-split makes it, which npm has no build of.
// Automata at the smallest level of optimisation are 0.09 less, and masks take up to a third longer. Data are 0.20: the classes of regexes 0.09,
// normalisation 0.06, paths of sources 0.005. The engines of the tokenizers' regexes (onepass, hybrid, backtracking) are default features that the
// library `tokenizers` asks for, and cargo cannot take them back. Functions that differ in constants alone, merged by wasm-opt, are 0.05 less
// before brotli and 0.001 more after it; functions in the order of their names are 0.02 more. Smaller sorts of std need a std of our own.
test("the module is at most 1.63 MB compressed", () => {
  const module = readFileSync(join(folder, "unskew_bg.wasm"));
  const packed = brotliCompressSync(module, { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } }).length;
  console.log(`${module.length} bytes, ${packed} by brotli`);
  assert.ok(packed <= 1_630_000, `${packed} bytes`);
});

// Each in a process of its own, since the module is broken then.
test("a panic is an error with its message, and so is all that follows", () => {
  const own = mkdtempSync(join(process.env.UNSKEW_TOOLS, "panic-"));
  const classes = pathToFileURL(join(folder, "unskew.js"));
  const code = `
    import { explain } from "unskew";
    import { panicForTests } from "${classes}";
    for (const work of [panicForTests, () => explain({ regex: "a" })]) {
      try { work(); } catch (error) { console.log(error.kind, error.message); }
    }`;
  writeFileSync(join(own, "panic.mjs"), code);
  const said = execFileSync(process.execPath, [join(own, "panic.mjs")], { encoding: "utf8" }).trim().split("\n");
  assert.equal(said.length, 2);
  for (const line of said) assert.match(line, /^internal a fault of unskew.*asked for/);
});

test("init is there, and does nothing twice", async () => {
  await init();
  await init();
  assert.equal(unskew.version, JSON.parse(readFileSync(join(folder, "package.json"))).version);
});
