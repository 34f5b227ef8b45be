// Elements of the page, made without markup: texts of users are text nodes, so nothing in them can become an element.

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

/** A new element. `props` are attributes, `class`, `on...` listeners; children are elements or texts. */
export function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

/** Milliseconds for people. Clocks of browsers are coarse, so less than a tenth is not told apart. */
export function time(ms) {
  if (ms === undefined) return "–";
  if (ms < 0.1) return "< 0.1 ms";
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** A count with separators. */
export const number = (count) => count.toLocaleString("en-GB");

/** A share in per cent, with as many digits as it needs to be told from nothing. */
export function percent(share) {
  if (share === 0) return "0\u00a0%";
  if (share < 0.0001) return "< 0.01\u00a0%";
  const digits = share < 0.001 ? 2 : 1;
  return `${(100 * share).toFixed(digits)}\u00a0%`;
}

/** A token as the package shows it for people, with its spaces (`␣`) less loud than its letters. */
export function visible(text) {
  return text.split(/(␣+)/).filter((part) => part !== "").map((part) =>
    part[0] === "␣" ? el("span", { class: "space" }, "·".repeat(part.length)) : part);
}

/** The characters that a text field takes. Beyond them the engine says no anyway, and a text area of the browser crawls. */
export const MOST = 1_000_000;

/**
 * Keeps a text field below `most` characters. What is longer is refused as a whole and said so, because a text that is cut somewhere is
 * another constraint than the one that was pasted.
 */
export function guard(field, most, say) {
  let before = field.value;
  const refuse = (length) =>
    say(`That is ${number(length)} characters; this field takes ${number(most)}. Nothing was pasted. The command line takes files: unskew explain --help.`);
  const room = () => most - field.value.length + (field.selectionEnd - field.selectionStart);
  const text = (event, data) => {
    const pasted = data?.getData("text/plain") ?? "";
    if (pasted.length <= room()) return;
    event.preventDefault();
    refuse(pasted.length);
  };
  field.addEventListener("paste", (event) => text(event, event.clipboardData));
  field.addEventListener("drop", (event) => text(event, event.dataTransfer));
  const keep = () => {
    before = field.value;
  };
  field.addEventListener("focus", keep);
  field.addEventListener("beforeinput", keep);
  field.addEventListener("input", (event) => {
    if (field.value.length <= most) {
      keep();
      return say("");
    }
    refuse(field.value.length);
    field.value = before.length <= most ? before : "";
    event.stopImmediatePropagation();
  });
}

/** Calls `take` with a file that is dropped on `area`. */
export function dropped(area, take) {
  const files = (event) => event.dataTransfer?.types.includes("Files");
  area.addEventListener("dragover", (event) => {
    if (!files(event)) return;
    event.preventDefault();
    area.classList.add("dropping");
  });
  area.addEventListener("dragleave", () => area.classList.remove("dropping"));
  area.addEventListener("drop", (event) => {
    area.classList.remove("dropping");
    const [file] = event.dataTransfer?.files ?? [];
    if (!file) return;
    event.preventDefault();
    take(file);
  });
}
