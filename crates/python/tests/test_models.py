"""Models that unskew runs itself, several prompts, chats, and outputs for an event loop."""

import asyncio
import json
import pickle
import shutil
import threading
import typing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import unskew

from conftest import MODEL

WORD = unskew.Constraint.regex("[A-Z][a-z]{2,9}")
CHATML = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """The embedded model as a folder."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    shutil.copytree(MODEL / "tiny", folder)
    shutil.copy(MODEL / "tokenizer.json", folder)
    return folder


@pytest.fixture(scope="module")
def model(checkpoint):
    return unskew.Model(checkpoint)


@pytest.fixture(scope="module")
def chatty(checkpoint, tmp_path_factory):
    """The same model with a chat template."""
    folder = tmp_path_factory.mktemp("chatty") / "model"
    shutil.copytree(checkpoint, folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
    return unskew.Model(folder)


def test_a_folder_is_a_model(model, tok):
    assert model.tokenizer.vocab_size == tok.vocab_size
    with unskew.sample(model, WORD, prompt="Dear Ms ", n=3, sampler="cars", seed=1) as draws:
        texts = [draw.text for draw in draws]
    assert len(texts) == 3 and all(text[0].isupper() for text in texts)
    again = unskew.sample(model, WORD, prompt=tok.encode("Dear Ms "), n=3, sampler="cars", seed=1)
    assert len(again.to_list()) == 3
    draft = unskew.sample(model, WORD, prompt="Dear Ms ", n=2, sampler="speculative", draft=model, seed=1)
    assert sum(draw.drafts_tested for draw in draft) > 0
    report = unskew.audit(model, WORD, prompt="Dear Ms ", samplers=["masked", "cars"], n=20, seed=1)
    assert [line["sampler"] for line in report.lines] == ["masked", "cars"]


def test_wrong_models_are_refused(model, checkpoint, tok, tmp_path):
    with pytest.raises(unskew.OptionError, match="leave `tokenizer` out"):
        unskew.sample(model, WORD, tok)
    with pytest.raises(unskew.OptionError, match="give an `unskew.Tokenizer`"):
        unskew.sample(lambda batch: batch, WORD)
    with pytest.raises(TypeError, match="no `unskew.Model`"):
        unskew.sample("model.gguf", WORD)
    with pytest.raises(unskew.OptionError, match="`unskew.Endpoint`"):
        unskew.Model("http://localhost:1")
    with pytest.raises(unskew.OptionError, match="q8_0"):
        unskew.Model(checkpoint, quantize="q2")
    with pytest.raises(unskew.Error, match="nowhere"):
        unskew.Model(tmp_path / "nowhere")
    with pytest.raises(unskew.OptionError, match="`draft` is"):
        unskew.sample(model, WORD, draft="fast")


def test_several_prompts_share_passes(model, tok):
    calls = []

    def function(batch):
        calls.append(len(batch))
        return np.zeros((len(batch), tok.vocab_size), np.float32)

    constraint, prompts = unskew.Constraint.regex("[0-9]{12}"), [f"{number}: " for number in range(16)]
    options = dict(n=2, sampler="masked", seed=3, max_tokens=20)
    alone = []
    for prompt in prompts:
        alone.append([draw.text for draw in unskew.sample(function, constraint, tok, prompt=prompt, **options)])
    passes = len(calls)
    calls.clear()
    together = unskew.sample(function, constraint, tok, prompt=prompts, **options).to_list()
    assert [draw.prompt for draw in together] == [number // 2 for number in range(32)]
    # The first prompt has the first stream of random numbers, which a prompt alone has.
    assert [draw.text for draw in together[:2]] == alone[0]
    assert len(calls) * 6 <= passes, (len(calls), passes)

    draws = unskew.sample(model, WORD, prompt=["Dear Ms ", "Kind regards,\n"], n=4, sampler="cars", seed=1)
    masses = {draw.prompt: draws.log_mass for draw in draws}
    assert all(mass < 0 for mass in masses.values()) and masses[0] != masses[1]
    with pytest.raises(unskew.OptionError, match="one prompt"):
        unskew.audit(model, WORD, prompt=["a", "b"])

    # Prompts of any kind go together.
    mixed = unskew.sample(model, WORD, prompt=["Dear Ms ", [5, 6, 7]], sampler="cars", seed=1).to_list()
    assert [draw.prompt for draw in mixed] == [0, 1]


def test_a_model_whose_texts_begin_with_nothing(checkpoint, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text()) | {"post_processor": None}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"bos_token_id": None}))
    bare = unskew.Model(folder)
    with pytest.raises(unskew.OptionError, match="give a `prompt`"):
        unskew.sample(bare, WORD)
    assert len(unskew.sample(bare, WORD, prompt=["Dear Ms ", "A name: "], seed=1).to_list()) == 2


def test_an_error_of_several_prompts_ends_one(tok):
    def function(batch):
        if any(5 in ids for ids in batch):
            raise RuntimeError("planted")
        return np.zeros((len(batch), tok.vocab_size), np.float32)

    draws = unskew.sample(function, WORD, tok, prompt=[[7], [8]], n=1, sampler="masked", seed=1, max_tokens=30)
    assert [draw.prompt for draw in draws] == [0, 1]
    with pytest.raises(RuntimeError, match="planted"):
        unskew.sample(function, WORD, tok, prompt=[[5], [8]], n=1, sampler="masked", seed=1).to_list()
    # The second prompt has no room, and the first is drawn all the same.
    with pytest.raises(unskew.OptionError):
        unskew.sample(function, WORD, tok, prompt=[[7], [10**6]], n=1)


def test_messages_are_put_into_the_template(model, chatty, tok):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A name?"}]
    text = "<|system|>Be short.\n<|user|>A name?\n<|assistant|>"
    options = dict(n=2, sampler="cars", seed=5)
    by_messages = [draw.text for draw in unskew.sample(chatty, WORD, prompt=messages, **options)]
    assert by_messages == [draw.text for draw in unskew.sample(chatty, WORD, prompt=tok.encode(text), **options)]
    assert len(unskew.sample(chatty, WORD, prompt=[messages, "Dear Ms "], n=1, seed=1).to_list()) == 2
    with pytest.raises(unskew.OptionError, match="chat template"):
        unskew.sample(model, WORD, prompt=messages)
    with pytest.raises(unskew.OptionError, match="role"):
        unskew.sample(chatty, WORD, prompt=[{"content": "x"}])

    seen = []

    def function(batch):
        seen.extend(batch)
        return np.zeros((len(batch), tok.vocab_size), np.float32)

    with pytest.raises(unskew.OptionError, match="encode_chat"):
        unskew.sample(function, WORD, tok, prompt=messages)
    function.encode_chat = lambda messages: [len(messages)]
    unskew.sample(function, WORD, tok, prompt=messages, n=1, seed=1).to_list()
    assert all(ids[0] == 2 for ids in seen)


def test_draws_become_tables(model):
    draws = unskew.sample(model, WORD, prompt="Dear Ms ", n=2, sampler="cars", seed=1)
    first = next(draws)
    assert first.to_dict()["text"] == first.text and first.to_dict()["prompt"] == 0
    assert first.text in first._repr_html_() and "log-probability" in first._repr_html_()
    pandas = pytest.importorskip("pandas")
    table = draws.to_pandas()
    assert isinstance(table, pandas.DataFrame) and len(table) == 1 and table["finish"][0] == "stop"


def test_resampled_outputs_warn_once(model):
    constraint = unskew.Constraint.regex("[A-Z][a-z]{2,9} [A-Z][a-z]{2,9}, [0-9]{5}")
    with pytest.warns(UserWarning, match="resampled") as warned:
        draws = unskew.sample(model, constraint, prompt="x", n=8, sampler="disc:k=2,budget=2", seed=1).to_list()
    assert any(draw.origin == "resampled" for draw in draws) and len(warned) == 1


def test_an_event_loop_goes_on_meanwhile(model, tok):
    asked, answer = threading.Event(), threading.Event()

    def waiting(prefixes):
        asked.set()
        assert answer.wait(60)
        return [[0.0] * tok.vocab_size for _ in prefixes]

    async def main():
        texts = [draw.text async for draw in unskew.asample(model, WORD, prompt="Dear Ms ", n=3, sampler="cars", seed=1)]
        draws = unskew.asample(waiting, WORD, tok, prompt="x", n=1, sampler="masked", seed=1)
        task = asyncio.create_task(anext(draws))
        # The model works until it is told to end, and the loop goes on.
        assert await asyncio.to_thread(asked.wait, 60)
        # A task that is cancelled leaves nothing behind that fails.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        answer.set()
        return texts

    texts = asyncio.run(main())
    assert texts == [draw.text for draw in unskew.sample(model, WORD, prompt="Dear Ms ", n=3, sampler="cars", seed=1)] and len(texts) == 3


@pytest.fixture(scope="module")
def server():
    """A stand-in that follows Ollama's documentation of its OpenAI-compatible interface."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self, value, status=200):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            if self.path == "/v1/models":
                return self.answer({"object": "list", "data": [{"id": "llama3.2", "object": "model", "owned_by": "library"}]})
            self.answer({"error": {"message": "not found"}}, 404)

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body, self.headers.get("Authorization")))
            texts = ["Ada", "no name", "Alan"]
            text = texts[len(asked) % 3]
            if self.path == "/v1/chat/completions":
                choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                return self.answer({"id": "chatcmpl-1", "object": "chat.completion", "model": "llama3.2", "choices": [choice]})
            if self.path == "/v1/completions":
                choice = {"index": 0, "text": text, "finish_reason": "stop"}
                return self.answer({"id": "cmpl-1", "object": "text_completion", "model": "llama3.2", "choices": [choice]})
            self.answer({"error": {"message": "not found"}}, 404)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()


