"""Walks over HTTP as a client of its own asks for them, and the judge of what comes back."""

import concurrent.futures
import json
from collections import Counter
from dataclasses import dataclass, field

from laws import p_value


@dataclass
class Walks:
    """What a number of walks gave. All of them count, in whichever order they ended."""

    texts: list = field(default_factory=list)
    rejected: int = 0
    errors: list = field(default_factory=list)

    def judge(self, law, is_right):
        """p of the texts under their exact law, and of their lengths; every output fulfils the constraint, and no request failed."""
        assert not self.errors, self.errors[:3]
        wrong = [text for text in self.texts if not is_right(text)]
        assert not wrong, f"{len(wrong)} of {len(self.texts)} accepted outputs do not fulfil the constraint: {wrong[:5]}"
        counts, lengths, lengths_law = Counter(self.texts), Counter(map(len, self.texts)), Counter()
        for text, p in law.items():
            lengths_law[len(text)] += p
        return p_value(counts, law), p_value(lengths, lengths_law)


def wish(constraint, reject_id, mode="cars"):
    return json.dumps({"constraint": json.loads(constraint.to_json()), "mode": mode, "reject_id": reject_id})


def ask(server, prompt, constraint, reject_id, *, requests, n=1, max_tokens, at_once=16, mode="cars", **more):
    """`requests` requests of `n` walks each, `at_once` side by side. `more` goes into each request."""
    body = {
        "model": "m", "prompt": prompt, "n": n, "max_tokens": max_tokens, "temperature": 1.0, "top_p": 1.0, "top_k": 0,
        "stop_token_ids": [reject_id],
        "vllm_xargs": {"unskew": wish(constraint, reject_id, mode)}, **more,
    }
    walks = Walks()
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for status, answer in pool.map(lambda _: server.post("/v1/completions", body), range(requests)):
            if status != 200:
                walks.errors.append((status, answer))
                continue
            for choice in answer["choices"]:
                if choice["finish_reason"] == "stop" and choice["stop_reason"] != reject_id:
                    walks.texts.append(choice["text"])
                else:
                    walks.rejected += 1
    return walks


def estimate(server, prompt, constraint, **more):
    """The estimate that the endpoint tells, after one output."""
    body = {"model": "m", "prompt": prompt, "max_tokens": 24,
        "vllm_xargs": {"unskew": json.dumps({"constraint": json.loads(constraint.to_json())})}, **more}
    status, answer = server.post("/v1/completions", body)
    assert status == 200, answer
    return answer["unskew"]["log_estimate"], answer["unskew"]["relative_error"]
