// The page: its three parts, and what they tell each other.

import * as constraint from "./constraint.js";
import { $ } from "./dom.js";
import * as mask from "./mask.js";
import * as skew from "./skew.js";

const broken = (message) => {
  $("broken").hidden = false;
  $("broken").textContent = message;
};

if (typeof WebAssembly === "object" && typeof DecompressionStream === "function") {
  // A file that is dropped beside a field would replace the page.
  for (const name of ["dragover", "drop"]) {
    addEventListener(name, (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
  }
  const changed = mask.begin(constraint.outputs);
  constraint.begin(changed);
  skew.begin();
} else {
  broken("This browser is too old for the engine: it needs WebAssembly and DecompressionStream (browsers since May 2023 have both).");
}
