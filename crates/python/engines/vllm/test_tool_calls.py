"""Calls of tools, read by vLLM's own parsers: what `Constraint.tools` lets a model of each family write is read there as the same calls."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParserManager

import unskew

# The families, functions and lists of the tests that need no vLLM.
HERE = Path(__file__).resolve()
SPEC = importlib.util.spec_from_file_location("tools_of_tests", HERE.parents[2] / "tests/test_tools.py")
shared = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = shared
SPEC.loader.exec_module(shared)

#: Values without a type (`of_any`), and tuples (`pair`), of which these parsers read parts as texts: they know a type by `type` alone.
_UNTYPED = "qwen_3_coder qwen_3_5 mimo glm_4_7 kimi deepseek_v3_2 deepseek_v4 deepseek_v4_1 minimax minimax_m3"
BEYOND = {family: {"of_any"} for family in _UNTYPED.split()}
BEYOND["minimax_m3"] |= {"pair"}

#: The parser that vLLM's documentation gives for the models of a family.
PARSERS = {
    "llama": "llama3_json",
    "hermes": "hermes",
    "qwen_3": "hermes",
    "qwen_3_coder": "qwen3_coder",
    "qwen_3_5": "qwen3_coder",
    "mimo": "mimo",
    "exaone": "hermes",
    "glm_4_7": "glm47",
    "kimi": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "deepseek_r1": "deepseek_v3",
    "deepseek_v3_1": "deepseek_v31",
    "deepseek_v3_2": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v4_1": "deepseek_v41",
    "minimax": "minimax_m2",
    "minimax_m3": "minimax_m3",
    # vLLM 0.32 has no parser of these calls; Cohere's own package has.
    "cohere": "cohere-melody",
    "mistral_v13": "mistral",
    # Its parser reads ids of the encoding of the package openai-harmony, which is fetched from a server.
    "harmony": None,
}


class Vocabulary(dict):
    """Any mark has a number, so that a parser finds its own."""

    def get(self, token, default=None):
        return self.setdefault(token, len(self))

    def __getitem__(self, token):
        return self.get(token)

    def __contains__(self, token):
        return True


def calls_of(family, tools, text):
    """What the parser reads."""
    if family == "cohere":
        melody = pytest.importorskip("cohere_melody", reason="cohere-melody is not installed")
        return melody.PyFilter(melody.PyFilterOptions().cmd5()).process_full_text(text).tool_calls
    reader, request = parser(family, tools)
    return [call.function for call in reader.extract_tool_calls(text, request).tool_calls]


def parser(family, tools):
    tokenizer = SimpleNamespace(
        get_vocab=Vocabulary, vocab=Vocabulary(), encode=lambda text, **_: [], decode=lambda ids, **_: "", all_special_tokens=[], version=13
    )
    request = ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "x"}], tools=tools, tool_choice="auto")
    made = ToolParserManager.get_tool_parser(PARSERS[family])
    options = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}
    try:
        return made(tokenizer, request.tools, **options), request
    except TypeError:
        return made(tokenizer, request.tools), request


@pytest.mark.parametrize("family", [family for family, name in PARSERS.items() if name])
@pytest.mark.parametrize("tools", [shared.FUNCTIONS, *shared.MCP], ids=lambda tools: f"{len(tools)} tools")
def test_calls_are_read_alike(family, tools):
    beyond = BEYOND.get(family, set())
    listed = [tool for tool in unskew.tool_list(tools, closed=True) if tool["function"]["name"] not in beyond]
    tok = shared.tokenizer(family, control=False)
    read, calls_read, wrong = 0, 0, []
    for parallel in (False, True):
        constraint = unskew.Constraint.tools(listed, model=family, choice="required", parallel=parallel, closed=True)
        draws = unskew.sample(shared.model(tok), constraint, tok, n=len(listed) + 4, sampler="masked", seed=3, max_tokens=900)
        for draw in draws:
            if draw.finish != "stop":
                continue
            calls = [(call.name, call.arguments) for call in draw.calls]
            theirs = [(call.name, json.loads(call.arguments)) for call in calls_of(family, listed, draw.text)]
            read, calls_read = read + 1, calls_read + len(calls)
            if theirs != calls:
                wrong.append((draw.text, calls, theirs))
    print(f"\n{family}: {read} outputs, {calls_read} calls")
    assert not wrong, f"{len(wrong)} of {read}: {wrong[:2]}"
    assert read >= 4
