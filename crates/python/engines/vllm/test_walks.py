"""`Faithful` behind both interfaces of vLLM, over a model that is a function: whatever an engine does with its sequences, the law stays."""

import functools
import gc
import json
import math
import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import unskew
import unskew.vllm
from laws import p_value
from unskew.vllm import faithful
from unskew.vllm.faithful import Faithful
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError

END = 0
PROMPT = [7, 8, 9]
#: Of one to twelve letters: a law of lengths, which a loss that grows with the length would change.
LETTERS = unskew.Constraint.regex("[ab]{1,12}").with_end("model")


def row(ids, a, p_first=0.9):
    """A model of single letters that ends after each with probability 0.2, and sometimes writes what is not allowed."""
    logits = torch.full((2048,), -30.0)
    first = p_first if not ids else 0.7 if ids[-1] == a else 0.4
    end = 0.0 if not ids else 0.2
    logits[a], logits[a + 1], logits[a + 2] = (math.log((0.95 - end) * p) for p in (first, 1 - first, 0.0526))
    if ids:
        logits[END] = math.log(end)
    return logits


def law(a, p_first=0.9, end="model"):
    """The probabilities of the first two letters with the length."""
    masses = Counter()

    @functools.cache
    def after(last):
        return torch.softmax(row([] if last is None else [last], a, p_first).double(), 0).tolist()

    def go(ids, p):
        probs = after(ids[-1] if ids else None)
        leaves = 1.0 if len(ids) == 12 else 1.0 - probs[a] - probs[a + 1]
        if ids:
            masses[tuple(ids[:2]), len(ids)] += p * (probs[END] if end == "model" else leaves)
        for id in (a, a + 1) if len(ids) < 12 else ():
            if p * probs[id] > 1e-9:
                go([*ids, id], p * probs[id])

    go([], 1.0)
    total = sum(masses.values())
    return {key: mass / total for key, mass in masses.items()}, total


