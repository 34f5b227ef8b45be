// What the page cannot do: leave its folder, or run what is not in it.

import { test as bare, expect } from "@playwright/test";
import { alive, put, test, verdict } from "./playground.mjs";

bare("the policy holds: no inline script, no eval, no markup from a text, no other host", async ({ page }) => {
  await page.goto("");
  const said = await page.evaluate(async () => {
    // What the browser's tools evaluate may use eval in its first turn.
    await new Promise((done) => setTimeout(done));
    const violations = [];
    document.addEventListener("securitypolicyviolation", ({ effectiveDirective }) => violations.push(effectiveDirective));
    const attempt = async (name, act) => {
      try {
        await act();
        return [name, "done"];
      } catch (error) {
        return [name, error.constructor.name];
      }
    };
    const results = [
      await attempt("eval", () => (0, eval)("window.hit = 1")),
      await attempt("function", () => new Function("window.hit = 1")()),
      await attempt("markup", () => {
        document.querySelector("main").innerHTML = "<p>no</p>";
      }),
      await attempt("fetch", () => fetch("https://example.com/")),
      await attempt("worker", () => new Worker("https://example.com/w.js")),
      await attempt("worker of a text", () => new Worker(URL.createObjectURL(new Blob(["postMessage(1)"])))),
    ];
    const script = document.createElement("script");
    results.push(await attempt("inline", () => {
      script.textContent = "window.hit = 1";
      document.body.append(script);
    }));
    results.push(await attempt("attribute", () => document.body.setAttribute("onclick", "window.hit = 1")));
    document.body.click();
    const image = document.createElement("img");
    image.src = "https://example.com/i.png";
    document.body.append(image);
    await new Promise((done) => setTimeout(done, 300));
    return { results: Object.fromEntries(results), violations, hit: window.hit };
  });
  expect(said.hit).toBeUndefined();
  for (const [name, result] of Object.entries(said.results)) expect(`${name}: ${result}`).not.toMatch(/: done$/);
  expect(said.violations).toEqual(expect.arrayContaining(["connect-src", "img-src"]));
});

test("offline, once it is open, all that needs no further file works", async ({ playground: page, context }) => {
  await expect(verdict(page)).toHaveText(/It can be used/);
  await expect(page.locator("#tokens .chip").first()).toBeVisible();
  await context.setOffline(true);
  await alive(page);
  await put(page, "prefix", "a");
  await expect(page.locator("#allowed")).toHaveText(/^1 of 2,048/);
  await context.setOffline(false);
});

bare("a file that is missing is said, and the page stays", async ({ page }) => {
  await page.route("**/*.safetensors", (route) => route.abort());
  await page.route("**/gpt2.json.gz", (route) => route.fulfill({ status: 404 }));
  await page.goto("");
  await page.getByRole("button", { name: /draw/i }).click();
  await expect(page.locator("#skew-status")).toContainText("stopped");
  await page.getByLabel("Tokenizer", { exact: true }).selectOption("gpt2");
  await expect(page.locator("#prefix-note")).toContainText("404");
  await page.unroute("**/*.safetensors");
  await page.getByLabel("Pace", { exact: true }).selectOption("full");
  await page.getByRole("button", { name: /draw/i }).click();
  await expect(page.locator("#skew-status")).toHaveText(/would have been others/, { timeout: 60_000 });
  await alive(page);
});

bare("without WebAssembly the page says what it needs", async ({ page }) => {
  await page.addInitScript(() => {
    delete globalThis.WebAssembly;
  });
  await page.goto("");
  await expect(page.locator("#broken")).toContainText("WebAssembly");
});
