// The second part: the mask as tokens.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, figure, kind, put, test } from "./playground.mjs";

const allowed = (page) => page.locator("#allowed");
const chips = (page) => page.locator("#tokens .chip");

async function regex(page, text, prefix) {
  await kind(page, "Regex");
  await put(page, "source", text);
  await put(page, "prefix", prefix);
}

test("the mask after a prefix: tokens, what is forced, the end", async ({ playground: page }) => {
  await regex(page, "[0-9]{2}(!|ab)?", "");
  // The digits and the numbers of two digits are the tokens of this vocabulary that begin such a text.
  await expect(page.locator("#ending")).toHaveText("no");
  for (const chip of await chips(page).allTextContents()) expect(chip).toMatch(/^[0-9]{1,2}(!|a|ab)?$/);
  await put(page, "prefix", "42");
  await expect(page.locator("#ending")).toHaveText("yes");
  expect(new Set(await chips(page).allTextContents())).toEqual(new Set(["!", "a"].concat((await chips(page).allTextContents()).includes("ab") ? ["ab"] : [])));
  await put(page, "prefix", "42a");
  await expect(page.locator("#forced")).toHaveText("b");
  await expect(allowed(page)).toHaveText(/^1 of 2,048/);
  await put(page, "prefix", "42ab");
  await expect(page.locator("#ending")).toHaveText("it has ended");
});

test("a token that is chosen is appended", async ({ playground: page }) => {
  await regex(page, "x(yes|no)", "x");
  await chips(page).filter({ hasText: /^n$/ }).click();
  await expect(page.locator("#prefix")).toHaveValue("xn");
  await expect(page.locator("#prefix")).toBeFocused();
  await expect(page.locator("#forced")).toHaveText("o");
});

test("a prefix that leaves the constraint: the place, and what is expected", async ({ playground: page }) => {
  await regex(page, "Hello( World)+", "Hello Wox");
  await expect(page.locator("#prefix-note")).toContainText("leaves the constraint after 8 characters");
  await expect(page.locator("#prefix-tokens .refused")).toHaveText("x");
  await expect(allowed(page)).toHaveText("–");
});

test("canonical: a text that is typed half is no end of the mask", async ({ playground: page }) => {
  await regex(page, "Hello( World)+", "Hello");
  await page.getByLabel(/canonical/).first().check();
  await expect(page.locator("#prefix-tokens")).not.toHaveText("");
  for (const text of ["H", "He", "Hel", "Hell", "Hello", "Hello ", "Hello W", "Hello Wo", "Hello Wor", "Hello Worl", "Hello World"]) {
    await put(page, "prefix", text);
    await expect(page.locator("#prefix-note")).not.toContainText("No output begins");
    await expect(allowed(page)).toHaveText(/ of 2,048/);
  }
});

test("find, and more", async ({ playground: page }) => {
  await regex(page, ".*", "");
  await expect(chips(page)).toHaveCount(240);
  await page.getByRole("button", { name: "Show more" }).click();
  await expect(chips(page)).toHaveCount(720);
  await page.getByLabel("Find among the allowed tokens", { exact: true }).fill("ing");
  await expect(page.locator("#found")).toHaveText(/^\d+ of [\d,]+$/);
  for (const chip of await chips(page).allTextContents()) expect(chip).toContain("ing");
});

test("three tokenizers", async ({ playground: page }) => {
  await regex(page, '\\{"name": "[A-Z][a-z]+", "age": [1-9][0-9]\\}', '{"name": "');
  for (const [name, size] of [["embedded", "2,048"], ["gpt2", "50,257"], ["qwen3", "151,"]]) {
    const begin = Date.now();
    await page.getByLabel("Tokenizer", { exact: true }).selectOption(name);
    await expect(allowed(page)).toContainText(` of ${size}`, { timeout: 60_000 });
    const text = async (id) => page.locator(`#${id}`).textContent();
    figure(`${name}: regex`, `${await text("allowed")}, compile ${await text("compile-time")}, first mask ${await text("mask-time")}, all with loading ${Date.now() - begin} ms`);
    for (const chip of await chips(page).allTextContents()) expect(chip).toMatch(/^[A-Z][a-z]*"?,?·?"?$/);
    await page.getByLabel(/canonical/).first().check();
    await expect(allowed(page)).toContainText(` of ${size}`, { timeout: 60_000 });
    await page.getByLabel(/canonical/).first().uncheck();
  }
});

test("a tokenizer.json of one's own; what is none is said", async ({ playground: page }) => {
  const own = readFileSync(join(process.env.PLAYGROUND, "unskew", "embedded", "tokenizer.json"));
  await regex(page, "[ab]+", "");
  await page.locator("#tokenizer-file").setInputFiles({ name: "own.json", mimeType: "application/json", buffer: own });
  await expect(page.getByLabel("Tokenizer", { exact: true })).toHaveValue("file");
  await expect(allowed(page)).toHaveText(/ of 2,048/);
  await page.locator("#tokenizer-file").setInputFiles({ name: "broken.json", mimeType: "application/json", buffer: Buffer.from('{"model": 3}') });
  await expect(page.locator("#prefix-note")).toContainText("No mask:");
  await expect(allowed(page)).toHaveText("–");
  await page.getByLabel("Tokenizer", { exact: true }).selectOption("embedded");
  await expect(allowed(page)).toHaveText(/ of 2,048/);
});

test("tools: the calls of a family of models", async ({ playground: page }) => {
  await kind(page, "MCP tools");
  await page.getByLabel("Family of the model", { exact: true }).selectOption("hermes");
  await expect(allowed(page)).toHaveText(/ of 2,048/);
  await put(page, "prefix", "<tool_call>\n");
  await expect(page.locator("#prefix-note")).not.toContainText("No output begins");
  await expect(chips(page).first()).toHaveText(/^\{/);
  for (const chip of await chips(page).allTextContents()) expect(chip).toMatch(/^\{/);
});

test("a constraint that is refused has no mask, and says why", async ({ playground: page }) => {
  await regex(page, "(a)\\1", "");
  await expect(page.locator("#prefix-note")).toContainText("No mask:");
  await expect(page.locator("#prefix-note")).toContainText("back-reference");
  await expect(page.locator("#bits")).toBeHidden();
});

test("schemas, grammars and their first masks", async ({ playground: page }) => {
  for (const name of ["JSON Schema", "Grammar"]) {
    await kind(page, name);
    await expect(allowed(page)).toHaveText(/ of 2,048/);
    const text = async (id) => page.locator(`#${id}`).textContent();
    await expect(page.locator("#verdict")).not.toHaveText(/loading/);
    figure(`${name}, first example`, `compile ${await text("compile-time")}, first mask ${await text("mask-time")}`);
  }
});
