// The third part: the draws, against the exact bars.

import { expect, figure, put, test } from "./playground.mjs";

/** The rows of a side: the text, the share that was drawn, and the exact one. */
async function bars(page, side) {
  return page.locator(`#${side}-bars tr`).evaluateAll((rows) => rows.map((row) => {
    const share = (text) => (text.startsWith("<") ? 0 : Number.parseFloat(text) / 100);
    const [drawn, exact] = [...row.querySelectorAll("td")].map((cell) => share(cell.textContent));
    return { text: row.querySelector(".text").textContent, drawn, exact };
  }));
}

const status = (page) => page.locator("#skew-status");

async function draw(page) {
  await page.getByRole("button", { name: /draw/i }).click();
  await expect(status(page)).toHaveText(/would have been others/, { timeout: 60_000 });
}

const farthest = (bars) => Math.max(...bars.map(({ drawn, exact }) => Math.abs(drawn - exact)));

test("three signatures: the faithful histogram is within 5 % of the exact bars after 500 draws, the masked one is not", async ({ playground: page, seen }) => {
  expect(seen.requests.filter((url) => url.includes("safetensors"))).toEqual([]);
  await draw(page);
  const [masked, faithful] = [await bars(page, "left"), await bars(page, "right")];
  figure("masked", JSON.stringify(masked));
  figure("faithful", JSON.stringify(faithful));
  figure("three signatures, 500 draws: farthest bar", `faithful ${(100 * farthest(faithful)).toFixed(2)} %, masked ${(100 * farthest(masked)).toFixed(1)} %`);
  figure("status", await status(page).textContent());
  expect(farthest(faithful)).toBeLessThan(0.05);
  expect(farthest(masked)).toBeGreaterThan(0.5);
  expect(masked.map(({ exact }) => exact)).toEqual(faithful.map(({ exact }) => exact));
  expect(faithful.reduce((sum, { exact }) => sum + exact, 0)).toBeCloseTo(1, 2);
  await expect(page.locator("#right-stream li")).toHaveCount(6);
});

test("ten seeds: all faithful histograms are within 5 %", async ({ playground: page }) => {
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  let worst = 0;
  for (let seed = 1; seed <= 10; seed++) {
    await page.getByLabel("Seed", { exact: true }).fill(String(seed));
    await draw(page);
    worst = Math.max(worst, farthest(await bars(page, "right")));
    await put(page, "seed", String(seed));
  }
  figure("ten seeds, 500 draws each: farthest bar of all", `${(100 * worst).toFixed(2)} %`);
  expect(worst).toBeLessThan(0.05);
});

test("the same seed gives the same draws", async ({ playground: page }) => {
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  await page.getByLabel("Draws", { exact: true }).selectOption("100");
  await draw(page);
  const first = [await bars(page, "left"), await bars(page, "right")];
  await draw(page);
  expect([await bars(page, "left"), await bars(page, "right")]).toEqual(first);
});

test("the histograms fill as draws come, wait, and go on", async ({ playground: page }) => {
  await page.getByRole("button", { name: /draw/i }).click();
  const off = page.locator("#left-off");
  await expect(off).toHaveText(/\(\d+ draws\)/);
  await page.getByRole("button", { name: "Pause" }).click();
  const count = async () => Number(/\((\d+) draws\)/.exec(await off.textContent())[1]);
  const held = await count();
  expect(held).toBeLessThan(500);
  await page.waitForTimeout(500);
  expect(await count()).toBe(held);
  await page.getByRole("button", { name: "Go on" }).click();
  await expect(status(page)).toHaveText(/would have been others/, { timeout: 60_000 });
  expect(await count()).toBe(500);
});

test("a new run ends the one under way", async ({ playground: page }) => {
  await page.getByRole("button", { name: /draw/i }).click();
  await expect(page.locator("#left-off")).toHaveText(/\(\d+ draws\)/);
  await put(page, "choices", "Thomas Hansen\nMaria Costa");
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  await draw(page);
  await expect(page.locator("#left-bars tr")).toHaveCount(2);
});

test("canonical on the left side, and other examples", async ({ playground: page }) => {
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  await page.getByLabel("Left side", { exact: true }).selectOption("canonical");
  await draw(page);
  await expect(page.locator("#left-title")).toHaveText("Masked, canonical");
  figure("masked, canonical, 500 draws: farthest bar", `${(100 * farthest(await bars(page, "left"))).toFixed(1)} %`);
  await page.getByLabel("Left side", { exact: true }).selectOption("masked");
  const examples = await page.locator("#skew-example option").allTextContents();
  for (const label of examples) {
    await page.locator("#skew-example").selectOption({ label });
    await draw(page);
    const [masked, faithful] = [farthest(await bars(page, "left")), farthest(await bars(page, "right"))];
    figure(`example “${label}”: farthest bar`, `masked ${(100 * masked).toFixed(1)} %, faithful ${(100 * faithful).toFixed(1)} %; ${await status(page).textContent()}`);
    expect(faithful).toBeLessThan(0.08);
  }
});

test("what cannot be drawn is said", async ({ playground: page }) => {
  const refused = async (text) => {
    await page.getByRole("button", { name: /draw/i }).click();
    await expect(status(page)).toContainText(text);
  };
  await put(page, "choices", "one alone");
  await refused("two outputs or more");
  await put(page, "choices", Array.from({ length: 13 }, (_, i) => `text ${i}`).join("\n"));
  await refused("up to 12");
  await put(page, "choices", `a\n${"b".repeat(121)}`);
  await refused("up to 120");
  await put(page, "choices", "Thomas Hansen\nPeter Costa");
  await page.getByLabel("Seed", { exact: true }).fill("7");
  await draw(page);
});
