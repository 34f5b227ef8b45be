// Input that wants to harm: the page answers, and lives.

import { alive, expect, figure, kind, put, test, verdict } from "./playground.mjs";

test.setTimeout(400_000);

test("regexes that explode end with an answer", async ({ playground: page }) => {
  await kind(page, "Regex");
  for (const text of ["((a{1,500}){1,500}){1,500}", "(.*a){40}b{1000}.{1000}", "(a|b)*a(a|b){60}", `${"(".repeat(5000)}a${")".repeat(5000)}`, "(?<=a{900}.{900})b", "(x+x+)+y", "[\\w]{1000}".repeat(200)]) {
    const begin = Date.now();
    await put(page, "source", text);
    await expect(verdict(page)).toHaveText(/^(It |Refused|The engine gave no answer)/);
    figure(`regex ${text.slice(0, 30)}`, `${Date.now() - begin} ms: ${(await verdict(page).textContent()).slice(0, 100)}`);
  }
  await alive(page);
});

test("a schema that is nested 10,000 deep", async ({ playground: page }) => {
  for (const text of [
    `${'{"type":"array","items":'.repeat(10_000)}{}${"}".repeat(10_000)}`,
    "[".repeat(100_000),
    `${'{"not":'.repeat(10_000)}{}${"}".repeat(10_000)}`,
    `${'{"properties":{"a":'.repeat(10_000)}true${"}}".repeat(10_000)}`,
  ]) {
    const begin = Date.now();
    await put(page, "source", text);
    await expect(verdict(page)).toHaveText(/^(It cannot be read|Refused|The engine gave no answer)/, { timeout: 40_000 });
    figure(`nested ${text.slice(0, 20)}`, `${Date.now() - begin} ms: ${(await verdict(page).textContent()).slice(0, 120)}`);
  }
  await kind(page, "MCP tools");
  await put(page, "source", `{"tools":[{"name":"a","inputSchema":${'{"items":'.repeat(10_000)}{}${"}".repeat(10_000)}}]}`);
  await expect(verdict(page)).toHaveText(/^(It cannot be read|Refused|1 of 1 tools|The engine gave no answer)/, { timeout: 40_000 });
  await alive(page);
});

test("markup in every text field stays text", async ({ playground: page }) => {
  const evil = '"><img src=x onerror="window.hit=1"><script>window.hit=1</scr' + 'ipt><svg onload="window.hit=1">';
  const clean = async () => {
    expect(await page.evaluate(() => [window.hit, document.querySelectorAll("main img, main script, main svg").length])).toEqual([undefined, 0]);
  };
  const quoted = JSON.stringify(evil);
  for (const [name, texts] of [
    ["JSON Schema", [evil, `{"type": ${quoted}}`, `{"enum": [${quoted}], ${quoted}: 1}`, `{"properties": {${quoted}: {"pattern": "(a)\\\\1"}}}`, `{"$ref": ${quoted}}`]],
    ["Regex", [evil, `(?P<${evil}>a)`]],
    ["Grammar", [evil, `start: ${quoted}`, `start: "${evil}`]],
    ["MCP tools", [evil, `{"tools":[{"name": ${quoted}, "inputSchema": {"type": ${quoted}}}]}`, `[{"name": ${quoted}, "inputSchema": {}}]`]],
  ]) {
    await kind(page, name);
    for (const text of texts) {
      await put(page, "source", text);
      await put(page, "prefix", evil);
      await page.locator("#find").fill(evil);
      await expect(verdict(page)).not.toHaveText("The engine is loading.");
      await page.waitForTimeout(250);
      await clean();
    }
  }
  await put(page, "find", "");
  await kind(page, "Regex");
  await put(page, "source", "<img src=x onerror=window.hit=1>(a|b)");
  await put(page, "prefix", "<img src=x onerror=window.hit=1>");
  await expect(page.locator("#allowed")).toHaveText(/of 2,048/);
  await clean();
  await page.locator("#tokenizer-file").setInputFiles({ name: `${evil.replaceAll("/", "")}.json`, mimeType: "application/json", buffer: Buffer.from(evil) });
  await expect(page.locator("#prefix-note")).toContainText("No mask:");
  await put(page, "prompt", evil);
  await put(page, "choices", `${evil.slice(0, 100)}\n<b>bold</b>\n&lt;i&gt;`);
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  await page.getByLabel("Draws", { exact: true }).selectOption("100");
  await page.getByRole("button", { name: /draw/i }).click();
  await expect(page.locator("#skew-status")).toHaveText(/would have been others|no probability|stopped/, { timeout: 90_000 });
  await clean();
});

