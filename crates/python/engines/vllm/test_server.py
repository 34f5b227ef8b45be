"""Through the OpenAI server: the `openai` client, tools, hostile specs, n faithful outputs of one request. One start."""

import json
import math
import os
import pathlib
import random
import re
import time
import urllib.request
from collections import Counter

import openai
import pytest

import live
import unskew
from unskew.vllm import client as faithful

from cases import LETTER, SIGNATURES
from laws import Model, exact, p_value


@pytest.fixture(scope="session")
def server(checkpoint, folder, tmp_path_factory):
    arguments = [
        "--served-model-name", "tiny", "--max-model-len", "256", "--max-num-seqs", "32", "--enforce-eager", "--dtype", "float32",
        "--structured-outputs-config.backend", "unskew", "--logits-processors", "unskew.vllm:Faithful",
        "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
    ]
    log = tmp_path_factory.mktemp("log") / "server.log"
    with live.vllm(checkpoint, log, common=arguments, environment={"UNSKEW_COMPILE_SECONDS": "3"}) as server:
        yield server.url
        print(server.tail(1500) if os.environ.get("UNSKEW_TEST_LOG") else "")


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=f"{server}/v1", api_key="none", max_retries=0, timeout=300)


def is_healthy(server):
    with urllib.request.urlopen(f"{server}/health", timeout=60) as answer:
        return answer.status == 200


def test_response_format(client):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"}, "age": {"type": "integer", "minimum": 10, "maximum": 99}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    for kind in ("json_schema", "json_object"):
        format = {"type": kind}
        if kind == "json_schema":
            format["json_schema"] = {"name": "person", "schema": schema, "strict": True}
        answer = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "A record:"}], max_tokens=100, n=4, seed=1, response_format=format
        )
        for choice in answer.choices:
            if choice.finish_reason == "stop":
                value = json.loads(choice.message.content)
                assert isinstance(value, dict) and (kind == "json_object" or 10 <= value["age"] <= 99)
    assert any(choice.finish_reason == "stop" for choice in answer.choices)


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"regex": "(yes|no) [0-9]"}, lambda text: text[:-1] in ("yes ", "no ") and text[-1].isdigit()),
        ({"choice": SIGNATURES}, lambda text: text in SIGNATURES),
        ({"grammar": 'root ::= "a" | "bc"'}, lambda text: text in ("a", "bc")),
        ({"grammar": 'start: "a" | "bc"'}, lambda text: text in ("a", "bc")),
    ],
)
def test_structured_outputs(client, options, allowed):
    answer = client.completions.create(model="tiny", prompt=LETTER, max_tokens=40, n=4, extra_body={"structured_outputs": options})
    assert all(allowed(choice.text) for choice in answer.choices)


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            # Of other tools vLLM constrains the form of a call, and not its arguments.
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "integer", "minimum": 0, "maximum": 99}},
                "required": [key],
                "additionalProperties": False,
            },
        },
    }
    for name, key in [("lamp", "number"), ("door", "count")]
]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "door"}}, "auto"])
def test_tools(client, choice):
    answer = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Switch it on"}], max_tokens=120, n=3, seed=5, tools=TOOLS, tool_choice=choice
    )
    finished = [each for each in answer.choices if each.finish_reason != "length"]
    calls = [call.function for each in finished for call in each.message.tool_calls or []]
    for call in calls:
        arguments = json.loads(call.arguments)
        assert call.name in ("lamp", "door") and 0 <= arguments[{"lamp": "number", "door": "count"}[call.name]] <= 99
        assert not isinstance(choice, dict) or call.name == "door"
    assert calls or choice == "auto" or not finished


HOSTILE = [
    ("regex", "("), ("regex", "a{1000000}{1000000}"), ("regex", "(?=a)b"), ("regex", "(?<n>a)\\k<n>"), ("regex", "[z-a]"), ("regex", "\\u{110000}"),
    ("regex", "((((((((((a*)*)*)*)*)*)*)*)*)*" + ")"), ("json", "{"), ("json", "[]"), ("json", '{"type": "strange"}'), ("json", '{"$ref": "#/no"}'),
    ("json", '{"$ref": "http://127.0.0.1/x"}'), ("json", '{"minimum": "x"}'), ("json", '{"pattern": "("}'), ("json", '{"enum": []}'),
    ("json", '{"type": "object", "required": "a"}'), ("json", '{"type": "integer", "minimum": 5, "maximum": 4}'), ("json", '{"not": {}}'),
    ("grammar", "start: x"), ("grammar", "start: start"), ("grammar", "x: y"), ("grammar", 'start: "a'), ("grammar", "root ::= root"),
    ("grammar", "root ::= ("), ("grammar", "{"), ("grammar", '{"set": "/etc/passwd"}'), ("grammar", '{"regex_file": "x"}'),
    ("grammar", '{"regex": "a", "canonical": 3}'), ("structural_tag", "{}"), ("structural_tag", "x"),
    ("structural_tag", '{"type": "structural_tag", "format": {"type": "no"}}'),
    ("structural_tag", '{"type": "structural_tag", "format": {"type": "regex", "pattern": "("}}'),
    ("structural_tag", '{"structures": [], "triggers": 1}'), ("choice", []),
]