def test_a_server_is_a_model(server, monkeypatch):
    address, asked = server
    monkeypatch.setenv("MY_KEY", "sk-secret-123")
    endpoint = unskew.Endpoint(address, model="llama3.2", server="openai", key="MY_KEY")
    assert isinstance(endpoint, unskew.Model) and "secret" not in repr(endpoint)
    for prompt in ["A name:", [{"role": "user", "content": "A name?"}]]:
        draws = unskew.sample(endpoint, unskew.Constraint.regex("[A-Z][a-z]+"), prompt=prompt, n=4, seed=1)
        assert {draw.text for draw in draws} == {"Ada", "Alan"}
    assert {path for path, *_ in asked} == {"/v1/completions", "/v1/chat/completions"}
    assert all(key == "Bearer sk-secret-123" for *_, key in asked)
    assert asked[-1][1]["messages"][0]["content"] == "A name?"
    with pytest.raises(unskew.Error, match="rows") as error:
        unskew.sample(endpoint, WORD, prompt="x", sampler="cars")
    assert "secret" not in str(error.value)
    with pytest.raises(unskew.Error):
        unskew.Endpoint("http://127.0.0.1:9", retries=0)
    with pytest.raises(unskew.OptionError):
        unskew.Endpoint(address, server="fast")


def test_tokenizers_go_to_other_processes(model, tok, byte_tok, tokenizer_path):
    text = tokenizer_path.read_text()
    made = [tok, byte_tok, unskew.Tokenizer.from_json(text, eos=[0]), unskew.Tokenizer.from_json(text.encode(), vocab_size=3000)]
    for one in made:
        again = pickle.loads(pickle.dumps(one))
        assert (again.vocab_size, again.eos) == (one.vocab_size, one.eos)
        assert again.decode_bytes([65, 66]) == one.decode_bytes([65, 66])
    with pytest.raises(TypeError, match="pickle its path"):
        pickle.dumps(model.tokenizer)


