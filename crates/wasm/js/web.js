// The package in browsers and for bundlers: the module is fetched from beside this file, unless `init` is told where it is.

import load, { initSync as start } from "./glue.js";
import { loaded, withFiles } from "./unskew.js";

export { Constraint, Draws, Matcher, Model, Tokenizer, UnskewError, applyMask, explain, sample, samplers, version } from "./unskew.js";

let loading;

/** Loads the module. */
export default function init(input) {
  loading ??= load({ module_or_path: input ?? new URL("./unskew_bg.wasm", import.meta.url) }).then(loaded, (error) => {
    loading = undefined;
    throw error;
  });
  return loading;
}

/** The same from bytes or a compiled module, without waiting. */
export function initSync(module) {
  start({ module });
  loaded();
}

withFiles(async (name, base) => {
  const url = base === undefined ? new URL(`./embedded/${name}`, import.meta.url) : new URL(name, new URL(base, globalThis.location?.href));
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
});
