// The processor inside of transformers.js itself, over an ONNX model that is made here: a table of logits by the last token, since the registry of
// npm has no small language model. onnxruntime runs it, and the library loads, tokenizes and generates.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { AutoModelForCausalLM, AutoTokenizer, Tensor, env } from "@huggingface/transformers";
import { Constraint, Model, Tokenizer, UnskewError, sample } from "unskew";
import { constrain, modelOf, tokenizerOf } from "unskew/transformers";

const json = readFileSync(join(process.env.UNSKEW_PACKAGE, "embedded/tokenizer.json"));
const size = Tokenizer.fromJson(json).size;
// Longer than the vocabulary, as rows of models are.
const width = size + 8;

// The wire format of protobuf, as far as ONNX needs it here.
const varint = (value) => {
  const bytes = [];
  for (let left = BigInt(value); ; left >>= 7n) {
    if (left < 128n) return [...bytes, Number(left)];
    bytes.push(Number(left & 127n) | 128);
  }
};
const number = (field, value) => Buffer.from([...varint(field << 3), ...varint(value)]);
const bytesOf = (field, ...parts) => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part)));
  return Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(body.length)]), body]);
};

function onnx(table) {
  const dim = (of) => bytesOf(1, typeof of === "string" ? bytesOf(2, of) : number(1, of));
  const value = (name, type, dims) => [bytesOf(1, name), bytesOf(2, bytesOf(1, number(1, type), bytesOf(2, ...dims.map(dim))))];
  const [float, int64] = [1, 7];
  const node = bytesOf(1, bytesOf(1, "table"), bytesOf(1, "input_ids"), bytesOf(2, "logits"), bytesOf(3, "gather"), bytesOf(4, "Gather"));
  const tensor = bytesOf(5, number(1, width), number(1, width), number(2, float), bytesOf(8, "table"), bytesOf(9, Buffer.from(table.buffer)));
  const graph = bytesOf(
    7,
    node,
    bytesOf(2, "bigrams"),
    tensor,
    bytesOf(11, ...value("input_ids", int64, ["batch", "length"])),
    bytesOf(12, ...value("logits", float, ["batch", "length", width])),
  );
  return Buffer.concat([number(1, 8), bytesOf(2, "tests"), graph, bytesOf(8, number(2, 17))]);
}

const table = Float32Array.from({ length: width * width }, (_, at) => (Math.imul(at + 1, 2654435761) >>> 24) / 32);
const row = (last) => table.subarray(last * width, last * width + size);

const folder = mkdtempSync(join(process.env.UNSKEW_TOOLS, "onnx-"));
mkdirSync(join(folder, "onnx"));
writeFileSync(join(folder, "onnx/model.onnx"), onnx(table));
writeFileSync(join(folder, "tokenizer.json"), json);
writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ tokenizer_class: "GPT2Tokenizer" }));
const config = { model_type: "gpt2", architectures: ["GPT2LMHeadModel"], vocab_size: width, n_head: 1, n_layer: 1, n_embd: 8, eos_token_id: null };
writeFileSync(join(folder, "config.json"), JSON.stringify(config));
env.allowRemoteModels = false;
env.localModelPath = "/";

const model = await AutoModelForCausalLM.from_pretrained(folder, { dtype: "fp32", local_files_only: true });
const tokenizer = await AutoTokenizer.from_pretrained(folder, { local_files_only: true });
const tokens = tokenizerOf(tokenizer);

const generate = async (constraint, texts, options = {}) => {
  const inputs = tokenizer(texts, { padding: true });
  const length = inputs.input_ids.dims.at(-1);
  const output = await model.generate({ ...inputs, max_new_tokens: 40, ...options, ...constrain(constraint, options) });
  return output.tolist().map((ids) => ids.slice(length).map(Number));
};

test("the tokens are those of the file", () => {
  assert.equal(tokens.size, size);
  assert.deepEqual([...tokens.encode("Kind regards")], tokenizer.encode("Kind regards", { add_special_tokens: false }));
});

test("greedy outputs are those of a loop with the matcher", async () => {
  for (const spec of [{ regex: "[A-Z][a-z]{2,9}, [0-9]{2}" }, { choices: ["Thomas Hansen", "Peter Costa"] }, { json_schema: { type: "array", items: { type: "boolean" }, minItems: 2, maxItems: 3 } }]) {
    const constraint = new Constraint(tokens, spec);
    const [ids] = await generate(constraint, "Dear Ms Meyer");
    const matcher = constraint.matcher();
    let last = tokens.encode("Dear Ms Meyer").at(-1);
    for (const id of ids) {
      const logits = Float32Array.from(row(last));
      matcher.apply(logits);
      last = logits.indexOf(Math.max(...logits));
      assert.equal(id, last);
      matcher.advance(id);
    }
    assert.ok(matcher.done, tokens.decode(ids));
  }
});

test("sampled outputs of a batch satisfy the constraint", async () => {
  const constraint = new Constraint(tokens, { regex: "[a-f]{1,12}(x|yz)" });
  let lengths = new Set();
  for (let round = 0; round < 5; round++) {
    const outputs = await generate(constraint, ["one", "one", "one", "one"], { do_sample: true, top_k: 0, max_new_tokens: 30 });
    for (const ids of outputs) {
      // The library goes on until all sequences of a batch have ended.
      const matcher = constraint.matcher();
      const end = ids.findIndex((id) => {
        matcher.advance(id);
        return matcher.done;
      });
      // Behind its end come ids of any kind, also those that are no tokens.
      assert.ok(end >= 0, `${ids}`);
      assert.match(tokens.decode(ids.slice(0, end + 1)), /^[a-f]{1,12}(x|yz)$/);
      lengths.add(end);
    }
  }
  assert.ok(lengths.size > 1);
});

test("options of one call are refused in another", async () => {
  const options = constrain(new Constraint(tokens, { regex: "abc" }));
  const inputs = tokenizer("a long prompt, to begin with");
  await model.generate({ ...inputs, ...options, max_new_tokens: 9 });
  await assert.rejects(model.generate({ ...tokenizer("b"), ...options, max_new_tokens: 9 }), UnskewError);
  assert.throws(() => tokenizerOf({}), UnskewError);
});

test("faithful outputs are those of the same rows as a function", async () => {
  const spec = { regex: "[a-c]{1,3}(x|yz)" };
  const options = { sampler: "cars", seed: 5, n: 6, prompt: "Dear" };
  const expected = [...sample(Model.of(tokens, (ids) => row(ids.at(-1))), spec, options)];
  const drawn = [];
  for await (const draw of sample(modelOf(model, tokens, Tensor), spec, options)) drawn.push(draw);
  assert.deepEqual(drawn.map((draw) => draw.text), expected.map((draw) => draw.text));
  assert.deepEqual(drawn.map((draw) => draw.logprob), expected.map((draw) => draw.logprob));
});