class Person(typing.NamedTuple):
    name: str
    age: int


def test_what_is_drawn_and_compiled_is_pickled(model, tok):
    compiler = unskew.Compiler(tok, cache_bytes=1 << 20)
    compiled = compiler.compile(unskew.Constraint.of(Person))
    again = pickle.loads(pickle.dumps([compiled, compiled]))
    assert again[0].rejection(tok.encode('["A", 1]')) is None and again[0].rejection(tok.encode("x")) is not None
    other = pickle.loads(pickle.dumps(compiler))
    assert other.mask_words == compiler.mask_words and other.stats()["entries"] == 0
    draws = unskew.sample(model, Person, n=3, sampler="masked", seed=2, max_tokens=80)
    for draw in draws:
        copy = pickle.loads(pickle.dumps(draw))
        assert copy.to_dict() == draw.to_dict() and copy.captures() == draw.captures() and repr(copy) == repr(draw)
        if draw.finish == "stop":
            assert copy.value == draw.value and isinstance(copy.value, Person)
    named = unskew.Constraint.lark('start: "I am " name "."\nname[capture]: /[A-Z][a-z]+/')
    (draw,) = unskew.sample(model, named, n=1, sampler="masked", seed=1)
    (capture,) = pickle.loads(pickle.dumps(draw)).captures()
    assert capture == draw.captures()[0] and draw.text.encode()[slice(*capture.byte_span)] == capture.text


