"""SGLang 0.5.23 itself, on the CPU: its server with the backend `unskew`, and its own classes around ours."""

import json
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import unskew
import unskew.sglang
from law import exact, p_value
from unskew.sglang import Backend, sample

LETTER = (
    "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024. It should arrive in three days.\nKind regards,\n"
)
SIGNATURES = ["Thomas Hansen", "Peter Costa", "Paul Becker"]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 10, "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def hf(checkpoint):
    transformers = pytest.importorskip("transformers")
    return transformers.AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture(scope="module")
def rows(checkpoint):
    """The model as a function, without SGLang."""
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()

    def rows(batch):
        length = max(map(len, batch))
        ids = torch.tensor([[*ids, *[0] * (length - len(ids))] for ids in batch])
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        return torch.stack([logits[row, len(ids) - 1] for row, ids in enumerate(batch)]).numpy()

    return rows


@pytest.fixture(scope="module")
def tokenizer(hf):
    return unskew.Tokenizer.from_hf(hf)


@pytest.fixture(scope="module")
def client(server):
    return pytest.importorskip("openai").OpenAI(base_url=server.url + "/v1", api_key="none")


def complete(server, prompt="A record:", count=1, **params):
    params = {"max_new_tokens": 60, "temperature": 1.0, **params}
    return server.post("/generate", {"text": [prompt] * count, "sampling_params": [params] * count})


# Masks.


@pytest.mark.parametrize(
    ("field", "text", "pattern"),
    [
        ("regex", r' \{"name": "[A-Z][a-z]{1,8}", "age": [1-9][0-9]\}', r' \{"name": "[A-Z][a-z]{1,8}", "age": [1-9][0-9]\}'),
        ("ebnf", 'root ::= " " item ("," item)? \nitem ::= [a-c] | "(" item ")"', r" .*[a-c].*"),
        ("ebnf", "start: \" \" WORD (\",\" WORD)*\nWORD: /[a-z]{2,4}/", r" [a-z]{2,4}(,[a-z]{2,4})*"),
        ("ebnf", json.dumps({"choices": SIGNATURES, "canonical": True}), "|".join(SIGNATURES)),
    ],
)
def test_texts_match(server, field, text, pattern):
    status, answers = complete(server, count=8, **{field: text})
    assert status == 200
    for answer in answers:
        if answer["meta_info"]["finish_reason"]["type"] == "stop":
            assert re.fullmatch(pattern, answer["text"]), answer
    assert any(answer["meta_info"]["finish_reason"]["type"] == "stop" for answer in answers)


def test_response_format(client):
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "A record:"}],
        max_tokens=80,
        temperature=1,
        n=8,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    )
    # White space has no end, and the model likes it: some outputs are cut.
    ended = [choice for choice in answer.choices if choice.finish_reason == "stop"]
    assert ended and all(choice.finish_reason in ("stop", "length") for choice in answer.choices)
    for choice in ended:
        value = json.loads(choice.message.content)
        assert set(value) == {"name", "age"} and 10 <= value["age"] <= 99
    answer = client.completions.create(model=model, prompt="One:", max_tokens=9, extra_body={"regex": " (yes|no)"})
    assert answer.choices[0].text in (" yes", " no")


def test_structural_tags(server):
    tag = {
        "type": "structural_tag",
        "format": {
            "type": "sequence",
            "elements": [
                {"type": "const_string", "value": "<call>"},
                {"type": "json_schema", "json_schema": {"type": "boolean"}},
                {"type": "const_string", "value": "</call>"},
            ],
        },
    }
    status, answers = complete(server, count=4, structural_tag=json.dumps(tag))
    assert status == 200
    for answer in answers:
        assert answer["text"] in ("<call>true</call>", "<call>false</call>")


def test_errors_are_400_with_the_message_and_the_server_lives(server):
    for params, says in [
        ({"regex": "(a"}, "line 1, column 1"),
        ({"json_schema": '{"properties": {"a": {"minimum": "x"}}}'}, "/properties/a"),
        ({"ebnf": "root ::= missing"}, "missing"),
        ({"ebnf": '{"set": "/etc/passwd"}'}, "names a file, and this server lends none"),
        ({"structural_tag": '{"type": "structural_tag", "format": {"type": "none"}}'}, "/format"),
    ]:
        for _ in range(2):
            status, answer = server.post("/generate", {"text": "A", "sampling_params": {"max_new_tokens": 9, **params}})
            assert status == 400 and says in answer, (params, status, answer)
    assert server.is_up()


