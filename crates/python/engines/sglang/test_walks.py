"""`Faithful` behind SGLang's interface, over a model that is a function: overlap, retractions, pieces; what goes wrong stays with its request."""

import gc
import json
import math
import random
import weakref
from collections import Counter
from types import SimpleNamespace

import pytest
import torch

from law import p_value
from unskew.sglang import _faithful

LETTERS = json.dumps({"regex": "[ab]{1,12}", "end": "model"})
PROMPT = [7, 8, 9]


def row(ids, a, end_id, p_first=0.9, p_end=0.2):
    logits = torch.full((1, 2048), -30.0)
    end = 0.0 if not ids else p_end
    first = p_first if not ids else 0.6
    logits[0, a], logits[0, a + 1] = math.log((1 - end) * first), math.log((1 - end) * (1 - first))
    if ids:
        logits[0, end_id] = math.log(end)
    return logits


LAW = {n: 0.2 * 0.8 ** (n - 1) / (1 - 0.8**12) for n in range(1, 13)}


class Params(SimpleNamespace):
    """`SamplingParams` of SGLang, as its scheduler has them."""

    def __init__(self, **changes):
        super().__init__(**{
            "temperature": 1.0, "top_p": 1.0, "top_k": 1 << 30, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
            "repetition_penalty": 1.0, "min_new_tokens": 0, "logit_bias": None, "ignore_eos": False, "beam_width": None, "stop_strs": None,
            "stop_regex_strs": None, "stop_token_ids": None, "json_schema": None, "regex": None, "ebnf": None, "structural_tag": None, "n": 1,
            "max_new_tokens": 20, **changes,
        })


class Req:
    """A request of SGLang's scheduler."""

    def __init__(self, rid, hf, wish=LETTERS, params=None, **more):
        self.rid, self.origin_input_ids, self.output_ids = rid, list(PROMPT), []
        self.tokenizer, self.eos_token_ids = hf, {hf.eos_token_id}
        self.sampling_params = params or Params()
        self.customized_info = self.to_finish = self.input_embeds = self.lora_id = self.multimodal_inputs = None
        self.extend_end, self.full_untruncated_fill_ids = None, []
        self.kv = SimpleNamespace(kv_committed_len=len(PROMPT))
        self.custom = {"unskew": {"constraint": json.loads(wish)} if isinstance(wish, str) else wish, "__req__": weakref.proxy(self)}
        vars(self).update(more)


@pytest.fixture
def hf(checkpoint):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture
def a(hf):
    _faithful._faithful.clear()
    [a] = hf.encode("a", add_special_tokens=False)
    return a


def run(hf, a, count, *, retract=0.0, piece=0.0, overlap=True, seed=1, p_first=0.9, p_end=0.2, name="r", **more):
    """Outputs of so many requests one after the other, in an engine whose results lag one step behind, as by default."""
    dice, processor, done = random.Random(seed), _faithful.Faithful(), []
    for at in range(count):
        req = Req(f"{name}{at}", hf, **more)
        flight = None
        while True:
            ids = [*req.output_ids, *([] if flight is None else [flight])]
            if dice.random() < retract:
                # The token in flight is lost, and the text is read again.
                flight, ids = None, list(req.output_ids)
                req.kv.kv_committed_len = len(PROMPT) + len(ids)
            if dice.random() < piece:
                req.extend_end, req.full_untruncated_fill_ids = 2, [*PROMPT, *ids]
                logits = torch.full((1, 2048), -30.0)
                logits[0, a + 1] = 0.0
                assert torch.equal(processor(logits.clone(), [req.custom]), logits)
                req.extend_end = None
            chosen = processor(row(ids, a, hf.eos_token_id, p_first, p_end), [req.custom])
            assert req.to_finish is None, req.to_finish
            assert int(torch.isfinite(chosen).sum()) == 1
            token = int(chosen.argmax())
            if flight is not None:
                req.output_ids.append(flight)
            flight = token
            if not overlap:
                req.output_ids.append(flight)
                flight = None
            if token == hf.eos_token_id or token in req.sampling_params.stop_token_ids:
                if flight is not None:
                    req.output_ids.append(flight)
                if overlap and dice.random() < 0.5:
                    # One more is under way.
                    processor(row([a], a, hf.eos_token_id), [req.custom])
                    req.customized_info["unskew"] = req.customized_info["unskew"][: len(req.output_ids)]
                break
            req.kv.kv_committed_len += 1
        result = req.customized_info["unskew"][-1]
        assert len(req.customized_info["unskew"]) == len(req.output_ids) and not any(req.customized_info["unskew"][:-1])
        done.append((req.output_ids[:-1] if result["accepted"] else None, result))
    return done


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("chances", [{}, {"retract": 0.2}, {"retract": 0.1, "piece": 0.2}])
def test_the_law_stays(hf, a, overlap, chances):
    """B9: a retracted request was one position early from then on, and its text broke the constraint."""
    done = run(hf, a, 1500, overlap=overlap, **chances)
    texts = [ids for ids, _ in done if ids is not None]
    assert len(texts) > 1400 and all(set(ids) <= {a, a + 1} and 1 <= len(ids) <= 12 for ids in texts)
    assert p_value(Counter(map(len, texts)), LAW, len(texts)) > 0.001
    firsts = [ids[0] == a for ids in texts]
    assert abs(sum(firsts) / len(firsts) - 0.9) < 4 * math.sqrt(0.09 / len(firsts))