test("a paste of 50 MB is refused in a friendly way, into each field", async ({ playground: page }) => {
  const before = await page.locator("#source").inputValue();
  for (const [id, note] of [["source", "source-note"], ["prefix", "prefix-note"], ["prompt", "skew-status"], ["choices", "skew-status"]]) {
    const ms = await page.evaluate((id) => {
      const data = new DataTransfer();
      data.setData("text/plain", "a".repeat(50_000_000));
      const begin = performance.now();
      document.getElementById(id).focus();
      const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      document.getElementById(id).dispatchEvent(event);
      return event.defaultPrevented ? performance.now() - begin : -1;
    }, id);
    expect(ms).toBeGreaterThanOrEqual(0);
    figure(`a paste of 50 MB into ${id}`, `${ms.toFixed(0)} ms`);
    await expect(page.locator(`#${note}`)).toContainText("50,000,000 characters");
  }
  await expect(page.locator("#source")).toHaveValue(before);
  await alive(page);
});

test("a paste of 50 MB from the clipboard itself", async ({ playground: page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const before = await page.locator("#source").inputValue();
  await page.evaluate(() => navigator.clipboard.writeText("b".repeat(50_000_000)));
  await page.locator("#source").focus();
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Control+V");
  await expect(page.locator("#source-note")).toContainText("50,000,000 characters", { timeout: 30_000 });
  await expect(page.locator("#source")).toHaveValue(before);
  await page.evaluate(() => navigator.clipboard.writeText('{"type": "null"}'));
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Control+V");
  await expect(verdict(page)).toHaveText(/enforced exactly/);
});

test("text that comes past the paste is refused too", async ({ playground: page }) => {
  const before = await page.locator("#source").inputValue();
  await page.locator("#source").focus();
  await page.evaluate(() => document.execCommand("insertText", false, "c".repeat(1_200_000)));
  await expect(page.locator("#source-note")).toContainText("this field takes 1,000,000", { timeout: 60_000 });
  await expect(page.locator("#source")).toHaveValue(before);
  await alive(page);
});

test("a constraint of a million characters, and files that are too large", async ({ playground: page }) => {
  await kind(page, "Regex");
  await put(page, "source", "(abc|d)*".repeat(124_000));
  await expect(verdict(page)).toHaveText(/^(It |Refused|The engine gave no answer)/, { timeout: 60_000 });
  await kind(page, "Grammar");
  await put(page, "source", `start: ${'"a" '.repeat(240_000)}`);
  await expect(verdict(page)).toHaveText(/^(It |Refused|The engine gave no answer)/, { timeout: 60_000 });
  await page.evaluate(() => {
    const data = new DataTransfer();
    data.items.add(new File(["x".repeat(2_000_000)], "large.json"));
    document.getElementById("source").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await expect(page.locator("#source-note")).toContainText("2,000,000 bytes");
  await alive(page);
});

test("fast typing: only the newest text is answered", async ({ playground: page }) => {
  await kind(page, "Regex");
  await page.evaluate(() => {
    const area = document.getElementById("source");
    for (let i = 1; i <= 300; i++) {
      area.value = `a{${i}}`;
      area.dispatchEvent(new Event("input", { bubbles: true }));
    }
  });
  await expect(page.locator("#fates")).toContainText("301 states");
});
