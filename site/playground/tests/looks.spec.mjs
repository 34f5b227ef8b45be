// Looks, keyboard, phones, colours, and what machines say about access.

import { join } from "node:path";
import AxeBuilder from "@axe-core/playwright";
import { SHOTS, expect, figure, kind, put, test, verdict } from "./playground.mjs";

const settled = async (page) => {
  await expect(verdict(page)).toHaveText(/It can be used/);
  await expect(page.locator("#tokens .chip").first()).toBeVisible();
};

async function drawn(page) {
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  await page.getByRole("button", { name: /draw/i }).click();
  await expect(page.locator("#skew-status")).toHaveText(/would have been others/, { timeout: 60_000 });
}

for (const scheme of ["light", "dark"]) {
  for (const [device, width, height] of [["desk", 1280, 900], ["tablet", 820, 1100], ["phone", 390, 844], ["small-phone", 320, 640]]) {
    test.describe(`${device}, ${scheme}`, () => {
      test.use({ viewport: { width, height }, colorScheme: scheme });
      test("no fault of access, nothing beside the screen", async ({ playground: page }) => {
        await settled(page);
        await drawn(page);
        const axe = async (state) => {
          const { violations, passes } = await new AxeBuilder({ page }).analyze();
          expect(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`)).toEqual([]);
          figure(`axe, ${device}, ${scheme}, ${state}`, `0 violations, ${passes.length} rules passed`);
        };
        const wide = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        await axe("a schema");
        expect(await wide()).toBe(0);
        await page.screenshot({ path: join(SHOTS, `${device}-${scheme}.png`), fullPage: true });
        await page.getByLabel("Example", { exact: true }).first().selectOption({ label: "refused: a back-reference in a pattern" });
        await expect(verdict(page)).toHaveText(/^Refused/);
        await axe("refused");
        expect(await wide()).toBe(0);
        for (const name of ["Regex", "Grammar", "MCP tools"]) {
          await kind(page, name);
          await expect(page.locator("#counts li").first()).toBeVisible();
          expect(await wide()).toBe(0);
        }
        await kind(page, "Regex");
        await put(page, "source", "Hello( World)+");
        await put(page, "prefix", "Hello Wox");
        await expect(page.locator("#prefix-tokens .refused")).toBeVisible();
        await axe("a prefix that is refused");
      });
    });
  }
}

test("targets of fingers are at least 24 pixels", async ({ playground: page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await settled(page);
  const small = await page.evaluate(() => [...document.querySelectorAll("main button, main select, main input, main textarea, header a, header label")]
    .filter((element) => element.checkVisibility())
    .map((element) => [element.id || element.textContent.slice(0, 20), (element.closest("label") ?? element).getBoundingClientRect()])
    .filter(([, { width, height }]) => Math.min(width, height) < 24)
    .map(([name, { width, height }]) => `${name} ${width}x${height}`));
  expect(small).toEqual([]);
});

test("light and dark: the system's, and the switch's, which is kept", async ({ playground: page }) => {
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await paper();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await paper();
  expect(light).not.toBe(dark);
  await page.getByRole("radio", { name: "Light" }).check();
  expect(await paper()).toBe(light);
  await page.reload();
  expect(await paper()).toBe(light);
  await expect(page.getByRole("radio", { name: "Light" })).toBeChecked();
  await page.emulateMedia({ colorScheme: "light" });
  await page.getByRole("radio", { name: "Dark" }).check();
  expect(await paper()).toBe(dark);
  await page.getByRole("radio", { name: "Auto" }).check();
  expect(await paper()).toBe(light);
});

test("by keyboard alone: from the first tab to the last draw", async ({ playground: page }) => {
  await settled(page);
  const press = (key) => page.keyboard.press(key);
  const focus = () => page.evaluate(() => {
    const element = document.activeElement;
    const shown = element.matches(".segments input") ? element.nextElementSibling : element;
    const style = getComputedStyle(shown);
    return { name: element.id || element.name || element.className || element.textContent.trim().slice(0, 30), value: element.value, visible: style.outlineStyle !== "none" && Number.parseFloat(style.outlineWidth) >= 2 };
  });
  const to = async (name) => {
    for (let i = 0; i < 400; i++) {
      await press("Tab");
      const at = await focus();
      expect(at.visible, `the focus on ${at.name} is seen`).toBe(true);
      if (at.name === name) return at;
    }
    throw new Error(`${name} cannot be reached`);
  };
  await to("skip");
  await press("Enter");
  await to("kind");
  await press("ArrowRight");
  await expect(page.getByRole("radio", { name: "Regex" })).toBeChecked();
  await to("source");
  await press("Control+A");
  await page.keyboard.type("(yes|no), (a|b)\\1");
  await expect(verdict(page)).toHaveText(/^Refused/);
  await to("fates");
  await press("Tab");
  await press("Tab");
  await press("Enter");
  expect(await page.evaluate(() => [document.activeElement.id, document.activeElement.selectionStart])).toEqual(["source", "(yes|no), (a|b)".length]);
  await press("Control+A");
  await page.keyboard.type("(yes|no), (a|b)");
  await expect(verdict(page)).toHaveText(/enforced exactly/);
  await to("canonical");
  await press("Space");
  await expect(page.locator("#canonical")).toBeChecked();
  await press("Space");
  await to("prefix");
  await press("Control+A");
  await press("Delete");
  await page.keyboard.type("y");
  await expect(page.locator("#tokens .chip").first()).toHaveText(/^e/);
  await to("find");
  await page.keyboard.type("e");
  await expect(page.locator("#found")).not.toHaveText("");
  await to("chip");
  await press("Enter");
  await expect(page.locator("#prefix")).toBeFocused();
  await expect(page.locator("#prefix")).toHaveValue(/^ye/);
  await to("pace");
  await press("End");
  await expect(page.getByLabel("Pace", { exact: true })).toHaveValue("full");
  await to("draw");
  await press("Enter");
  await expect(page.locator("#skew-status")).toHaveText(/would have been others/, { timeout: 60_000 });
  // Back out through the whole page: no trap.
  for (let i = 0; i < 60; i++) await press("Shift+Tab");
  expect((await focus()).visible).toBe(true);
});

test("the picture for README, docs/playground.png", async ({ playground: page }) => {
  await page.setViewportSize({ width: 1160, height: 1100 });
  await settled(page);
  await drawn(page);
  // The pointer, the focus and the bar at the top are no part of it.
  await page.mouse.move(0, 0);
  await page.evaluate(() => {
    document.activeElement.blur();
    document.querySelector("header").hidden = true;
  });
  const picture = await page.locator("#skew .card").screenshot({ path: join(SHOTS, "playground.png") });
  figure("the picture for README", `${Math.round(picture.length / 1000)} KB`);
  expect(picture.length).toBeLessThan(150_000);
});
