"""The classes of the plug-in without an engine: rollback over the end, padding, threads, many requests; the second interface."""

import gc
import json
import os
import random
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
from concurrent.futures import Future

import pytest
import torch

import unskew
import unskew.vllm
from unskew.vllm import _common, _install
from unskew.vllm.backend import UnskewBackend
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Kind

END = 0


@pytest.fixture
def backend(hf):
    # More rows than the tokenizer has ids, as padded models have.
    return UnskewBackend(None, tokenizer=hf, vocab_size=2100)


def bits(row):
    return set(np.flatnonzero(np.unpackbits(row.numpy().view(np.uint8), bitorder="little")))


@pytest.fixture
def fresh(monkeypatch):
    """As a process in which nothing is installed, on the names of a vLLM that may differ."""
    monkeypatch.setattr(_install, "_installed", {})

    def change(part, at, **fields):
        patches = list(_install._PARTS[part])
        patches[at] = patches[at]._replace(**fields)
        monkeypatch.setitem(_install._PARTS, part, tuple(patches))

    # Nothing is replaced twice: what the tests look at is which parts are.
    monkeypatch.setattr(_install.Patch, "apply", lambda patch: None)
    return change


def test_install_says_what_it_replaces():
    names = unskew.vllm.install()
    assert names[:3] == [
        "StructuredOutputsConfig.backend", "SamplingParams._validate_structured_outputs", "StructuredOutputManager.grammar_init"
    ]
    assert names == unskew.vllm.install() and unskew.vllm.install(["masks"]) == names[:3]
    assert vllm_version() in unskew.vllm.KNOWN


def vllm_version():
    import vllm

    return vllm.__version__.split("+")[0]


def test_only_the_runner_that_runs_is_imported():
    """vLLM's first runner will go, and the second one imports Triton."""
    code = "import sys, unskew.vllm; unskew.vllm.install(); print([name for name in sys.modules if name.startswith('vllm.v1.worker.')])"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "worker_base" in names and "model_runner" not in names


def test_another_version_works_where_all_names_are_as_expected(fresh, monkeypatch, caplog):
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.99.1")
    assert len(unskew.vllm.install()) == sum(map(len, _install._PARTS.values()))
    assert len([line for line in caplog.messages if "0.99.1" in line and "0.33.0" in line]) == 1


@pytest.mark.parametrize(
    ("part", "at", "change", "says"),
    [
        ("masks", 1, {"expects": ("self", "config")}, "masks: SamplingParams._validate_structured_outputs has the parameters"),
        ("masks", 0, {"name": "engine"}, "masks: StructuredOutputsConfig.engine is missing"),
        ("masks", 2, {"name": "grammar_begin"}, "masks: StructuredOutputManager.grammar_begin is missing"),
        ("walks", 0, {"owner": "vllm.v1.gone:WorkerWrapperBase"}, "walks: WorkerWrapperBase.execute_model: No module named"),
    ],
)
def test_a_part_that_differs_is_named_and_the_others_work(fresh, monkeypatch, caplog, part, at, change, says):
    fresh(part, at, **change)
    with pytest.raises(unskew.vllm.UnknownVersionError) as error:
        unskew.vllm.install()
    assert says in str(error.value) and vllm_version() in str(error.value)
    assert set(_install._installed) == set(_install._PARTS) - {part}
    # vLLM itself goes on, for those who use it without unskew.
    monkeypatch.setattr(sys, "argv", ["vllm", "serve", "MODEL"])
    unskew.vllm.plugin()
    assert any(line.startswith("unskew is not installed") and says in line for line in caplog.messages)
    # For others our line is the last one, and not pydantic's about a backend that it does not know.
    monkeypatch.setattr(sys, "argv", ["vllm", "serve", "MODEL", "--structured-outputs-config.backend", "unskew"])
    with pytest.raises(SystemExit, match="unskew is not installed"):
        unskew.vllm.plugin()