class Engine:
    """An engine: slots and a schedule, rows of prompts that are read in pieces, and every way in which sequences leave and come back."""

    def __init__(self, config, version, seed=1, **chances):
        self.config, self.version, self.dice = config, version, random.Random(seed)
        self.chances = {"preempt": 0.0, "lose": 0.0, "piece": 0.0, "abort": 0.0, "swap": 0.0, **chances}
        self.slots, self.aside, self.fresh, self.finished, self.done, self.p_first = [None] * 8, [], [], [], [], 0.9
        self.requests, self.vllm_config = {}, config
        self.discard_request_mask = SimpleNamespace(np=np.zeros(8, bool))
        if version == 1:
            self.processor = Faithful(config, torch.device("cpu"), False)
        else:
            numbers = lambda: SimpleNamespace(np=np.zeros(8, int))  # noqa: E731
            self.state = SimpleNamespace(prompt_len=numbers(), prefill_len=numbers())
            self.processor = Faithful(config, self.state)

    def add(self, id, params, **more):
        """A request that waits."""
        new = SimpleNamespace(req_id=id, sampling_params=params, prompt_token_ids=PROMPT, prompt_embeds=None, mm_features=[], lora_request=None)
        vars(new).update(more)
        self.fresh.append([new, []])

    @property
    def input_batch(self):
        return SimpleNamespace(req_ids=[None if each is None else each[0].req_id for each in self.slots])

    @property
    def req_states(self):
        return SimpleNamespace(index_to_req_id={at: each[0].req_id for at, each in enumerate(self.slots) if each is not None})

    def is_busy(self):
        return any(self.slots) or self.aside or self.fresh

    def step(self, a):
        new_requests, happens = [], lambda name: self.dice.random() < self.chances[name]
        for at, each in enumerate(self.slots):
            if each is None:
                continue
            if happens("abort"):
                self.finished.append(each[0].req_id)
                self.slots[at] = None
            elif happens("preempt"):
                if each[1] and happens("lose"):
                    # The token in flight is lost.
                    each[1].pop()
                if self.dice.random() < 0.5:
                    each[1] = list(each[1])
                self.aside.append(each)
                self.slots[at] = None
        for at in range(8):
            if self.slots[at] is None and (self.aside or self.fresh):
                from_aside = self.aside and (not self.fresh or self.dice.random() < 0.5)
                self.slots[at] = each = self.aside.pop(0) if from_aside else self.fresh.pop(0)
                if self.version == 2 or not from_aside:
                    new_requests.append(each[0])
                if self.version == 2:
                    self.state.prompt_len.np[at], self.state.prefill_len.np[at] = len(PROMPT), len(PROMPT) + len(each[1])
                    self.processor.add_request(at, each[0].sampling_params)
        if happens("swap") and self.version == 1:
            self.dice.shuffle(self.slots)
        self.requests = {
            each[0].req_id: SimpleNamespace(output_token_ids=each[1]) for each in [*self.slots, *self.aside] if each is not None
        }
        schedule = SimpleNamespace(finished_req_ids=set(self.finished), scheduled_new_reqs=new_requests)
        self.finished = []
        faithful.observe(self, schedule)
        batch = [at for at, each in enumerate(self.slots) if each is not None]
        if not batch:
            return
        self.dice.shuffle(batch)
        pieces = {at for at in batch if happens("piece")}
        # A row of a piece of a prompt, which would spoil the law.
        wrong = torch.full((2048,), -30.0)
        wrong[a + 1] = 0.0
        rows = {at: wrong if at in pieces else row(self.slots[at][1], a, self.p_first) for at in batch}
        if self.version == 1:
            self.discard_request_mask.np[:] = [at in pieces for at in range(8)]
            logits = self.processor.apply(torch.stack([rows.get(at, wrong) for at in range(8)]))
            chosen = {at: logits[at] for at in batch}
        else:
            ends = [len(PROMPT) - 1 + len(self.slots[at][1]) for at in batch]
            positions = [max(0, end - 1) - len(self.slots[at][1]) if at in pieces else end for at, end in zip(batch, ends)]
            for at in pieces:
                # It was put aside, and its text is read again.
                self.state.prefill_len.np[at] = len(PROMPT) + len(self.slots[at][1])
            context = SimpleNamespace(idx_mapping_np=np.array(batch), pos=torch.tensor(positions))
            logits = self.processor.apply(torch.stack([rows[at] for at in batch]), context)
            chosen = dict(zip(batch, logits))
        for at in batch:
            each = self.slots[at]
            if at in pieces:
                continue
            if faithful.KEY in (each[0].sampling_params.extra_args or {}):
                assert int(torch.isfinite(chosen[at]).sum()) == 1, "one token is left"
            each[1].append(int(chosen[at].argmax()))
            if each[1][-1] in (END, *(each[0].sampling_params.stop_token_ids or [])) or len(each[1]) > 20:
                self.done.append((each[0].req_id, each[1]))
                self.finished.append(each[0].req_id)
                self.slots[at] = None

    def run(self, a, count, params, ids=None):
        """The outputs of so many requests, in the order in which they came; None for rejected ones and for those that were given up."""
        names = [f"r{at}" if ids is None else ids(at) for at in range(count)]
        for name in names:
            self.add(name, params)
        while self.is_busy():
            self.step(a)
        done, self.done = dict(self.done), []
        return [done[name][:-1] if name in done and done[name][-1] == END else None for name in names]


def results(name):
    """Those of the processors that have any: others of earlier tests may be there."""
    found = [each for each in json.loads(faithful.worker_results(name)) if each["outputs"]]
    return found[0] if found else None


@pytest.fixture
def a(tok):
    [a] = tok.encode("a")
    assert tok.encode("b") == [a + 1]
    return a


def params(hf, constraint=LETTERS, **options):
    return unskew.vllm.faithful_params(constraint, hf, **{"max_tokens": 20, **options})


def counts(outputs):
    return Counter((tuple(ids[:2]), len(ids)) for ids in outputs if ids is not None)