def hostile(count):
    """Specs that are broken on purpose, and more of them with a letter changed, dropped or doubled."""
    dice = random.Random(1)
    yield from HOSTILE
    whole = [("regex", "(ab|c)+[0-9]{2}"), ("json", '{"type": "object", "properties": {"a": {"type": "integer"}}}'), ("grammar", 'start: "a" x\nx: /b+/')]
    for _ in range(count):
        kind, text = dice.choice([*HOSTILE[:-1], *whole])
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(text) + 1)
            text = text[:at] + dice.choice(["", "(", ")", "{", "}", '"', "\\", "[", "\u00e9", "9" * 30, text[at : at + 5] * 2]) + text[at + dice.randint(0, 2) :]
        yield kind, text


def test_hostile_specs(server, client):
    statuses = Counter()
    for kind, spec in hostile(int(os.environ.get("UNSKEW_HOSTILE", "300"))):
        try:
            client.completions.create(model="tiny", prompt="A", max_tokens=2, extra_body={"structured_outputs": {kind: spec}})
            statuses[200] += 1
        except openai.APIStatusError as error:
            statuses[error.status_code] += 1
            assert error.status_code == 400, (kind, spec, error)
    print(f"\nhostile specs: {dict(statuses)}")
    assert set(statuses) <= {200, 400} and statuses[400] >= len(HOSTILE) - 4 and is_healthy(server)
    # With the place, and our own words.
    with pytest.raises(openai.BadRequestError, match="unskew: .*line 1"):
        client.completions.create(model="tiny", prompt="A", max_tokens=2, extra_body={"structured_outputs": {"regex": "a(b"}})


def test_a_compile_of_minutes_ends(server, client):
    costly = '{"type": "number", "multipleOf": 0.00000007, "minimum": 0, "maximum": 1e4000}'
    began = time.monotonic()
    try:
        client.completions.create(model="tiny", prompt="A", max_tokens=2, extra_body={"structured_outputs": {"json": costly}})
        status = 200
    except openai.APIStatusError as error:
        status = error.status_code
        assert status == 400 and "unskew" in str(error), error
    print(f"\na costly schema: HTTP {status} in {time.monotonic() - began:.1f} s")
    assert is_healthy(server)


def test_the_client_begins_rejected_walks_again(server, tok, checkpoint):
    con = unskew.Constraint.choice(SIGNATURES).with_end("model")
    result = faithful.complete(f"{server}/v1", LETTER, con, n=600, max_tokens=24, top_p=1.0, top_k=0)
    compiled = unskew.Compiler(tok).compile(con)
    law, mass, _ = exact(Model(checkpoint), compiled, tok, tok.encode_prompt(LETTER), 0, 23)
    counts = Counter(output.text for output in result.outputs)
    print(f"\nclient: {dict(counts)} in {result.walks} walks, log P {result.log_estimate} +- {result.relative_error}")
    assert len(result.outputs) == 600 and p_value(counts, law) > 0.001
    assert abs(2.718281828**result.log_estimate / mass - 1) < 4 * result.relative_error + 0.01
    with pytest.raises(faithful.ServerError, match="HTTP 400.*unskew"):
        faithful.complete(f"{server}/v1", LETTER, unskew.Constraint.regex("("), n=1)