def check(parts, hf, config=None, **options):
    """The check of a request in vLLM's front end, by its own class."""
    from vllm.config.structured_outputs import StructuredOutputsConfig

    unskew.vllm.install()
    config = config or StructuredOutputsConfig(backend="unskew")
    params = SamplingParams(**{"structured_outputs": StructuredOutputsParams(regex="a"), **options})
    params._validate_structured_outputs(parts.model_config, config, hf)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ignore_eos": True}, "`ignore_eos` goes on after the end"),
        ({"structured_outputs": StructuredOutputsParams(json="{}", disable_any_whitespace=True)}, "`disable_any_whitespace` is not"),
        ({"structured_outputs": StructuredOutputsParams(regex="(a")}, "line 1, column 1"),
        ({"structured_outputs": StructuredOutputsParams(grammar='{"set": "/etc/passwd"}')}, "lends none"),
    ],
)
def test_what_is_not_followed_is_refused(parts, hf, options, says):
    check(parts, hf)
    with pytest.raises(VLLMValidationError, match=re.escape(says)):
        check(parts, hf, **options)


@pytest.mark.parametrize("name", ["disable_any_whitespace", "disable_additional_properties"])
def test_options_of_the_server(parts, hf, name):
    from vllm.config.structured_outputs import StructuredOutputsConfig

    unskew.vllm.install()
    # vLLM refuses them itself, for all backends but its own; a version that does not must not make them silent.
    with pytest.raises(ValueError, match=f"{name} is only supported"):
        StructuredOutputsConfig(backend="unskew", **{name: True})
    config = StructuredOutputsConfig(backend="unskew")
    setattr(config, name, True)
    with pytest.raises(VLLMValidationError, match=f"`--structured-outputs-config.{name}` is not supported"):
        check(parts, hf, config)


def test_every_option_of_the_configuration_is_known():
    """`backend` is ours, and the others are refused above, or followed by vLLM itself: the reasoner, and whether it is constrained."""
    from vllm.config.structured_outputs import StructuredOutputsConfig

    ours, theirs = {"backend", "disable_any_whitespace", "disable_additional_properties"}, {"reasoning_parser", "reasoning_parser_plugin"}
    assert set(StructuredOutputsConfig.__dataclass_fields__) == ours | theirs | {"enable_in_reasoning"}


def test_one_compiler_for_a_model(parts, hf):
    """The check, the masks and the walks ask one, whose ends are the model's."""
    one = _common.compiler_of_model(parts.model_config, hf)
    assert _common.compiler_of_model(parts.model_config) is one
    assert UnskewBackend(parts, tokenizer=hf, vocab_size=2048)._compiler is one
    from unskew.vllm.faithful import Faithful

    assert Faithful(parts, torch.device("cpu"), False).engine() and _common.compiler_of(hf, 2048, (END,)) is one


def test_a_mask_and_what_is_accepted_agree(backend):
    dice = random.Random(1)
    mask = backend.allocate_token_bitmask(3)
    assert mask.shape == (3, 66) and mask.dtype == torch.int32
    for seed in range(20):
        grammar = backend.compile_grammar(Kind.REGEX, "[a-z]{1,3}[0-9]?", {END})
        trail = []
        while not grammar.is_terminated():
            grammar.fill_bitmask(mask, 1)
            allowed = bits(mask[1])
            assert max(allowed) < 2048
            others = [id for id in dice.sample(range(2048), 20) if id not in allowed]
            assert all(grammar.validate_tokens([id]) == [] for id in others)
            id = dice.choice(sorted(allowed))
            assert grammar.validate_tokens([id]) == [id] and grammar.accept_tokens("r", [id])
            trail.append((id, allowed))
        # Tokens after the end are ignored, and counted.
        assert trail[-1][0] == END and grammar.accept_tokens("r", [5, 6]) and grammar.validate_tokens([5]) == []
        back = dice.randint(1, len(trail))
        grammar.rollback(2 + back)
        assert not grammar.is_terminated()
        grammar.fill_bitmask(mask, 2)
        assert bits(mask[2]) == trail[-back][1]
        grammar.reset()
        grammar.fill_bitmask(mask, 0)
        assert bits(mask[0]) == trail[0][1]


def test_tokens_that_are_none(backend):
    grammar = backend.compile_grammar(Kind.REGEX, "ab", {END})
    assert not grammar.accept_tokens("r", [-1]) and not grammar.accept_tokens("r", [1 << 20])
    assert grammar.validate_tokens([-1, 5]) == [] and grammar.validate_tokens([1 << 20]) == []