WAYS = {
    "quiet": {},
    "pieces": {"piece": 0.3},
    "preempted": {"preempt": 0.2},
    "preempted, tokens in flight are lost": {"preempt": 0.2, "lose": 0.7},
    "aborted": {"abort": 0.03, "preempt": 0.05},
    "all": {"piece": 0.2, "preempt": 0.1, "lose": 0.5, "abort": 0.02, "swap": 0.3},
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_the_law_stays(parts, hf, a, version, way):
    """B7, B8: rejections and lost tokens that come of preemption would make outputs shorter."""
    engine = Engine(parts, version, **WAYS[way])
    outputs = engine.run(a, 1500, params(hf))
    if "abort" not in WAYS[way]:
        assert sum(ids is None for ids in outputs) < 200
    given_up = WAYS[way].get("abort")
    if given_up:
        # An abort is more probable for a long output: the estimate goes on, and leans to what ends early.
        stats = engine.processor.engine().stats(LETTERS, PROMPT, max_tokens=19, context="[0]")
        assert stats["tries"] > 1200 and len(engine.processor._walks) <= 8
        exact = math.log(law(a)[1])
        assert abs(stats["log_estimate"] - exact) < 4 * stats["relative_error"] + 0.05
    else:
        assert p_value(counts(outputs), law(a)[0]) > 0.001


@pytest.mark.parametrize("version", [1, 2])
def test_the_law_of_outputs_that_end_freely(parts, hf, a, version):
    engine = Engine(parts, version, **WAYS["preempted, tokens in flight are lost"])
    outputs = engine.run(a, 1500, params(hf, end="free", reply="free"))
    exact, mass = law(a, end="free")
    assert p_value(counts(outputs), exact) > 0.001 and p_value(counts(outputs), law(a)[0]) < 1e-6
    found = results("free")["stats"]
    assert abs(math.exp(found["log_estimate"]) - mass) < 4 * found["relative_error"] + 0.02


@pytest.mark.parametrize("version", [1, 2])
def test_siblings_of_one_request(parts, hf, a, version):
    """Children of a request share its parameters; each has its own walk."""
    engine = Engine(parts, version, preempt=0.2, lose=0.5)
    outputs = engine.run(a, 1500, params(hf, n=1500, reply="them"), ids=lambda at: f"{at}_cmpl-1-abc")
    assert p_value(counts(outputs), law(a)[0]) > 0.001
    found = results("them")
    assert len(found["outputs"]) == 1500
    for at, ids in enumerate(outputs):
        result = found["outputs"][str(at)]
        assert result["accepted"] == (ids is not None)
        if ids is not None:
            logs = [torch.log_softmax(row(ids[:at], a).double(), 0)[id] for at, id in enumerate([*ids, END])]
            assert math.isclose(result["log_prob"], float(sum(logs)), abs_tol=1e-4) and result["log_weight"] == 0.0
    # They are told once.
    assert results("them") is None


def test_replicas_and_restarts_draw_other_numbers(parts, hf, a):
    outputs = [Engine(parts, 1).run(a, 40, params(hf)) for _ in range(2)]
    assert outputs[0] != outputs[1]
    same = sum(one == other for one, other in zip(*outputs))
    assert same < 20, "B6: chance alone"


def test_a_seed_repeats(parts, hf, a):
    def texts():
        engine = Engine(parts, 1)
        return [engine.run(a, 1, params(hf, seed=seed), ids=lambda _: f"x{seed}") for seed in range(20)]  # noqa: B023

    assert texts() == texts()


def test_ranks_that_share_a_batch_agree(parts, hf, a, monkeypatch):
    agreed = []
    monkeypatch.setattr(faithful, "_agreed", lambda text: agreed[0] if agreed else agreed.append(text) or text)
    outputs = [Engine(parts, version).run(a, 40, params(hf)) for version in (1, 1)]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("version", [1, 2])
def test_adapters_images_and_weights_have_laws_of_their_own(parts, hf, a, version):
    """B4: rows of another model behind the same ids."""
    engine = Engine(parts, version)
    wish = params(hf, constraint=unskew.Constraint.regex("[ab]"))
    image = lambda name: SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=1, length=1))  # noqa: E731
    lora = SimpleNamespace(lora_name="one", lora_int_id=1, lora_path="x")
    for number, (p_first, more) in enumerate([
        (0.9, {}), (0.1, {"lora_request": lora}), (0.5, {"mm_features": [image("cat")]}), (0.2, {"mm_features": [image("dog")]}), (0.9, {}),
        ("forget", {}), (0.1, {}),
    ]):
        if p_first == "forget":
            faithful.worker_forget()
            continue
        engine.p_first = p_first
        for at in range(1200):
            engine.add(f"{number}-{at}", wish, **more)
        while engine.is_busy():
            engine.step(a)
        firsts = [ids[0] == a for _, ids in engine.done if ids[-1] == END]
        engine.done = []
        assert abs(sum(firsts) / len(firsts) - p_first) < 4 * math.sqrt(p_first * (1 - p_first) / len(firsts)), (number, more)


def test_what_has_no_name_is_refused(parts, hf, a, caplog):
    engine = Engine(parts, 2)
    engine.add("r", params(hf, reply="x"), prompt_embeds=torch.zeros(3, 4), prompt_token_ids=None)
    engine.step(a)
    [(_, ids)] = engine.done
    assert ids == [params(hf).stop_token_ids[0]] and "embeddings" in caplog.text
    found = results("x")
    assert "embeddings" in found["outputs"]["0"]["error"]