def test_n_faithful_outputs_of_one_request(server, client, tok, checkpoint):
    con = unskew.Constraint.choice(SIGNATURES).with_end("model")
    wish = json.dumps({"constraint": {"choices": SIGNATURES}})
    answer = client.completions.create(model="tiny", prompt=LETTER, n=500, max_tokens=24, extra_body={"vllm_xargs": {"unskew": wish}})
    law, mass, _ = exact(Model(checkpoint), unskew.Compiler(tok).compile(con), tok, tok.encode_prompt(LETTER), 0, 23)
    counts = Counter(choice.text for choice in answer.choices)
    found = answer.model_extra["unskew"]
    print(f"\nendpoint: {dict(counts)}, {found}")
    assert [choice.index for choice in answer.choices] == list(range(500)) and p_value(counts, law) > 0.001
    assert abs(2.718281828 ** found["log_estimate"] / mass - 1) < 4 * found["relative_error"] + 0.01
    assert all(choice.model_extra["unskew"]["log_prob"] < 0 for choice in answer.choices)
    # With weights, and the masses of masks.
    weighed = json.dumps({"constraint": {"choices": SIGNATURES}, "mode": "weights", "log_masks": True})
    answer = client.completions.create(model="tiny", prompt=LETTER, n=200, max_tokens=24, extra_body={"vllm_xargs": {"unskew": weighed}})
    results = [choice.model_extra["unskew"] for choice in answer.choices]
    assert len(results) == 200 == answer.model_extra["unskew"]["walks"]
    assert all(math.isclose(result["log_weight"], sum(result["log_masks"]), abs_tol=1e-4) for result in results)
    mean = sum(math.exp(result["log_weight"]) for result in results) / 200
    assert math.isclose(mean, math.exp(answer.model_extra["unskew"]["log_estimate"]), rel_tol=1e-6)
    # A seed repeats.
    seeded = [
        client.completions.create(model="tiny", prompt=LETTER, n=3, max_tokens=24, seed=7, extra_body={"vllm_xargs": {"unskew": wish}}) for _ in range(2)
    ]
    assert [choice.text for choice in seeded[0].choices] == [choice.text for choice in seeded[1].choices]
    # Other requests pass as they are.
    assert client.completions.create(model="tiny", prompt="A", max_tokens=3, n=2).choices[1].text is not None
    for bad in ("{", "[]", '{"constraint": {"regex": "("}}', '{"constraint": {"regex": "a"}, "mode": "fair"}', '{"constraint": {"regex": "a"}, "x": 1}'):
        with pytest.raises(openai.BadRequestError):
            client.completions.create(model="tiny", prompt=LETTER, n=2, max_tokens=24, extra_body={"vllm_xargs": {"unskew": bad}})
    assert is_healthy(server)


# The template of the checkpoint puts a line break after it.
CHAT = [{"role": "user", "content": LETTER.rstrip("\n")}]


def test_n_faithful_outputs_of_a_chat(server, client, tok, checkpoint):
    con = unskew.Constraint.choice(SIGNATURES).with_end("model")
    law, mass, _ = exact(Model(checkpoint), unskew.Compiler(tok).compile(con), tok, tok.encode(LETTER), 0, 23)
    wish = json.dumps({"constraint": {"choices": SIGNATURES, "end": "model"}})

    def ask(**options):
        return client.chat.completions.create(
            model="tiny", messages=CHAT, max_completion_tokens=24, extra_body={"vllm_xargs": {"unskew": wish}, **options.pop("extra", {})}, **options
        )

    answer = ask(n=500)
    counts, found = Counter(choice.message.content for choice in answer.choices), answer.model_extra["unskew"]
    print(f"\nchat: {dict(counts)}, {found}")
    assert [choice.index for choice in answer.choices] == list(range(500)) and p_value(counts, law) > 0.001
    assert abs(2.718281828 ** found["log_estimate"] / mass - 1) < 4 * found["relative_error"] + 0.01
    first = answer.choices[0]
    assert first.model_extra["unskew"]["log_prob"] < 0 and not first.model_extra.get("token_ids") and not answer.model_extra.get("prompt_token_ids")
    # The client of the standard library, which has the ids of the chat from the server.
    result = faithful.complete(f"{server}/v1", CHAT, con, n=500, max_tokens=24, top_p=1.0, top_k=0)
    assert p_value(Counter(output.text for output in result.outputs), law) > 0.001
    told = dict(zip((output.text for output in result.outputs), (output.log_prob for output in result.outputs)))
    assert math.isclose(told[first.message.content], first.model_extra["unskew"]["log_prob"], abs_tol=1e-3)
    # A seed repeats, ids are given where they are asked for, and other chats pass as they are.
    seeded = [ask(n=3, seed=7, extra={"return_token_ids": True}) for _ in range(2)]
    assert [each.model_extra["token_ids"] for each in seeded[0].choices] == [each.model_extra["token_ids"] for each in seeded[1].choices]
    assert client.chat.completions.create(model="tiny", messages=CHAT, max_tokens=3, n=2).choices[1].message.content is not None
    for options in ({"stop": "e"}, {"presence_penalty": 1.0}, {"stream": True}, {"response_format": {"type": "json_object"}}):
        with pytest.raises(openai.BadRequestError, match="unskew"):
            ask(n=2, **options)
    assert is_healthy(server)


def test_the_tutorial(server, capsys):
    """The code of docs/tutorials/vllm.md, as it stands but for the address of the server."""
    page = (pathlib.Path(__file__).parents[4] / "docs/tutorials/vllm.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)).replace("http://localhost:8000", server)
    exec(compile(code, "docs/tutorials/vllm.md", "exec"), {})
    masked, faithful, price, *outputs = capsys.readouterr().out.splitlines()
    assert masked.startswith("masked Counter({") and faithful.startswith("faithful Counter({") and "'accepted': " in price
    assert len(outputs) == 5 and all('"emotion"' in line for line in outputs)
    for name in re.findall(r"'(\w+)': \d+", masked + faithful):
        assert name in ("joy", "sadness", "anger", "fear")
