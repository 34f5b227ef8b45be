// What all tests of the page share: a page whose requests and errors are watched, and steps that several tests take.

import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test as base, expect } from "@playwright/test";

export { expect };

export const SHOTS = join(import.meta.dirname, "test-results");

/** Whether times are asserted: on a machine that does nothing else. They are always written down. */
export const TIMED = process.env.TIMED === "1";

/** Writes a figure to the output of the run, and beside the screenshots. */
export function figure(name, value) {
  const line = `${name}: ${value}`;
  console.log(`    ${line}`);
  mkdirSync(SHOTS, { recursive: true });
  appendFileSync(join(SHOTS, "figures.txt"), `${line}\n`);
}

/** A page that is open, asks its own folder alone, and says nothing to the console. */
export const test = base.extend({
  seen: async ({}, use) => use({ requests: [], complaints: [] }),
  playground: async ({ page, baseURL, seen }, use) => {
    page.context().on("request", (request) => seen.requests.push(request.url()));
    page.on("console", (message) => {
      if (message.type() !== "log") seen.complaints.push(`${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => seen.complaints.push(String(error)));
    await page.goto("");
    await use(page);
    expect(seen.requests.filter((url) => !url.startsWith(baseURL) && !url.startsWith("blob:"))).toEqual([]);
    expect(seen.complaints).toEqual([]);
  },
});

export async function kind(page, name) {
  await page.getByRole("radio", { name, exact: true }).check();
}

/** Puts a text into a field at once, as a paste does. */
export async function put(page, id, text) {
  await page.evaluate(([id, text]) => {
    const field = document.getElementById(id);
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }, [id, text]);
}

/** The verdict on the text that stands there now. */
export const verdict = (page) => page.locator("#answer[aria-busy=false] #verdict");

/** Whether the page answers: a regex is explained. */
export async function alive(page) {
  await kind(page, "Regex");
  await put(page, "source", "[a-c]x?");
  await expect(verdict(page)).toHaveText("It can be used, and is enforced exactly.");
}
