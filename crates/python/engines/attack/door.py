"""Attacks a live vLLM server with unskew over HTTP, and judges it. `cargo xtask attack door` runs it, in the environment of the engine.

door.py [--minutes M] [--requests N] [--seed S] [--concurrency C] [--bound SECONDS] [--drift MIB] [--first NUMBER] [--rows KIND,...]
        [--starts N] [--show NUMBER]

Hostile requests (`hostile.py`) go out side by side; a client that behaves asks for a mask and for a walk each second all the time. The
attack ends after M minutes or N requests, whichever comes first, and all traffic stays on this machine. It fails if

- the server is not alive at the end, or ended in between;
- a request is answered with HTTP 500, which the same request without our fields is not;
- an answer holds a part of a file, tells whether one exists, or is no refusal where a file is named that nobody lends;
- the other client is given a wrong output or an error, or waits longer than the bound;
- the memory of the server's processes at the end is larger than at a fifth of the time, by more than the drift.

Where the server ends, the requests that were under way are repeated one by one against a new server to find the one that did it; requests
of its row are left out from there on, so that one fault does not hide the others.
"""

import argparse
import collections
import json
import pathlib
import re
import signal
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import hostile  # noqa: E402
import live  # noqa: E402
import places as files  # noqa: E402

#: In the answers of a server whose engine has ended.
DEAD = "EngineCore encountered an issue"

#: Seconds after which a hostile client gives up.
PATIENCE = 60.0

LETTER = "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024. It should arrive in three days.\nKind regards,\n"
NAMES = ["Thomas Hansen", "Peter Costa", "Paul Becker"]


class Other(threading.Thread):
    """The client that behaves."""

    MASK = {"model": "m", "prompt": LETTER, "max_tokens": 12, "structured_outputs": {"regex": "(yes|no) [0-9]"}}
    WALK = {"model": "m", "prompt": LETTER, "max_tokens": 24, "vllm_xargs": {"unskew": json.dumps({"constraint": {"choices": NAMES}})}}

    def __init__(self, server, bound):
        super().__init__(daemon=True)
        self.server, self.bound, self.over = server, bound, threading.Event()
        self.seconds, self.faults, self.missed = {"mask": [], "walk": []}, [], 0
        self.began = time.monotonic()

    def run(self):
        while not self.over.is_set():
            began = time.monotonic()
            self.once()
            self.over.wait(max(0.0, 1.0 - (time.monotonic() - began)))

    def once(self):
        for name, body in (("mask", self.MASK), ("walk", self.WALK)):
            self.ask(name, body)

    def ask(self, name, body):
        began = time.monotonic()
        status, answer = self.server.post("/v1/completions", body, timeout=PATIENCE)
        took = time.monotonic() - began
        if self.server.process.poll() is not None or DEAD in str(answer) or "onnectionRefused" in str(answer):
            # The attack itself says so.
            self.over.set()
            return
        self.seconds[name].append(took)
        # A server that answers nobody is as good as one that has ended.
        self.missed = self.missed + 1 if status == 0 else 0
        if self.missed == 2:
            self.over.set()
        at = f"after {began - self.began:.0f} s, a {name}"
        if status != 200:
            self.faults.append(f"{at}: HTTP {status} {str(answer)[:200]}")
        else:
            texts = [choice["text"] for choice in answer["choices"]]
            right = all(text in NAMES if name == "walk" else re.fullmatch("(yes|no) [0-9]", text) for text in texts)
            if not right or len(texts) != 1:
                self.faults.append(f"{at}: {texts}")
        if took > self.bound:
            self.faults.append(f"{at}: {took:.1f} s")

    def table(self):
        lines = []
        for name, seconds in self.seconds.items():
            if seconds:
                ordered = sorted(seconds)
                p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
                lines.append(f"{name}: {len(ordered)} times, p50 {p50:.2f} s, p99 {p99:.2f} s, max {ordered[-1]:.2f} s")
        return "; ".join(lines)


