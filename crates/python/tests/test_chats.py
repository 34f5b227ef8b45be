"""Faithful outputs of chats: vLLM's route with fakes of vLLM and fastapi, and the clients of both servers over HTTP."""

import asyncio
import importlib
import json
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import unskew
from unskew import sglang
from unskew.vllm import client

CHAT = [{"role": "user", "content": "A name?"}]
REJECT = 7


class Answer:
    def __init__(self, content, status_code=200):
        self.content, self.status_code, self.body = content, status_code, json.dumps(content).encode()


class Request(types.SimpleNamespace):
    """As `ChatCompletionRequest`, which has no `prompt`."""

    def __init__(self, **fields):
        nothing = dict.fromkeys(("n", "stream", "echo", "use_beam_search", "seed", "return_token_ids", "logprobs", "repetition_penalty", "stop_token_ids"))
        super().__init__(**{**nothing, "vllm_xargs": {"unskew": json.dumps({"constraint": {"regex": "[a-z]+"}})}, **fields})

    def model_copy(self, update):
        return Request(**{**vars(self), **update})


class Engine:
    """vLLM as the route sees it: every second sequence is rejected, and one of the others calls a tool."""

    def __init__(self):
        self.asked, self.told, self.engine_core, self.model_config = [], {}, None, None

    async def chat(self, request, raw_request):
        self.asked.append(request)
        if "unskew" not in (request.vllm_xargs or {}):
            return "as it is"
        wish = json.loads(request.vllm_xargs["unskew"])
        assert wish["reject_id"] == REJECT and REJECT in request.stop_token_ids and request.return_token_ids
        choices, told = [], self.told.setdefault(wish["reply"], {})
        for index in range(request.n):
            accepted = index % 2 == 1
            # A parser may read a call out of a text that was rejected or cut off.
            reason = ("tool_calls", "tool_calls", "length", "stop")[index % 4]
            told[str(index)] = {"accepted": accepted, "log_prob": -1.5, "log_weight": 0.0} if accepted else {"accepted": False}
            message = {"role": "assistant", "content": f"{len(self.asked)}.{index}"}
            stop_reason = REJECT if index % 4 == 0 else None
            choices.append({"index": index, "message": message, "finish_reason": reason, "stop_reason": stop_reason, "token_ids": [1], "logprobs": None})
        # They come in any order.
        return Answer({"choices": choices[::-1], "prompt_token_ids": [5], "usage": {"prompt_tokens": 1, "completion_tokens": request.n, "total_tokens": 3}})

    async def collective_rpc(self, name, args):
        assert name == "unskew_results"
        return [json.dumps([{"replica": "a", "outputs": self.told.pop(args[0]), "stats": None}])]


@pytest.fixture
def route(monkeypatch):
    """The route of chats, and the engine behind it."""
    engine, routes = Engine(), {}

    def module(name, **names):
        made = types.ModuleType(name)
        made.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, made)

    openai = "vllm.entrypoints.openai"
    for package in ("vllm", "vllm.entrypoints", openai, f"{openai}.chat_completion", f"{openai}.completion"):
        module(package, __path__=[])
    module("fastapi", Request=object)
    module("fastapi.responses", JSONResponse=Answer, Response=Answer)
    module(f"{openai}.chat_completion.api_router", create_chat_completion=engine.chat)
    module(f"{openai}.chat_completion.protocol", ChatCompletionRequest=Request)
    module(f"{openai}.completion.api_router", create_completion=None)
    module(f"{openai}.completion.protocol", CompletionRequest=object)
    monkeypatch.delitem(sys.modules, "unskew.vllm.endpoint", raising=False)
    endpoint = importlib.import_module("unskew.vllm.endpoint")
    monkeypatch.setattr(endpoint, "_reject_id", lambda model_config: REJECT)
    endpoint.plugin().attach_router(types.SimpleNamespace(post=lambda path, **_: lambda made: routes.__setitem__(path, made)))
    raw = types.SimpleNamespace(app=types.SimpleNamespace(state=types.SimpleNamespace(unskew_engine=engine)))
    yield engine, lambda **fields: asyncio.run(routes["/v1/chat/completions"](Request(**fields), raw))
    del sys.modules["unskew.vllm.endpoint"]


