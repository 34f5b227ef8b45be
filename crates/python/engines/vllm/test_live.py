"""vLLM in the configurations in which servers run: two engines side by side, two ranks of one, sequences that are put aside and come back,
clients that go. One server for each; every output fulfils the constraint and follows its exact law."""

import concurrent.futures
import math
import random
import re
import string
import time

import pytest

import live
import unskew
from cases import GIVEN, KNOWN, LETTER, SIGNATURES
from laws import Model, exact
from walks import ask, estimate, wish

#: Names of many lengths, which the model gives a probability of 0.3 together.
NAMES = unskew.Constraint.regex(f"({'|'.join(GIVEN)}) ({'|'.join(KNOWN)})").with_end("model")

MOST = 16


def is_name(text):
    given, _, surname = text.partition(" ")
    return given in GIVEN and surname in KNOWN


def served(model, tmp_path_factory, name, *more, **options):
    with live.vllm(model, tmp_path_factory.mktemp("log") / f"{name}.log", *more, **options) as server:
        print(f"\n{name}: ready in {server.started:.0f} s")
        yield server
        assert server.is_up(), server.tail()


@pytest.fixture(scope="module")
def reject_id(tok):
    return unskew.Faithful(unskew.Compiler(tok)).reject_id


@pytest.fixture(scope="module")
def model(checkpoint):
    return Model(checkpoint)


def law_of(model, tok, prompt, constraint=NAMES, most=MOST):
    law, mass, left_out = exact(model, unskew.Compiler(tok).compile(constraint), tok, prompt, 0, most - 1)
    assert left_out < 0.01
    return law, mass


def follow(server, model, tok, reject_id, prompt, **options):
    """Walks follow the law, in text and length; the estimate is right."""
    law, mass = law_of(model, tok, prompt)
    walks = ask(server, prompt, NAMES, reject_id, max_tokens=MOST, **options)
    p, p_lengths = walks.judge(law, is_name)
    print(f"\n{len(walks.texts)} accepted, {walks.rejected} rejected; p {p:.3f}, of lengths {p_lengths:.3f}")
    assert p > 0.001 and p_lengths > 0.001 and len(walks.texts) > 100
    log_estimate, error = estimate(server, prompt, NAMES, max_tokens=MOST)
    assert abs(math.exp(log_estimate) / mass - 1) < 4 * error + 0.01
    return walks