def engine(backend, drafts=0):
    """vLLM's manager of structured outputs around our backend."""
    from vllm.v1.structured_output import StructuredOutputManager

    config = SimpleNamespace(
        parallel_config=SimpleNamespace(distributed_executor_backend="uni"),
        scheduler_config=SimpleNamespace(max_num_seqs=256),
        model_config=SimpleNamespace(skip_tokenizer_init=True, is_diffusion=False),
        structured_outputs_config=SimpleNamespace(enable_in_reasoning=False),
        num_speculative_tokens=drafts,
    )
    made = StructuredOutputManager(config)
    made.backend = backend
    return made


def request(name, grammar):
    wanted = SimpleNamespace(grammar=grammar, reasoning_ended=None, reasoner=None, masked_reasoning_end_ids=None)
    return SimpleNamespace(request_id=name, structured_output_request=wanted, use_structured_output=True, prompt_token_ids=[])


class Panic(BaseException):
    """As pyo3's PanicException."""


@pytest.mark.parametrize("way", ["stop", "limit", "panic", "rollback"])
def test_what_fails_in_a_step_ends_its_request_alone(backend, tok, way, caplog):
    """Each of these ended the engine, with the requests of all clients."""
    [a], [b] = tok.encode("a"), tok.encode("b")
    if way == "limit":
        grammar = unskew.Constraint.lark('start: p\np: "a" p "a" | "a" | "aa"').with_limits({"grammar.state_items": 60})
        bad = backend.compile_grammar(Kind.GRAMMAR, grammar.to_json(), {END})
    else:
        bad = backend.compile_grammar(Kind.REGEX, "a", {a} if way == "stop" else {END})
    if way == "panic":

        class Broken:
            stop_ids, is_terminated = [END], staticmethod(lambda: False)

            def fill(self, *_):
                raise Panic("range start index 9 out of range")

        bad._guarded.matcher = Broken()
    if way == "rollback":
        bad.rollback(3)
    manager = engine(backend)
    requests = {"bad": request("bad", bad), "good": request("good", backend.compile_grammar(Kind.REGEX, "b+", {END}))}
    for step in range(200):
        mask = torch.from_numpy(manager.grammar_bitmask(requests, list(requests), {}))
        assert bits(mask[1]) == {b} if step == 0 else {b, END} <= bits(mask[1])
        assert manager.accept_tokens(requests["good"], [b])
        if not manager.accept_tokens(requests["bad"], [a if a in bits(mask[0]) else END]):
            break
    # vLLM ends a request at False, with the finish reason `error`.
    assert step < 150 and (way == "limit") == (step > 0)
    assert bits(mask[0]) == {a if way == "stop" else END}
    [line] = [line for line in caplog.messages if line.startswith("unskew: request bad ends: ")]
    print(line)


def test_a_part_that_only_makes_it_faster_is_left_out(fresh, caplog):
    fresh("ahead", 0, expects=("self", "prompt"))
    names = unskew.vllm.install()
    assert "EngineCore.add_request" not in names and "StructuredOutputManager.grammar_init" in names
    assert any("without ahead: AsyncLLM.add_request has the parameters" in line for line in caplog.messages)