def test_a_prompt_that_is_read_for_another_engine(parts, hf, a):
    """P/D: the token of the engine that reads the prompt is its own, and not rejected."""
    engine, wish = Engine(parts, 1), params(hf, max_tokens=1)
    wish.extra_args["kv_transfer_params"] = {"do_remote_decode": True}
    engine.add("r", wish)
    engine.requests = {}
    faithful.observe(engine, SimpleNamespace(finished_req_ids=set(), scheduled_new_reqs=[engine.fresh[0][0]]))
    logits = row([], a)[None].repeat(8, 1)
    engine.slots[0] = engine.fresh[0]
    assert torch.equal(engine.processor.apply(logits.clone()), logits)
    Faithful.validate_params(wish)


def test_drafts_are_followed_as_far_as_the_walk_goes(parts, hf, a):
    """V2 with speculation: a row for each draft. An engine takes the drafts that the rows confirm, and the token of the row after them."""
    engine = Engine(parts, 2)
    processor, dice, done = engine.processor, random.Random(5), []
    sequences = {}
    number = 0
    while len(done) < 3000:
        new = []
        for slot in range(8):
            if slot not in sequences:
                request = SimpleNamespace(
                    req_id=f"d{number}", sampling_params=params(hf), prompt_token_ids=PROMPT, prompt_embeds=None, mm_features=[], lora_request=None
                )
                sequences[slot] = (number, request, [])
                engine.slots[slot] = [request, sequences[slot][2]]
                engine.state.prompt_len.np[slot] = engine.state.prefill_len.np[slot] = len(PROMPT)
                number += 1
                new.append(request)
        faithful.observe(engine, SimpleNamespace(finished_req_ids=set(engine.finished), scheduled_new_reqs=new))
        engine.finished = []
        slots, positions, fed, rows, drafts = [], [], [], [], {}
        for slot, (_, _, ids) in sequences.items():
            drafts[slot] = [dice.choice([a, a + 1, END, a + 2]) for _ in range(dice.randrange(4))]
            for at in range(len(drafts[slot]) + 1):
                slots.append(slot)
                positions.append(len(PROMPT) - 1 + len(ids) + at)
                fed.append(drafts[slot][at - 1] if at else 99)
                rows.append(row([*ids, *drafts[slot][:at]], a))
        context = SimpleNamespace(
            idx_mapping_np=np.array(list(sequences)), expanded_idx_mapping=torch.tensor(slots), pos=torch.tensor(positions), input_ids=torch.tensor(fed)
        )
        logits = processor.apply(torch.stack(rows), context)
        for slot, (order, request, ids) in list(sequences.items()):
            own = [logits[at] for at, each in enumerate(slots) if each == slot]
            for at, one in enumerate(own):
                token = int(one.argmax())
                ids.append(token)
                if token == END or token == request.sampling_params.stop_token_ids[0]:
                    done.append((order, ids))
                    engine.finished.append(request.req_id)
                    del sequences[slot]
                    break
                if at < len(drafts[slot]) and drafts[slot][at] != token:
                    break
    done.sort()
    assert p_value(counts([ids[:-1] if ids[-1] == END else None for _, ids in done[:2900]]), law(a)[0]) > 0.001


def test_rows_are_fewer_than_ids_and_of_few_bits(parts, hf, a):
    """B5, B15: the tokenizer has ids beyond the rows; and rows of a device have 16 bits."""
    parts.model_config.get_vocab_size = lambda: 2000
    processor = Faithful(parts, torch.device("cpu"), False)
    assert processor.engine().row_len == 2000 and processor.engine().reject_id < 2000
    model = parts.model_config
    for wrong in (2000, 2047):
        with pytest.raises(VLLMValidationError, match="reject_id"):
            faithful.check_request(params(hf, reject_id=wrong), model, hf)
    engine = Engine(parts, 1)
    engine.processor = processor
    wish = params(hf, reject_id=processor.engine().reject_id)
    outputs = engine.run(a, 200, wish)
    assert sum(ids is not None for ids in outputs) > 150


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"presence_penalty": 0.1}, "presence_penalty"), ({"repetition_penalty": 1.1}, "repetition_penalty"), ({"min_tokens": 1}, "min_tokens"),
        ({"stop": ["x"]}, "stop"), ({"ignore_eos": True}, "ignore_eos"), ({"logit_bias": {5: 1.0}}, "logit_bias"), ({"temperature": 0.0}, "temperature"),
        ({"allowed_token_ids": [5]}, "allowed_token_ids"), ({"bad_words": ["x"]}, "bad_words"),
    ],
)
def test_what_changes_the_law_is_refused(hf, change, says):
    with pytest.raises(ValueError, match=says):
        params(hf, **change)