class TestTwoEngines:
    """`--data-parallel-size 2`: each has its own tree, and must have its own numbers."""

    @pytest.fixture(scope="class")
    def server(self, checkpoint, tmp_path_factory):
        yield from served(checkpoint, tmp_path_factory, "data-parallel", "--data-parallel-size", "2")

    def test_many_sequences_wait_for_one_new_constraint(self, server, reject_id):
        """A call of the workers for each of them filled a queue that nobody read, and the server stood still."""
        dice = random.Random(5)

        def body(number):
            slow = f"{dice.choice(string.ascii_lowercase)}[ab]*a[ab]{{16}}| (Peter|Anna)"
            return {
                "model": "m", "prompt": f"{number} {LETTER}", "n": 100, "max_tokens": 16, "temperature": 1.0, "top_p": 1, "top_k": 0,
                "stop_token_ids": [reject_id], "vllm_xargs": {"unskew": wish(unskew.Constraint.regex(slow), reject_id, "cars")},
            }

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda each: server.post("/v1/completions", each, timeout=240), map(body, range(4))))
        assert [(status, len(answer["choices"])) for status, answer in answers] == [(200, 100)] * 4

    def test_equal_requests_at_once_have_different_outputs(self, server, reject_id):
        # So many outputs, each improbable, that two are hardly ever equal.
        constraint = unskew.Constraint.regex("[A-Za-z ]{24,40}").with_end("model")
        body = {
            "model": "m", "prompt": LETTER, "max_tokens": 44, "temperature": 1.0, "top_p": 1, "top_k": 0, "stop_token_ids": [reject_id],
            "vllm_xargs": {"unskew": wish(constraint, reject_id, "weights")}, "return_token_ids": True,
        }
        pairs = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for _ in range(20):
                two = list(pool.map(lambda _: server.post("/v1/completions", body), range(2)))
                assert all(status == 200 for status, _ in two), two
                pairs.append([tuple(answer["choices"][0]["token_ids"]) for _, answer in two])
        equal = sum(left == right for left, right in pairs)
        # By chance: any two of all.
        outputs = [output for pair in pairs for output in pair]
        chance = sum(a == b for at, a in enumerate(outputs) for b in outputs[:at]) / (len(outputs) * (len(outputs) - 1) / 2)
        print(f"\n{equal} of 20 pairs are equal; {chance:.3f} of all pairs")
        assert equal <= 3

    def test_a_seed_is_kept(self, server, reject_id):
        """With a seed of the request both engines give one output, as vLLM's own sampler does."""
        body = {
            "model": "m", "prompt": LETTER, "max_tokens": 24, "temperature": 1.0, "top_p": 1, "top_k": 0, "stop_token_ids": [reject_id],
            "seed": 5,
            "vllm_xargs": {"unskew": wish(unskew.Constraint.regex("[A-Za-z ]{6,20}"), reject_id, "weights")}, "return_token_ids": True,
        }
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: server.post("/v1/completions", body), range(6)))
        assert len({tuple(answer["choices"][0]["token_ids"]) for _, answer in answers}) == 1

    def test_the_law(self, server, model, tok, reject_id):
        follow(server, model, tok, reject_id, tok.encode_prompt(LETTER), requests=600)

    def test_masks(self, server):
        status, answer = server.post("/v1/completions", {"model": "m", "prompt": LETTER, "n": 8, "max_tokens": 30,
            "structured_outputs": {"choice": SIGNATURES}})
        assert status == 200 and all(choice["text"] in SIGNATURES for choice in answer["choices"])


class TestTwoRanks:
    """`--tensor-parallel-size 2`: both ranks draw the same tokens by themselves."""

    @pytest.fixture(scope="class")
    def server(self, checkpoint, tmp_path_factory):
        environment = {"VLLM_CPU_OMP_THREADS_BIND": "0|1"}
        yield from served(checkpoint, tmp_path_factory, "tensor-parallel", "--tensor-parallel-size", "2", environment=environment)

    def test_the_law(self, server, model, tok, reject_id):
        follow(server, model, tok, reject_id, tok.encode_prompt(LETTER), requests=600)

    def test_siblings(self, server, model, tok, reject_id):
        follow(server, model, tok, reject_id, tok.encode_prompt("Kind regards,\n" + LETTER), requests=10, n=60, at_once=2)

    def test_masks(self, server):
        status, answer = server.post("/v1/completions", {"model": "m", "prompt": LETTER, "n": 8, "max_tokens": 30,
            "structured_outputs": {"choice": SIGNATURES}})
        assert status == 200 and all(choice["text"] in SIGNATURES for choice in answer["choices"])