def test_fills_on_threads(backend, hf):
    mask = backend.allocate_token_bitmask(256)
    grammars = [backend.compile_grammar(Kind.REGEX, f"[a-{chr(98 + at % 20)}]+", {END}) for at in range(256)]
    threads = [
        threading.Thread(target=lambda part: [grammars[at].fill_bitmask(mask, at) for at in part], args=(range(first, first + 32),))
        for first in range(0, 256, 32)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = torch.zeros((1, 66), dtype=torch.int32)
    for at in range(0, 256, 17):
        grammars[at].fill_bitmask(alone, 0)
        assert torch.equal(alone[0], mask[at])


def resident():
    """The memory of the process, in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def specs(at):
    """A constraint of each kind that no other request has."""
    schema = {"type": "object", "properties": {f"field {at}": {"type": "integer"}}, "required": [f"field {at}"], "additionalProperties": False}
    tag = {"type": "structural_tag", "format": {"type": "tag", "begin": f"<t{at}>", "content": {"type": "any_text"}, "end": "</t>"}}
    return [
        (Kind.CHOICE, json.dumps([f"choice {at}", f"other {at * 7}"])),
        (Kind.REGEX, f"[a-z]{{1,{1 + at % 30}}}{at}"),
        (Kind.JSON, json.dumps(schema)),
        (Kind.GRAMMAR, f'start: "{at}" ("x" | "y")+'),
        (Kind.STRUCTURAL_TAG, json.dumps(tag)),
    ][at % 5]


def test_many_requests(backend):
    """Distinct constraints of all kinds, one to 64 outputs each, clients that leave half-way (UNSKEW_REQUESTS: how many; 24 hours have some
    10^5): no thread is left, the cache keeps its limit, and memory does not grow once it is full."""
    requests = int(os.environ.get("UNSKEW_REQUESTS", "2000"))
    compiler, dice = backend._compiler, random.Random(4)
    before, memory = threading.active_count(), []
    mask = backend.allocate_token_bitmask(64)
    for at in range(requests):
        kind, spec = specs(at)
        outputs = [backend.compile_grammar(kind, spec, {END}) for _ in range(dice.choice((1, 1, 1, 2, 8, 64)))]
        for step in range(dice.randrange(6)):
            for row, grammar in enumerate(outputs):
                grammar.fill_bitmask(mask, row)
            for row, grammar in enumerate(outputs):
                if not grammar.is_terminated():
                    assert grammar.accept_tokens("r", [dice.choice(sorted(bits(mask[row])))])
        if at % (requests // 10) == requests // 10 - 1:
            gc.collect()
            memory.append(resident() >> 20)
    stats = compiler.stats()
    print(f"\n{requests:,} requests: {stats}; resident, in MiB, after each tenth: {memory}")
    assert threading.active_count() == before and stats["bytes"] < 1 << 30 and stats["compiling"] == 0
    assert memory[-1] - memory[0] < 2048


def test_files_of_requests(monkeypatch, tmp_path):
    (tmp_path / "items.txt").write_text("a\nb\n")
    for name in ("set", "exclude_set", "regex_file", "grammar_file", "json_schema_file", "structural_tag_file", "schema_registry"):
        monkeypatch.delenv("UNSKEW_FILES", raising=False)
        with pytest.raises(unskew.ConstraintError):
            _common.spec_of({name: "items.txt"})
        monkeypatch.setenv("UNSKEW_FILES", str(tmp_path))
        for path in ("/etc/passwd", "../x", "a/../../x", "\0", 3):
            with pytest.raises(unskew.ConstraintError):
                _common.spec_of({name: path})
    assert str(tmp_path) in _common.spec_of({"set": "items.txt"}).to_json()


@pytest.mark.parametrize(
    "style",
    "llama qwen_3 qwen_3_coder qwen_3_5 kimi deepseek_r1 deepseek_v3_1 deepseek_v3_2 harmony minimax glm_4_7".split(),
)
@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "door"}}])
def test_tags_of_model_styles(style, choice):
    """The structural tags that vLLM makes of tools, for the forms in which models write calls."""
    from xgrammar import get_model_structural_tag

    schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"], "additionalProperties": False}
    tools = [{"type": "function", "function": {"name": name, "strict": True, "parameters": schema}} for name in ("lamp", "door")]
    tag = get_model_structural_tag(style, tools=tools, tool_choice=choice, reasoning=False)
    tokenizer = unskew.Tokenizer.from_vocabulary([bytes([byte]) for byte in range(256)] + ["<end>"], eos=[256])
    matcher = unskew.Matcher(unskew.Compiler(tokenizer).compile(unskew.Constraint.structural_tag(tag.model_dump_json()), timeout=30))
    mask = np.zeros((1, matcher.mask_words), np.uint32)
    matcher.fill(mask)
    assert mask.any()


def test_few_calls_of_the_workers_are_under_way():
    """vLLM's workers stand still where ten answers are not read."""
    from unskew.vllm._ahead import Workers

    calls = []

    class Executor:
        def collective_rpc(self, method, args, non_block):
            assert method == "unskew_ahead" and non_block
            calls.append((args[0], Future()))
            return calls[-1][1]

    workers = Workers(Executor())
    for at in range(200):
        workers.tell(f"{at % 50}")
    assert len(calls) == Workers.MOST
    for call in calls[:1]:
        call[1].set_result(None)
    workers.tell()
    assert len(calls) == Workers.MOST + 1 and {spec for specs, _ in calls for spec in specs} == {str(at) for at in range(50)}
    # There is nothing to tell.
    calls[-1][1].set_result(None)
    workers.tell()
    assert len(calls) == Workers.MOST + 1
