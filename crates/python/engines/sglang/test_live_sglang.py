"""SGLang's scheduler as it is by default, which begins a batch before it has read the last one, with and without retractions: requests that
are put aside in the middle, and whose token under way is dropped. One server for each; every output fulfils the constraint and follows its
exact law, in its text and its length."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import live
import unskew
from law import exact, p_value
from unskew.sglang import sample
from unskew.sglang._requests import PROCESSOR

LETTER = (
    "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024. It should arrive in three days.\nKind regards,\n"
)
PATTERN = "(Anna|Maria|Sarah|Peter|Thomas|Paul|David) (Keller|Brown|Meyer|Costa|Hansen|Becker|Fischer|Lang|Wright)"
MOST = 14


@pytest.fixture(scope="module")
def hf(checkpoint):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture(scope="module")
def law(checkpoint, hf):
    """That of the names, by scoring: the prompt, the law of ids, P(constraint)."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()

    @torch.no_grad()
    def rows(batch):
        return model(input_ids=torch.tensor(batch)).logits[:, -1].numpy()

    ids = hf.encode(LETTER)
    return ids, *exact(rows, unskew.Tokenizer.from_hf(hf), unskew.Constraint.regex(PATTERN).with_end("model"), ids, MOST, least=1e-9)


class Judged:
    """The tests of each configuration."""

    def test_the_law(self, server, law):
        ids, texts, total = law
        drawn = sample(server.url, ids, unskew.Constraint.regex(PATTERN).with_end("model"), n=1000, max_tokens=MOST)
        counts = Counter(tuple(output.ids) for output in drawn.outputs)
        lengths, lengths_law = Counter(), Counter()
        for ids, count in counts.items():
            lengths[len(ids)] += count
        for ids, p in texts.items():
            lengths_law[len(ids)] += p
        # Those that the law leaves out, of less than 1e-9 each, do not come.
        p, p_lengths = p_value(counts, texts, 1000), p_value(lengths, lengths_law, 1000)
        print(f"\np {p:.3f}, of lengths {p_lengths:.3f}; {drawn.walks} walks, P {2.718281828**drawn.log_estimate:.4g}, exact {total:.4g}")
        assert all(re.fullmatch(PATTERN, output.text) for output in drawn.outputs)
        assert p > 0.001 and p_lengths > 0.001
        assert abs(2.718281828**drawn.log_estimate / total - 1) < 6 * max(drawn.relative_error or 0.0, 1e-3)

    def test_every_walk_has_a_result_and_every_accepted_one_is_right(self, server):
        """Long outputs, which meet many retractions; a request that ends without a result would look finished to a client."""
        pattern, accepted, none, wrong = "(ab|cd|ef){4,8}", 0, [], []
        params = {"max_new_tokens": 30, "temperature": 1.0, "custom_params": {"unskew": json.dumps({"constraint": {"regex": pattern},
            "mode": "weights"})}}
        body = {"text": ["A"] * 16, "sampling_params": [params] * 16, "custom_logit_processor": [PROCESSOR] * 16}
        for _ in range(12):
            status, answers = server.post("/generate", body)
            assert status == 200, answers
            for answer in answers:
                result = next((part for part in reversed(answer["meta_info"].get("unskew") or []) if part is not None), None)
                if result is None:
                    none.append(answer["text"])
                elif result["accepted"]:
                    accepted += 1
                    if not re.fullmatch(pattern, answer["text"]):
                        wrong.append(answer["text"])
        print(f"\n{accepted} of 192 accepted, {len(none)} without a result, {len(wrong)} wrong: {wrong[:4]}")
        assert not none and not wrong and accepted > 100

    def test_masks(self, server):
        params = {"max_new_tokens": 40, "temperature": 1.0, "regex": "(ab|cd|ef){4,8}"}
        for _ in range(3):
            status, answers = server.post("/generate", {"text": ["A"] * 16, "sampling_params": [params] * 16})
            assert status == 200 and all(re.fullmatch("(ab|cd|ef){4,8}", answer["text"]) for answer in answers)

    def test_clients_that_go(self, server, law):
        ids, texts, _ = law
        params = {"max_new_tokens": MOST + 1, "temperature": 1.0,
            "custom_params": {"unskew": json.dumps({"constraint": {"regex": PATTERN}})}}
        body = {"input_ids": ids, "sampling_params": params, "custom_logit_processor": PROCESSOR}
        with ThreadPoolExecutor(1) as pool:
            going = pool.submit(lambda: [server.leave("/generate", body, 0.02 + 0.01 * (at % 10)) for at in range(40)])
            drawn = sample(server.url, ids, unskew.Constraint.regex(PATTERN).with_end("model"), n=300, max_tokens=MOST)
            assert all(going.result(300))
        assert p_value(Counter(tuple(output.ids) for output in drawn.outputs), texts, 300) > 0.001
        assert server.is_up()


def served(checkpoint, tmp_path_factory, name, environment):
    with live.sglang(checkpoint, tmp_path_factory.mktemp("log") / f"{name}.log", environment=environment) as server:
        print(f"\n{name}: ready in {server.started:.0f} s")
        yield server
        assert server.is_up(), server.tail()


class TestOverlap(Judged):
    @pytest.fixture(scope="class")
    def server(self, checkpoint, tmp_path_factory):
        yield from served(checkpoint, tmp_path_factory, "overlap", {})


class TestRetractions(Judged):
    @pytest.fixture(scope="class")
    def server(self, checkpoint, tmp_path_factory):
        retracting = {"SGLANG_TEST_RETRACT": "1", "SGLANG_TEST_RETRACT_INTERVAL": "3"}
        yield from served(checkpoint, tmp_path_factory, "retractions", retracting)