def test_a_truncation_and_a_temperature_are_the_models(parts, hf, a):
    """B10, and the settings of most models' folders."""
    engine = Engine(parts, 1)
    outputs = engine.run(a, 1500, params(hf, temperature=0.7, top_p=0.9, top_k=5, min_p=0.01, reply="t"))

    @functools.cache
    def after(last):
        return cut(row([] if last is None else [last], a))

    def cut(logits):
        p = torch.softmax(logits.double() / 0.7, 0)
        kept = sorted((id for id in (END, a, a + 1, a + 2) if p[id] >= 0.01 * p.max()), key=lambda id: -p[id])
        total, sum_ = sum(float(p[id]) for id in kept), 0.0
        for at, id in enumerate(kept):
            sum_ += float(p[id])
            if sum_ >= 0.9 * total:
                kept = kept[: at + 1]
                break
        total = sum(float(p[id]) for id in kept)
        return {id: float(p[id]) / total for id in kept}

    masses = Counter()

    def go(ids, p):
        probs = after(ids[-1] if ids else None)
        if ids and END in probs:
            masses[tuple(ids[:2]), len(ids)] += p * probs[END]
        for id in (a, a + 1) if len(ids) < 12 else ():
            if id in probs and p * probs[id] > 1e-9:
                go([*ids, id], p * probs[id])

    go([], 1.0)
    total = sum(masses.values())
    assert p_value(counts(outputs), {key: mass / total for key, mass in masses.items()}) > 0.001
    found = results("t")
    for at, ids in enumerate(outputs[:100]):
        if ids is not None:
            logs = [math.log(after(ids[at - 1] if at else None)[id]) for at, id in enumerate([*ids, END])]
            break
    assert abs(found["stats"]["log_estimate"] - math.log(total)) < 4 * found["stats"]["relative_error"] + 1e-6 and logs


@pytest.mark.parametrize("bad", ["nan", "constraint", "panic"])
def test_what_goes_wrong_rejects_its_own_sequence(parts, hf, a, monkeypatch, bad):
    engine = Engine(parts, 1)
    # One that is hardly ever rejected.
    engine.add("good", params(hf, constraint=unskew.Constraint.regex("[a-z]{1,19}")))
    if bad == "constraint":
        broken = params(hf)
        broken.extra_args["unskew"] = {**broken.extra_args["unskew"], "constraint": {"regex": "(a|b){1,99999}{1,9999}"}}
        engine.add("bad", broken)
    else:
        # Its rows are its own: prefixes that others have seen are drawn without a look at the row.
        engine.add("bad", params(hf), prompt_token_ids=[4, 5, 6])
    if bad == "panic":
        class Panic(BaseException):
            pass

        def step(walks, positions, *rest):
            if len(walks) > 1 or positions[0] == 1:
                raise Panic("a panic")
            return real(walks, positions, *rest)

        real = unskew.step_walks
        monkeypatch.setattr(unskew, "step_walks", step)
    plain = engine.processor.apply
    if bad == "nan":
        def apply(logits, *rest):
            names = engine.input_batch.req_ids
            logits[names.index("bad")] = float("nan") if "bad" in names else logits[0]
            return plain(logits, *rest)

        engine.processor.apply = apply
    for _ in range(30):
        if engine.is_busy():
            try:
                engine.step(a)
            except ValueError:
                # "bad" is over.
                engine.processor.apply = plain
    ends = {name: ids[-1] for name, ids in engine.done}
    assert ends["bad"] == params(hf).stop_token_ids[0] and len(ends) == 2
    if bad != "panic":
        assert ends["good"] == END


def test_walks_are_forgotten_with_their_requests(parts, hf, a):
    engine = Engine(parts, 2, abort=0.2, preempt=0.2)
    engine.run(a, 500, params(hf))
    faithful.observe(engine, SimpleNamespace(finished_req_ids={name for name, _ in engine.done} | set(engine.finished), scheduled_new_reqs=[]))
    assert len(engine.processor._walks) == 0 and not engine.processor._prompts
    del engine
    gc.collect()
    assert SamplingParams(max_tokens=3).extra_args is None
