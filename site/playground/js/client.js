// Workers, asked from the page: a request with an answer, the newest request alone, and an end for what takes too long. The engine has
// limits of its own; the clock here is for what passes them, because a page that hangs cannot even say so.

const policy = globalThis.trustedTypes?.createPolicy("worker", {
  createScriptURL: (url) => {
    if (new URL(url).origin !== location.origin) throw new TypeError("a worker of this page comes from its own folder");
    return url;
  },
});

/** Starts the worker in this file of the folder `worker`. */
export function start(file) {
  const url = new URL(`../worker/${file}`, import.meta.url).href;
  return new Worker(policy ? policy.createScriptURL(url) : url, { type: "module" });
}

/** A worker that answers requests one after the other. */
export class Client {
  #file;
  #limit;
  #worker;
  #waiting = new Map();
  #next = 0;
  #newest = new Map();

  /** `limit`: how long an answer may take, in milliseconds, before the worker is started anew. */
  constructor(file, limit) {
    this.#file = file;
    this.#limit = limit;
  }

  #start() {
    this.#worker = start(this.#file);
    this.#worker.addEventListener("message", ({ data }) => {
      const asked = this.#waiting.get(data.id);
      if (!asked) return;
      this.#waiting.delete(data.id);
      clearTimeout(asked.timer);
      if (data.error) asked.reject(Object.assign(new Error(data.error.message), data.error));
      else asked.resolve(data.answer);
    });
    this.#worker.addEventListener("error", (event) => this.#stop(event.message || "the engine could not be started"));
  }

  #stop(message) {
    this.#worker?.terminate();
    this.#worker = undefined;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(Object.assign(new Error(message), { kind: "stopped" }));
    }
  }

  /** The answer of the worker to `request`. */
  ask(request, limit = this.#limit) {
    if (!this.#worker) this.#start();
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const late = () => this.#stop(`stopped: no answer within ${Math.round(limit / 1000)} s`);
      this.#waiting.set(id, { resolve, reject, timer: setTimeout(late, limit) });
      this.#worker.postMessage({ id, ...request });
    });
  }

  /**
   * The same, of which only the newest counts: while one of this `name` is under way, later ones wait, and of these the last is asked.
   * Answers `undefined` where a newer one came. So fast typing neither queues work nor needs a delay.
   */
  async latest(name, request) {
    const line = this.#newest.get(name) ?? { turn: 0, busy: Promise.resolve() };
    this.#newest.set(name, line);
    const turn = ++line.turn;
    await line.busy;
    if (turn !== line.turn) return undefined;
    const answer = this.ask(request);
    line.busy = answer.then(() => {}, () => {});
    const got = await answer;
    return turn === line.turn ? got : undefined;
  }
}