def test_hostile_constraints(server):
    """Damaged and large ones: an answer or status 400, and the server lives."""
    random.seed(5)
    bases = [
        ("json_schema", json.dumps(PERSON)),
        ("regex", r"([a-z]+(\.[0-9]{2,30})?)*"),
        ("ebnf", 'root ::= "(" root* ")" | [a-z]+'),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "any_text"}}'),
        ("ebnf", '{"choices": ["yes", "no"]}'),
    ]
    hostile = [
        ("regex", "(((a{0,99}b){0,99}c){0,99}d){0,99}"),
        ("regex", "(" * 5000),
        ("json_schema", "[" * 5000),
        ("json_schema", '{"allOf": [' * 200 + "{}" + "]}" * 200),
        ("ebnf", "root ::= " + "(" * 3000),
        ("json_schema", '{"$ref": "#"}'),
    ]
    for _ in range(150):
        field, text = random.choice(bases)
        text = list(text)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(text))
            text[at] = random.choice(["", '"', "{", "}", "\\", "\u2028", "(", "]", text[at] * 3, chr(random.randrange(1, 0xD000))])
        hostile.append((field, "".join(text)))

    def ask(case):
        field, text = case
        status, _ = server.post("/generate", {"text": "A", "sampling_params": {"max_new_tokens": 4, field: text}})
        return status

    with ThreadPoolExecutor(8) as threads:
        statuses = Counter(threads.map(ask, hostile))
    assert set(statuses) == {200, 400}, statuses
    assert server.is_up()
    print(f"{len(hostile)} hostile constraints: {dict(statuses)}")


def test_requests_at_once(server):
    def ask(number):
        status, answers = complete(server, count=4, regex=f" {number}[a-c]{{3}}", max_new_tokens=20)
        return status == 200 and all(re.fullmatch(f" {number}[a-c]{{3}}", answer["text"]) for answer in answers)

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(ask, range(48)))


# SGLang's own classes.


def test_a_draft_tree_as_sglang_walks_it(tokenizer):
    from sglang.srt.speculative.spec_utils import traverse_tree

    grammar = Backend(tokenizer).dispatch_regex("(ab|ac|b)")
    a, b, c = (tokenizer.encode(text)[0] for text in "abc")
    end = tokenizer.eos[0]
    # 0 -> 1: a -> 2: b -> 3: end; 4: c, beside 2; 5: b, beside 1; 6: c, beside 5, which is not allowed
    tokens = torch.tensor([0, a, b, end, c, b, c])
    child = torch.tensor([1, 2, 3, -1, -1, -1, -1])
    sibling = torch.tensor([-1, 5, 4, -1, -1, 6, -1])
    mask = grammar.allocate_vocab_mask(tokenizer.vocab_size, len(tokens), "cpu")
    traverse_tree(child, sibling, tokens, grammar, mask)
    expected = {0: "", 1: "a", 2: "ab", 4: "ac", 5: "b"}
    for row, text in expected.items():
        matcher = unskew.Matcher(unskew.Compiler(tokenizer).compile(unskew.Constraint.regex("(ab|ac|b)")))
        assert matcher.accept_all([tokenizer.encode(one)[0] for one in text]) == len(text)
        own = torch.zeros(1, tokenizer.mask_words, dtype=torch.int32)
        matcher.fill(own)
        assert torch.equal(mask[row], own[0]), row
    assert (mask[[3, 6]] == -1).all()
    before = grammar.allocate_vocab_mask(0, 1, "cpu")
    grammar.fill_vocab_mask(before, 0)
    assert torch.equal(before[0], mask[0]), "the walk changed the grammar"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_masks_are_applied(tokenizer, dtype):
    grammar = Backend(tokenizer).dispatch_regex("[0-9]")
    mask = grammar.allocate_vocab_mask(0, 3, "cpu")
    grammar.fill_vocab_mask(mask, 1)
    logits = torch.randn(3, tokenizer.vocab_size).to(dtype)
    before = logits.clone()
    grammar.apply_vocab_mask(logits=logits, vocab_mask=grammar.move_vocab_mask(mask, "cpu"))
    assert torch.equal(logits[[0, 2]], before[[0, 2]])
    matcher = grammar.guarded.matcher
    for id in range(tokenizer.vocab_size):
        allowed = matcher.validate([id]) == 1
        assert logits[1, id] == (before[1, id] if allowed else float("-inf"))


