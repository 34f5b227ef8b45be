// The package in Node: the module is read from beside this file when it is imported.

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { initSync as start } from "./glue.js";
import { loaded, withFiles } from "./unskew.js";

export { Constraint, Draws, Matcher, Model, Tokenizer, UnskewError, applyMask, explain, sample, samplers, version } from "./unskew.js";

const { memory } = start({ module: readFileSync(new URL("./unskew_bg.wasm", import.meta.url)) });
loaded();

/** The module is loaded already. */
export default async function init() {}

/** So it is here. */
export function initSync() {}


/** The bytes of the module's memory, which never shrinks. */
export function memoryForTests() {
  return memory.buffer.byteLength;
}

withFiles((name, base) => readFile(base === undefined ? new URL(`./embedded/${name}`, import.meta.url) : new URL(name, base)));