def test_adapters_and_weights(hf, a):
    """B4."""

    def share(p_first, **more):
        firsts = [ids[0] == a for ids, _ in run(hf, a, 500, p_first=p_first, name=f"{p_first}{more}", **more) if ids]
        return sum(firsts) / len(firsts)

    image = SimpleNamespace(mm_items=[SimpleNamespace(hash=5, offsets=[(1, 2)])])
    assert abs(share(0.9) - 0.9) < 0.06 and abs(share(0.1, lora_id="x") - 0.1) < 0.06 and abs(share(0.3, multimodal_inputs=image) - 0.3) < 0.09
    _faithful.forget()
    assert abs(share(0.1) - 0.1) < 0.06


def test_other_servers_draw_other_numbers(hf, a, monkeypatch):
    outputs = []
    for seed in (1, 2, 1):
        _faithful._faithful.clear()
        monkeypatch.setattr(_faithful, "_server_seed", lambda: seed)  # noqa: B023
        outputs.append([ids for ids, _ in run(hf, a, 40)])
    assert outputs[0] == outputs[2] != outputs[1]
    # A seed repeats, whatever others have learned.
    wish = {"constraint": json.loads(LETTERS), "seed": 5}
    assert [run(hf, a, 1, wish=wish, name=name)[0][0] for name in "xyz"].count(run(hf, a, 1, wish=wish)[0][0]) == 3


@pytest.mark.parametrize(
    ("wish", "params", "says"),
    [
        (None, {}, "null"), ([1], {}, "list"), ("x", {}, "no JSON"), (3, {}, "int"), ({"mode": "cars"}, {}, "no `constraint`"),
        ({"constraint": {"any_of": [{"set": "/etc/passwd"}]}}, {}, "file"), ({"constraint": {"regex": "a"}, "x": 1}, {}, "no field `x`"),
        ({"constraint": {"regex": "("}}, {}, "line 1"), ({"constraint": {"regex": "a"}, "mode": "fair"}, {}, "fair"),
        ({"constraint": {"regex": "a"}}, {"stop_token_ids": {5}}, "stop_token_ids"), ({"constraint": {"regex": "a"}}, {"top_k": 1}, "top-k 1"),
        ({"constraint": {"regex": "a"}}, {"regex": "b"}, "`regex`"), ({"constraint": {"regex": "a"}}, {"max_new_tokens": None}, "max_new_tokens"),
        ({"constraint": {"regex": "a"}, "seed": 1}, {"n": 2}, "n > 1"),
    ],
)
def test_what_is_refused_ends_its_own_request(hf, a, wish, params, says):
    """B1, B11: beside a request that goes on."""
    bad, good = Req("bad", hf, params=Params(**params)), Req("good", hf)
    bad.custom["unskew"] = wish
    logits = _faithful.Faithful()(torch.cat([row([], a, hf.eos_token_id)] * 2), [bad.custom, good.custom])
    assert says in bad.to_finish.message and bad.to_finish.status_code == 400
    assert good.to_finish is None and int(torch.isfinite(logits[1]).sum()) == 1
    # It is asked for once more.
    _faithful.Faithful()(torch.cat([row([], a, hf.eos_token_id)] * 2), [bad.custom, None])


def test_whatever_comes(hf, a, monkeypatch):
    """B11: fields that are not there, requests that are gone, panics, and a client's own names."""
    processor, logits = _faithful.Faithful(), row([], a, hf.eos_token_id)
    gone = Req("gone", hf)
    custom = gone.custom
    del gone
    gc.collect()
    for params in ([1], "x", 3, None, {}, custom, {"unskew": {}, "__req__": None}):
        processor(logits.clone(), [params])
    own = Req("own", hf)
    own.custom[_faithful._OWN] = 3
    assert int(torch.isfinite(processor(logits.clone(), [own.custom])).sum()) == 1
    bare = Req("bare", hf)
    del bare.kv
    processor(logits.clone(), [bare.custom])
    assert bare.to_finish is not None

    class Panic(BaseException):
        pass

    def panics(*_):
        raise Panic("a panic")

    req = Req("panic", hf)
    monkeypatch.setattr(_faithful._walks, "step", panics)
    processor(logits.clone(), [req.custom])
    assert "a panic" in req.to_finish.message


def test_walks_go_with_their_requests(hf, a):
    before = len(_faithful._walks)
    requests = [Req(f"r{at}", hf) for at in range(10)]
    _faithful.Faithful()(torch.cat([row([], a, hf.eos_token_id)] * 10), [req.custom for req in requests])
    assert len(_faithful._walks) == before + 10
    del requests
    gc.collect()
    assert len(_faithful._walks) == before


def test_a_truncation_is_the_models(hf, a):
    """Of 0.7 and 0.3 the temperature makes 0.845 and 0.155, and top-p then leaves the first alone, or both."""
    for top_p, both in ((0.8, False), (0.9, True)):
        params = [Params(temperature=0.5, top_p=top_p) for _ in range(200)]
        texts = [run(hf, a, 1, p_first=0.7, p_end=0.9, params=each, name=f"{top_p} {at} ")[0][0] for at, each in enumerate(params)]
        assert {ids[0] for ids in texts if ids} == ({a, a + 1} if both else {a})
