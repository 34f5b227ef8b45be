// The playground in headless Chromium, from the folder that build.mjs made:
//
//     PLAYGROUND=OUT npm test     (in site/playground, after `npm ci`)
//
// CHROMIUM names the browser where it is not Debian's. Screenshots and figures are written to tests/test-results; with TIMED=1, on a
// machine that does nothing else, the times that the page promises are asserted too.

import { defineConfig } from "@playwright/test";

const port = Number(process.env.PORT ?? 4187);
if (!process.env.PLAYGROUND) throw new Error("PLAYGROUND is the folder that build.mjs made");

export default defineConfig({
  testMatch: "*.spec.mjs",
  outputDir: "test-results",
  timeout: 180_000,
  expect: { timeout: 40_000 },
  workers: 1,
  retries: 0,
  reporter: [["list"]],
  use: {
    baseURL: `http://127.0.0.1:${port}/some/where/`,
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium" },
    viewport: { width: 1280, height: 900 },
  },
  webServer: {
    command: `node serve.mjs "${process.env.PLAYGROUND}" ${port}`,
    url: `http://127.0.0.1:${port}/some/where/index.html`,
    reuseExistingServer: false,
  },
});