def test_progress_is_told(model, capsys):
    told = []
    unskew.sample(model, unskew.Constraint.regex("[a-z]+"), n=4, sampler="masked", seed=1, progress=lambda *one: told.append(one)).to_list()
    assert told == [("masked", count) for count in range(1, 5)]
    unskew.sample(model, unskew.Constraint.regex("[a-z]+"), n=2, sampler="masked", seed=1, progress=True).to_list()
    assert "masked: 1 of 2 outputs" in capsys.readouterr().err
    unskew.audit(model, unskew.Constraint.choice(["a", "b"]), n=3, seed=1, progress=True)
    assert "cars: 3 of 3 outputs" in capsys.readouterr().err
    with pytest.raises(TypeError, match="`progress`"):
        unskew.sample(model, int, progress=3)


@pytest.mark.parametrize("sampler", ["masked", "greedy"])
def test_a_text_is_streamed_as_it_is_drawn(model, sampler, byte_tok):
    options = dict(sampler=sampler, seed=3, prompt="Dear Ms ", max_tokens=60)
    for constraint in (unskew.Constraint.regex("[A-Z][a-z]+( [a-z]+){4}"), Person):
        stream = unskew.stream(model, constraint, **options)
        pieces = []
        for piece in stream:
            assert piece
            pieces.append(piece)
        (draw,) = unskew.sample(model, constraint, n=1, batch=1, **options)
        assert "".join(pieces) == stream.draw.text == draw.text and stream.draw.ids == draw.ids and len(pieces) > 3
        assert next(stream, None) is None
    # Characters of several tokens come whole.
    rows = np.zeros(257, np.float32)
    stream = unskew.stream(lambda batch: np.tile(rows, (len(batch), 1)), unskew.Constraint.regex("(é|日本|🙂){5}"), byte_tok, sampler=sampler, seed=1)
    pieces = list(stream)
    assert "".join(pieces) == stream.draw.text and "\ufffd" not in stream.draw.text and len(pieces) >= 5


def test_a_stream_may_be_left_and_says_what_it_cannot(model):
    with unskew.stream(model, WORD, prompt="Dear ", seed=1) as stream:
        assert next(stream)
    with pytest.raises(unskew.SampleError, match="not whole yet"):
        stream.draw
    with pytest.raises(unskew.OptionError, match="only \"masked\" and \"greedy\" keep each token"):
        unskew.stream(model, WORD, sampler="cars")
    with pytest.raises(unskew.OptionError, match="one prompt"):
        unskew.stream(model, WORD, prompt=["a", "b"])
    short = unskew.stream(model, unskew.Constraint.regex("[a-z]{40}"), max_tokens=3, seed=1)
    text = "".join(short)
    assert short.draw.finish == "length" and short.draw.text == text

    def fails(batch):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        list(unskew.stream(fails, WORD, model.tokenizer))
