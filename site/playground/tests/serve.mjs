// A static server for the tests, with nothing but the types of files: what the page needs of any server.

import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, resolve } from "node:path";

const TYPES = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json",
  ".txt": "text/plain; charset=utf-8",
  ".wasm": "application/wasm",
};

/** Serves a folder below the path `base`, since a published page does not stand at the root of its host. */
export function serve(folder, base, port) {
  const root = resolve(folder);
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const name = path.startsWith(base) ? normalize(path.slice(base.length)) : "..";
    let file = join(root, name === "." || name === "" ? "index.html" : name);
    try {
      if (!file.startsWith(root) || !statSync(file).isFile()) throw new Error("no file");
    } catch {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-length": statSync(file).size });
    createReadStream(file).pipe(response);
  });
  return new Promise((done) => server.listen(port, "127.0.0.1", () => done(server)));
}

if (process.argv[1] === import.meta.filename) {
  const [folder, port] = process.argv.slice(2);
  await serve(folder, "/some/where/", Number(port));
}