class TestPutAside:
    """So few blocks of memory that sequences are put aside in the middle of a walk, and come back."""

    @pytest.fixture(scope="class")
    def server(self, checkpoint, tmp_path_factory):
        few = ("--num-gpu-blocks-override", "6", "--block-size", "64", "--no-enable-prefix-caching")
        yield from served(checkpoint, tmp_path_factory, "few-blocks", *few)

    @pytest.fixture(scope="class")
    def prompt(self, tok):
        """One token less than a block: nearly every output needs another one."""
        ids = tok.encode_prompt(LETTER * 3)
        assert len(ids) > 63
        return ids[-63:]

    @pytest.mark.parametrize(("requests", "n"), [(640, 1), (40, 16)])
    def test_the_law(self, server, model, tok, reject_id, prompt, requests, n):
        before = server.metric("vllm:num_preemptions_total")
        follow(server, model, tok, reject_id, prompt, requests=requests, n=n, at_once=max(2, 16 // n))
        times = server.metric("vllm:num_preemptions_total") - before
        print(f"put aside {times:.0f} times")
        assert times > 20

    def test_long_outputs(self, server, reject_id, prompt):
        """Put aside at many lengths; with weights nothing but a fault rejects a walk."""
        constraint, before = unskew.Constraint.regex("[A-Za-z ,.]{90,140}").with_end("model"), server.metric("vllm:num_preemptions_total")
        walks = ask(server, prompt, constraint, reject_id, requests=64, max_tokens=150, mode="weights")
        assert not walks.errors and all(re.fullmatch("[A-Za-z ,.]{90,140}", text) for text in walks.texts)
        assert walks.rejected == 0 and server.metric("vllm:num_preemptions_total") - before > 20

    def test_masks(self, server):
        body = {"model": "m", "prompt": LETTER, "n": 16, "max_tokens": 150, "structured_outputs": {"regex": "[A-Za-z ,.]{90,140}"}}
        status, answer = server.post("/v1/completions", body)
        assert status == 200 and all(re.fullmatch("[A-Za-z ,.]{90,140}", choice["text"]) for choice in answer["choices"])


class TestClientsThatGo:
    @pytest.fixture(scope="class")
    def server(self, checkpoint, tmp_path_factory):
        yield from served(checkpoint, tmp_path_factory, "aborts")

    def test_what_is_learned_goes_on(self, server, model, tok, reject_id):
        """A walk whose client has gone must not keep those that ended after it from being counted."""
        law, mass = law_of(model, tok, tok.encode_prompt(LETTER))
        first = estimate(server, LETTER, NAMES, n=20, max_tokens=MOST)
        body = {
            "model": "m", "prompt": LETTER, "max_tokens": MOST, "n": 8, "temperature": 1.0, "top_p": 1, "top_k": 0,
            "stop_token_ids": [reject_id],
            "vllm_xargs": {"unskew": wish(NAMES, reject_id)},
        }
        for after in (0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
            assert server.leave("/v1/completions", body, after)
        time.sleep(2)
        told = [estimate(server, LETTER, NAMES, n=100, max_tokens=MOST) for _ in range(3)]
        print(f"\nbefore {first}, after clients that went {told}, exact {math.log(mass):.4f}")
        assert len({log_estimate for log_estimate, _ in [first, *told]}) > 1 and told[-1][1] < first[1]
        assert abs(math.exp(told[-1][0]) / mass - 1) < 4 * told[-1][1] + 0.01

    def test_the_law_among_them(self, server, model, tok, reject_id):
        body = {"model": "m", "prompt": LETTER, "max_tokens": MOST, "n": 4, "vllm_xargs": {"unskew": wish(NAMES, reject_id)},
            "stop_token_ids": [reject_id]}
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            going = pool.submit(lambda: [server.leave("/v1/completions", {**body, "top_p": 1, "top_k": 0},
                0.05 + 0.01 * (at % 10)) for at in range(60)])
            follow(server, model, tok, reject_id, tok.encode_prompt(LETTER), requests=400)
            assert all(going.result(300))

    def test_masks_among_them(self, server):
        body = {"model": "m", "prompt": LETTER, "n": 8, "max_tokens": 100, "structured_outputs": {"regex": "[A-Za-z ,.]{90,140}"}}
        for after in (0.02, 0.1, 0.3):
            assert server.leave("/v1/completions", body, after)
            status, answer = server.post("/v1/completions", {**body, "n": 4, "max_tokens": 30,
                "structured_outputs": {"choice": SIGNATURES}})
            assert status == 200 and all(choice["text"] in SIGNATURES for choice in answer["choices"])
        deadline = time.monotonic() + 60
        while server.metric("vllm:num_requests_running") and time.monotonic() < deadline:
            time.sleep(0.5)
        assert server.metric("vllm:num_requests_running") == 0