def test_the_route_begins_rejected_chats_again(route):
    engine, ask = route
    answer = ask(n=5, max_tokens=9)
    assert answer.status_code == 200 and len(engine.asked) > 1
    choices = answer.content["choices"]
    assert [choice["index"] for choice in choices] == list(range(5))
    # Those that were accepted, in the order in which they were asked for.
    accepted = [f"{at}.{index}" for at, request in enumerate(engine.asked, 1) for index in range(1, request.n, 2)]
    assert [choice["message"]["content"] for choice in choices] == accepted[:5]
    assert {choice["finish_reason"] for choice in choices} == {"stop", "tool_calls"}
    assert all(choice["unskew"] == {"log_prob": -1.5, "log_weight": 0.0} for choice in choices)
    walks = sum(request.n for request in engine.asked)
    assert answer.content["unskew"]["walks"] == walks == answer.content["usage"]["completion_tokens"]
    assert "prompt_token_ids" not in answer.content and "token_ids" not in choices[0]
    assert ask(n=1, return_token_ids=True).content["prompt_token_ids"] == [5]


def test_other_chats_pass_and_wrong_ones_are_refused(route):
    engine, ask = route
    assert ask(vllm_xargs=None) == ask(vllm_xargs={"x": 1}) == "as it is"
    assert "`stream`" in ask(stream=True).content["error"]["message"]
    bad = ask(vllm_xargs={"unskew": '{"constraint": {"regexp": "a"}}'})
    assert bad.status_code == 400 and "regexp" in bad.content["error"]["message"]
    short = ask(n=40, vllm_xargs={"unskew": '{"constraint": {"regex": "a"}, "walks": 20}'})
    assert short.status_code == 422 and "limit on tokens" in short.content["error"]["message"]


class Server(BaseHTTPRequestHandler):
    """Both servers: each route keeps what it was asked."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self.reply(self.path, body)

    def reply(self, path, body):
        found = {"walks": 1, "accepted": 1, "log_estimate": -1.0, "relative_error": 0.1}
        result = {"log_prob": -1.5, "log_weight": 0.0}
        if path == "/tokenize" and body.get("tools") == "none":
            return self.answer({"error": {"message": "no such tools"}}, 400)
        answers = {
            "/tokenize": {"tokens": [5, 6, len(body.get("messages", ()))]},
            "/v1/completions": {"choices": [{"text": "Ann", "token_ids": [8, 0], "unskew": result}], "unskew": found},
            "/generate": [{"text": "Ann", "output_ids": [8, 0], "meta_info": {"unskew": [None, {"accepted": True, **result, **found}]}}],
        }
        return self.answer(answers[path], 200)

    def answer(self, value, status):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture(params=["vllm", "sglang"])
def served(request):
    """What a client is asked by, the prompts that the server saw, and all that it was asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"

    def ask(prompt, **options):
        server.asked.clear()
        if request.param == "vllm":
            result = client.complete(f"{url}/v1", prompt, str, model="m", **options)
        else:
            result = sglang.sample(url, prompt, str, n=1, max_tokens=4, **options)
        assert [(output.text, output.ids, output.log_prob) for output in result.outputs] == [("Ann", [8], -1.5)]
        *before, (_, body) = server.asked
        if request.param == "vllm":
            return before, body["prompt"]
        [one] = body.get("text") or body.get("input_ids")
        return before, one

    yield ask
    server.shutdown()
    server.server_close()


def test_clients_ask_the_server_for_the_ids_of_a_chat(served):
    assert served(CHAT) == ([("/tokenize", {"messages": CHAT})], [5, 6, 1])
    template = {"chat_template_kwargs": {"enable_thinking": False}}
    assert served(CHAT * 2, template=template) == ([("/tokenize", {**template, "messages": CHAT * 2})], [5, 6, 2])
    assert served("A name?") == ([], "A name?") and served([1, 2]) == ([], [1, 2])
    with pytest.raises(client.ServerError, match="HTTP 400: no such tools"):
        served(CHAT, template={"tools": "none"})
    with pytest.raises(unskew.OptionError, match="`template` goes with the messages of a chat"):
        served("A name?", template=template)
