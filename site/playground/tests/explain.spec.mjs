// The first part: what is enforced, and what is refused, with its place.

import { TIMED, expect, figure, kind, put, test, verdict } from "./playground.mjs";

const selected = (page) => page.evaluate(() => {
  const area = document.getElementById("source");
  return area.value.slice(area.selectionStart, area.selectionEnd);
});

test("the first paint comes within a second, without the model", async ({ playground: page, seen }) => {
  await expect(verdict(page)).toHaveText(/It can be used/);
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  figure("first contentful paint", `${paint.toFixed(0)} ms`);
  if (TIMED) expect(paint).toBeLessThan(1000);
  expect(seen.requests.filter((url) => url.includes("safetensors"))).toEqual([]);
  const ready = await page.evaluate(() => performance.now());
  figure("the first constraint explained, after opening, at most", `${ready.toFixed(0)} ms`);
});

test("a schema: each fate, its reason and its place", async ({ playground: page }) => {
  await expect(verdict(page)).toHaveText(/1 construct is narrowed/);
  const counts = page.locator("#counts");
  await expect(counts).toContainText("1 narrowed");
  await expect(counts).toContainText("enforced");
  const unknown = page.locator("#fates .annotation li", { hasText: "x-table" });
  await expect(unknown).toContainText("no keyword of JSON Schema");
  await unknown.getByRole("button").click();
  expect(await selected(page)).toContain("x-table");
  await expect(page.locator("#marks mark.chosen")).toContainText("x-table");
  await page.locator("#fates .narrowed li", { hasText: "format" }).getByRole("button").click();
  expect(await selected(page)).toContain("format");
});

test("a schema that is refused: the construct is marked", async ({ playground: page }) => {
  await page.getByLabel("Example", { exact: true }).first().selectOption({ label: "refused: a back-reference in a pattern" });
  await expect(verdict(page)).toHaveText(/^Refused: 1 construct/);
  await expect(page.locator("#fates .rejected li")).toContainText("list the texts that may repeat as alternatives");
  await expect(page.locator("#marks mark.rejected")).toContainText("pattern");
});

test("a text that is no JSON: the place is named and marked", async ({ playground: page }) => {
  await put(page, "source", '{"type": "object",\n  "properties": {"a": {"type": "string"}},,\n}');
  await expect(verdict(page)).toHaveText(/It cannot be read \(line 2, column 43\)/);
  await expect(page.locator("#marks mark.rejected")).toHaveText(",");
});

test("options change the answer", async ({ playground: page }) => {
  await kind(page, "Regex");
  await put(page, "source", "\\Z|a");
  await expect(verdict(page)).toHaveText(/It can be used/);
  await page.getByLabel("Dialect", { exact: true }).selectOption("rust");
  await expect(verdict(page)).not.toHaveText(/It can be used/);
  await kind(page, "Grammar");
  await put(page, "source", 'root ::= "a" root | "b"');
  await expect(verdict(page)).not.toHaveText(/It can be used/);
  await page.getByLabel("Notation", { exact: true }).selectOption("gbnf");
  await expect(verdict(page)).toHaveText(/It can be used/);
});

test("regexes and grammars: examples, and the place of what is refused", async ({ playground: page }) => {
  await kind(page, "Regex");
  await expect(verdict(page)).toHaveText(/enforced exactly/);
  await page.getByLabel("Example", { exact: true }).first().selectOption({ label: "refused: a back-reference" });
  await expect(verdict(page)).toHaveText(/^Refused/);
  await page.locator("#fates .rejected li button").click();
  const at = await page.evaluate(() => document.getElementById("source").selectionStart);
  expect(at).toBe("([a-z]+) and ".length);
  await kind(page, "Grammar");
  await expect(verdict(page)).toHaveText(/It can be used/);
  await page.getByLabel("Example", { exact: true }).first().selectOption({ label: "a list, in GBNF" });
  await expect(page.getByLabel("Notation", { exact: true })).toHaveValue("gbnf");
  await expect(verdict(page)).toHaveText(/It can be used/);
  await page.getByLabel("Example", { exact: true }).first().selectOption({ label: "refused: a rule that nobody defines" });
  await expect(page.locator("#fates .rejected li")).toContainText("`name` is not defined");
  await page.locator("#fates .rejected li button").click();
  expect(await selected(page)).toBe("name");
});