class Attack:
    """The requests of one run, over one server after the other."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.places = files.make(folder, options.seed)
        self.model = live.tiny(folder / "model")
        self.lock = threading.Lock()
        self.next = options.first
        self.sent = 0
        self.rows = {kind: collections.Counter() for kind in hostile.KINDS}
        self.longest = collections.Counter()
        #: (row, what) -> numbers of cases.
        self.faults = collections.defaultdict(list)
        self.left_out = set(hostile.KINDS) - set(options.rows or hostile.KINDS)
        #: Suspects, if the server ends: the requests without an answer, and those whose clients went or gave up a short while ago.
        self.under_way, self.gone = {}, collections.deque(maxlen=48)
        self.memory, self.others, self.starts = [], [], 0

    def start(self):
        self.starts += 1
        log = self.folder / f"server-{self.starts}.log"
        environment = {"UNSKEW_FILES": self.places.lent, "UNSKEW_CACHE_BYTES": str(64 << 20), **self.places.environment}
        server = live.vllm(self.model, log, environment=environment)
        print(f"server {self.starts} began in {server.started:.0f} s; its log is {log}", flush=True)
        return server

    def fault(self, row, what, number):
        with self.lock:
            self.faults[row, what].append(number)
            if len(self.faults[row, what]) == 1:
                print(f"FAULT {row}: {what} (case {number})", flush=True)

    def case(self):
        with self.lock:
            while True:
                number = self.next
                self.next += 1
                if hostile.KINDS[number % len(hostile.KINDS)] not in self.left_out:
                    self.sent += 1
                    return number

    def client(self, server, over):
        while not over.is_set():
            number = self.case()
            case = hostile.request(self.options.seed, number, self.places)
            with self.lock:
                self.under_way[number] = case
            if self.ask(server, case):
                with self.lock:
                    self.under_way.pop(number, None)
            else:
                over.set()

    def ask(self, server, case):
        """Sends a request and judges the answer. False where the server has ended meanwhile, whoever did it."""
        data, row = case.text(), self.rows[case.kind]
        if case.leaves is not None:
            server.leave(case.path, data, case.leaves)
            row["left"] += 1
            self.gone.append(case)
            return server.process.poll() is None
        began = time.monotonic()
        status, text = server.ask("POST", case.path, data, PATIENCE)
        took = time.monotonic() - began
        late = status == 0 and "imed out" in text
        if status == 0 and not late or status >= 500 and DEAD in text:
            # The engine ends before the process does.
            time.sleep(1)
            if status or not server.is_up(30):
                return False
        with self.lock:
            self.longest[case.kind] = max(self.longest[case.kind], took)
            row["200"
                if status == 200 else "refused" if 400 <= status < 500 else "500" if status >= 500 else "late" if late else "broken"] += 1
        if late:
            self.gone.append(case)
        leak = self.places.leak(text, data.decode(errors="replace")) if status else None
        if leak is not None:
            self.fault(case.kind, f"the answer tells {leak}", case.number)
        elif case.must_refuse and status == 200:
            self.fault(case.kind, "HTTP 200 where a file is named that nobody lends", case.number)
        if status >= 500 and not self.is_the_servers_own(server, case, status):
            self.fault(case.kind, f"HTTP {status} {re.sub('[0-9]+', 'N', text[:160])}", case.number)
        elif status == 0 and not late:
            self.fault(case.kind, f"the connection breaks: {text[:80]}", case.number)
        return True

    def is_the_servers_own(self, server, case, status):
        """Whether the same request without our fields ends in the same way."""
        given = [] if isinstance(case.body, bytes) else [case.body.get(name) for name in ("structured_outputs", "vllm_xargs")]
        if isinstance(case.body, bytes) or any(each is not None and not isinstance(each, dict) for each in given):
            # It fails before anything of ours is asked: vLLM 0.32 reads fields of a text.
            return True
        body = {name: value for name, value in case.body.items() if name not in ("structured_outputs", "vllm_xargs")}
        return server.ask("POST", case.path, body, PATIENCE)[0] == status

    def run(self):
        print(f"secrets in {self.places.folder}, lent {self.places.lent}; cases from {self.next} of seed {self.options.seed}", flush=True)
        end, requests = self.options.minutes * 60.0, self.options.requests
        used, server = 0.0, self.start()
        try:
            # The first requests of a server compile what all later ones find.
            Other(server, self.options.bound).once()
            quiet = Other(server, self.options.bound)
            quiet.start()
            time.sleep(10)
            quiet.over.set()
            quiet.join()
            print(f"the other client alone: {quiet.table()}", flush=True)
            while used < end and self.sent < requests:
                used += self.round(server, end - used)
                if server.process.poll() is None and server.is_up():
                    break
                server = self.blame(server)
                if server is None:
                    break
            if server is not None and not server.is_up():
                self.fault("server", "it does not answer at the end", self.next)
        finally:
            if server is not None:
                server.close()
        return self.report()

    def round(self, server, most):
        """Until the time or the server is over; how long it was."""
        over, began = threading.Event(), time.monotonic()
        other = Other(server, self.options.bound)
        self.others.append(other)
        clients = [threading.Thread(target=self.client, args=(server, over), daemon=True) for _ in range(self.options.concurrency)]
        for thread in (other, *clients):
            thread.start()
        said = began
        while not over.wait(2.0):
            now = time.monotonic()
            self.memory.append((self.starts, now - began, server.resident(), len(server.processes())))
            if now - said > 30:
                said = now
                print(f"  {now - began:4.0f} s: {self.sent} requests, {self.memory[-1][2]} MiB; {other.table()}", flush=True)
            if now - began > most or self.sent >= self.options.requests or server.process.poll() is not None or other.over.is_set():
                break
        over.set()
        for thread in clients:
            thread.join(PATIENCE + 30)
        other.over.set()
        other.join(PATIENCE + 5)
        return time.monotonic() - began

    def blame(self, server):
        """Finds the case that ended the server, and answers with a new server; None where too many were needed."""
        suspects = sorted([*self.under_way.values(), *self.gone], key=lambda case: case.number)
        self.under_way.clear()
        self.gone.clear()
        print(f"THE SERVER ENDED ({server.process.poll()}); under way: {[(case.number, case.kind) for case in suspects]}\n{why(server)}",
            flush=True)
        server.close()
        if self.starts >= self.options.starts:
            for case in suspects:
                self.fault(case.kind, "the server ended while it was under way", case.number)
            return None
        server = self.start()
        for case in suspects:
            # This time the client stays.
            case.leaves = None
            if not self.ask(server, case) or not server.is_up(30):
                self.fault(case.kind, "ENDS OR STOPS THE SERVER, alone", case.number)
                print(f"  {why(server)}", flush=True)
                self.left_out.add(case.kind)
                server.close()
                return self.start() if self.starts < self.options.starts else None
        self.fault("server", f"ended, by none of these alone: {sorted({case.kind for case in suspects})}",
            suspects[0].number if suspects else -1)
        # Whichever it was, its row would end the next server too.
        self.left_out |= {case.kind for case in suspects if case.kind in ("stop ids", "ambiguous", "limits")}
        return server

    def report(self):
        names = ("200", "refused", "500", "late", "broken", "left")
        print(f"\n{'':<14}" + "".join(f"{name:>9}" for name in names) + f"{'longest s':>11}")
        for kind, row in self.rows.items():
            print(f"{kind:<14}" + "".join(f"{row[name]:>9}"
                for name in names) + f"{self.longest[kind]:>11.1f}" + ("  (left out from then on)" if kind in self.left_out else ""))
        print(f"{self.sent} requests, {self.starts} starts")
        for other in self.others:
            print(f"the other client: {other.table()}")
            for fault in other.faults[:5]:
                print(f"  {fault}")
            if other.faults:
                self.faults["the other client", "a wrong output, an error or a wait beyond the bound"] += range(len(other.faults))
        # The last server's, whose time is the longest without an end.
        memory = [(seconds, mib) for start, seconds, mib, _ in self.memory if start == self.starts]
        if len(memory) >= 5:
            fifth, last = memory[len(memory) // 5][1], memory[-1][1]
            print(f"memory of all processes: {memory[0][1]} MiB at first, {fifth} at 20 %, {last} at the end")
            if last > fifth + self.options.drift:
                self.faults["memory", f"grew from {fifth} to {last} MiB"] = [-1]
        for (row, what), numbers in sorted(self.faults.items()):
            print(f"FAULT {row}: {what}: {len(numbers)} times, such as case {numbers[0]}")
        print(f"{len(self.faults)} faults")
        return not self.faults


def why(server):
    """The last errors of a server's log."""
    with open(server.log, errors="replace") as log:
        lines = [line.rstrip()[-240:] for line in log if re.search(r"Error:|panicked|Killed|unskew.*(error|fail)",
            line) and "INFO" not in line]
    return "\n".join(lines[-6:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--bound", type=float, default=10.0)
    parser.add_argument("--drift", type=int, default=512)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--starts", type=int, default=6)
    parser.add_argument("--rows", type=lambda text: text.split(","))
    parser.add_argument("--show", type=int)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    # So that the server ends with this script.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.show is not None:
            case = hostile.request(options.seed, options.show, files.make(folder, options.seed))
            print(case.kind, case.path, "leaves" if case.leaves else "", case.text()[:20_000].decode(errors="replace"))
            return
        sys.exit(0 if Attack(options, folder).run() else 1)


if __name__ == "__main__":
    main()