@pytest.mark.parametrize("strict", [False, True])
def test_reasoning(hf, strict):
    """SGLang's wrapper lets a request think, and our grammar begins after the end of it."""
    import types

    options = types.SimpleNamespace(reasoning_parser="qwen3", enable_strict_thinking=strict)
    backend = unskew.sglang._create(options, hf, len(hf), {hf.eos_token_id})
    for _ in range(2):
        value, is_kept = backend.get_cached_or_future_value(("regex", "[0-9]+"), True)
        grammar = value if is_kept else value.result(60)
        backend.set_cache(("regex", "[0-9]+"), grammar.copy())
    assert not backend.cache
    grammar = grammar.copy()

    def fill():
        mask = grammar.allocate_vocab_mask(len(hf), 1, "cpu")
        grammar.fill_vocab_mask(mask, 0)
        return mask

    def ids(text):
        return hf.encode(text, add_special_tokens=False)

    for id in ids("I think that"):
        assert (fill() == -1).all() or strict
        grammar.accept_token(id)
    end = ids("</think>")
    for id in end:
        grammar.accept_token(id)
    after = fill()
    (digit,), (letter,) = ids("7"), ids("x")
    assert after[0, digit // 32] >> (digit % 32) & 1 and not after[0, letter // 32] >> (letter % 32) & 1
    grammar.accept_token(digit)
    grammar.rollback(2)
    assert (fill() == -1).all() or strict
    grammar.accept_token(end[-1])
    assert torch.equal(fill(), after)
    grammar.accept_token(digit)
    grammar.accept_token(hf.eos_token_id)
    assert grammar.is_terminated()


# Outputs from the model's own distribution.


LAWS = {
    "signatures": (LETTER, unskew.Constraint.choice(SIGNATURES), 12),
    "a regex": ("The code is", unskew.Constraint.regex(" [0-9]{3}"), 4),
    "a schema": ("Is it so? ", unskew.Constraint.json_schema({"enum": [True, False, None, 12, "yes"]}, whitespace="compact"), 6),
    "a grammar": ("Say: ", unskew.Constraint.lark('start: ("a" | "an") " " ("apple" | "pear" | "nut")'), 8),
    "canonical": (LETTER, unskew.Constraint.choice(SIGNATURES, canonical=True), 12),
}


@pytest.mark.parametrize("name", LAWS)
def test_outputs_follow_the_model_s_law(server, hf, rows, tokenizer, name):
    prompt, constraint, most = LAWS[name]
    constraint = constraint.with_end("model")
    ids = hf.encode(prompt)
    law, total = exact(rows, tokenizer, constraint, ids, most, least=1e-20)
    n = 2000
    drawn = sample(server.url, ids, constraint, n=n, max_tokens=most)
    counts = Counter(tuple(output.ids) for output in drawn.outputs)
    p = p_value(counts, law, n)
    estimate = 2.718281828459045**drawn.log_estimate
    print(f"{name}: p = {p:.3f}, {drawn.walks} walks, P(constraint) {estimate:.4g}, exact {total:.4g}")
    assert p > 0.001
    for output in drawn.outputs[:20]:
        assert abs(law[tuple(output.ids)] - 2.718281828459045**output.log_prob) < 1e-3 * law[tuple(output.ids)]
        assert output.text == hf.decode(output.ids)
    assert abs(estimate / total - 1) < 6 * max(drawn.relative_error or 0.0, 1e-3)


def test_a_long_prompt_comes_in_pieces(server, hf, rows, tokenizer):
    """Longer than a piece of prefill: rows of pieces are none of the walk's."""
    ids = hf.encode(LETTER * 3)[:200]
    constraint = unskew.Constraint.choice(SIGNATURES).with_end("model")
    law, _ = exact(rows, tokenizer, constraint, ids, 12)
    drawn = sample(server.url, ids, constraint, n=200, max_tokens=12)
    for output in drawn.outputs:
        assert abs(law[tuple(output.ids)] - 2.718281828459045**output.log_prob) < 1e-3 * law[tuple(output.ids)]


@pytest.mark.parametrize(
    "params",
    [{"top_k": 5}, {"top_p": 0.9}, {"temperature": 0}, {"min_p": 0.1}, {"stop": ["a"]}, {"regex": "a"}, {"min_new_tokens": 2}],
)
def test_what_would_change_the_law_is_refused(server, params):
    from unskew.sglang._requests import PROCESSOR

    custom = {"unskew": json.dumps({"constraint": unskew.Constraint.regex("[0-9]").to_json()})}
    body = {
        "text": "A",
        "sampling_params": {"max_new_tokens": 5, "custom_params": custom, **params},
        "custom_logit_processor": PROCESSOR,
    }
    status, answer = server.post("/generate", body)
    assert status == 400 and "would change the distribution" in answer, (status, answer)
    assert server.is_up()


def test_a_wrong_request_for_faithful_outputs_is_400(server):
    from unskew.sglang._requests import PROCESSOR

    for custom, says in [
        ({"unskew": "{}"}, "JSON with `constraint`"),
        ({"unskew": "x"}, ""),
        ({"unskew": json.dumps({"constraint": '{"regex": "("}'})}, "column 1"),
        ({"unskew": json.dumps({"constraint": '{"set": "/etc/passwd"}'})}, "names a file"),
        ({"unskew": json.dumps({"constraint": '{"regex": "a"}', "sampler": "x"})}, "no field `sampler`"),
        ({"unskew": json.dumps({"constraint": '{"regex": "a"}', "mode": "x"})}, "no mode `x`"),
    ]:
        body = {"text": "A", "sampling_params": {"max_new_tokens": 5, "custom_params": custom}, "custom_logit_processor": PROCESSOR}
        status, answer = server.post("/generate", body)
        assert status == 400 and says in answer, (custom, status, answer)
    # Requests without the key are left alone.
    status, answer = server.post("/generate", {"text": "A", "sampling_params": {"max_new_tokens": 5}, "custom_logit_processor": PROCESSOR})
    assert status == 200, answer
    assert server.is_up()