test("tools: the arguments of each", async ({ playground: page }) => {
  await kind(page, "MCP tools");
  await expect(verdict(page)).toHaveText(/2 tools|It can be used/);
  await expect(page.locator("#fates")).toContainText("create_event");
  await page.getByLabel("Example", { exact: true }).first().selectOption({ label: "one of them refused" });
  await expect(verdict(page)).toHaveText(/1 of 2 tools cannot be enforced/);
  await expect(page.locator("#fates .rejected li")).toContainText("lookup");
  await page.locator("#fates .rejected li button").click();
  expect(await selected(page)).toContain("pattern");
});

test("a file that is dropped is read", async ({ playground: page }) => {
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(['{"type": "boolean"}'], "mine.json", { type: "application/json" }));
    document.getElementById("source").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await expect(page.locator("#source")).toHaveValue('{"type": "boolean"}');
  await expect(page.locator("#source-note")).toHaveText("mine.json is read.");
  await expect(verdict(page)).toHaveText(/enforced exactly/);
});

/** A schema of about this many characters: records of twelve fields that refer to each other, as those of an API do. */
function large(characters) {
  const field = (i) => [
    { type: "string", minLength: 1, maxLength: 10 + (i % 50), description: "a text" },
    { type: "integer", minimum: i, maximum: 2 * i + 10 },
    { type: "array", items: { $ref: `#/$defs/record_${Math.max(0, Math.floor(i / 12) - 1)}` }, maxItems: 1 + (i % 4) },
    { enum: [`a${i}`, `b${i}`, i, null] },
    { type: "string", pattern: `^[a-f]{${1 + (i % 9)}}-[0-9]+$` },
    { anyOf: [{ type: "number" }, { type: "string", format: "date" }] },
  ][i % 6];
  const $defs = {};
  for (let n = 0, size = 0; size < characters; n++) {
    const properties = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`field_${12 * n + i}`, field(12 * n + i)]));
    $defs[`record_${n}`] = { type: "object", properties, required: [`field_${12 * n}`], additionalProperties: false };
    size += JSON.stringify($defs[`record_${n}`]).length + 50;
  }
  const items = { anyOf: Object.keys($defs).map((name) => ({ $ref: `#/$defs/${name}` })) };
  return JSON.stringify({ $defs, type: "object", properties: { items: { type: "array", items } }, required: ["items"] });
}

test("a schema of 100 KB is explained within 300 ms, to the painted answer", async ({ playground: page }) => {
  await expect(verdict(page)).toHaveText(/It can be used/);
  const times = [];
  for (let i = 0; i < 7; i++) {
    const text = large(100_000).replace("a text", `a text ${i}`);
    expect(text.length).toBeGreaterThan(99_000);
    times.push(await page.evaluate((text) => new Promise((done) => {
      const area = document.getElementById("source");
      area.value = text;
      const begin = performance.now();
      const watch = new MutationObserver(() => {
        watch.disconnect();
        // The frame after the one in which the answer stands is painted.
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begin)));
      });
      watch.observe(document.getElementById("counts"), { childList: true });
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }), text));
  }
  const inside = await page.locator("#counts .time").textContent();
  times.sort((left, right) => left - right);
  figure("explain of a 100 KB schema, input to paint", `median ${times[3].toFixed(0)} ms, worst ${times[6].toFixed(0)} ms (${inside})`);
  if (TIMED) expect(times[3]).toBeLessThan(300);
  await expect(page.getByRole("button", { name: /^Show all/ }).first()).toBeVisible();
  await page.getByRole("button", { name: /^Show all/ }).first().click();
});
