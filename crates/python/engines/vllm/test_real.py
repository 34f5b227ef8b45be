"""SmolLM2-135M-Instruct behind a server: outputs follow the law of the model after temperature and top-p, and the model's own where there
are neither. The exact laws are made by scoring outputs with transformers, each row warped as vLLM's sampler does it."""

import math

import pytest

import live
import unskew
from laws import Model, exact
from walks import ask, estimate

C = unskew.Constraint
PERSON = {
    "type": "object",
    "properties": {"name": {"enum": ["John Smith", "John Doe"]}, "age": {"enum": [25, 30, 42]}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
JOHN = 'Write JSON like {"name": "John Smith", "age": 30}'
FENCED = '```json\n\\{\n {2,4}"name": "John (Smith|Doe)",\n {2,4}"age": [1-4][0-9]\n\\}\n```'

#: (name, what a user says, constraint, the most tokens with the end): README's kinds, on questions that the model answers in this form.
CASES = [
    ("choices", "Is the sky blue? Answer with yes or no.", C.choice(["Yes", "No", "yes", "no", "Yes.", "No.", "Yes, the sky is blue."]), 16),
    ("regex", "What is 12 plus 30?", C.regex("12 \\+ 30 = [0-9]{2}\\.?"), 16),
    ("fenced", JOHN, C.regex(FENCED), 48),
    # After the truncation the model never begins by a brace and ends in the same line.
    ("schema", JOHN, C.json_schema(PERSON, whitespace="spaced"), 32),
    ("canonical", "Is the sky blue? Answer with yes or no.", C.choice(["Yes", "No", "Yes.", "No."], canonical=True), 8),
]

#: (temperature, top_p)
SETTINGS = [(1.0, 1.0), (0.7, 0.9)]

WALKS = 2000


@pytest.fixture(scope="module")
def server(real_model, tmp_path_factory):
    with live.vllm(real_model, tmp_path_factory.mktemp("log") / "real.log") as server:
        print(f"\nSmolLM2: ready in {server.started:.0f} s")
        yield server
        assert server.is_up(), server.tail()


@pytest.fixture(scope="module")
def hf(real_model):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(real_model)


@pytest.fixture(scope="module")
def tokens(hf):
    return unskew.Tokenizer.from_hf(hf, eos=[0, 2])


@pytest.mark.parametrize("at", range(len(CASES)))
@pytest.mark.parametrize(("temperature", "top_p"), SETTINGS)
def test_the_law(server, real_model, hf, tokens, at, temperature, top_p):
    name, question, constraint, most = CASES[at]
    constraint = constraint.with_end("model")
    prompt = hf.encode(hf.apply_chat_template([{"role": "user", "content": question}], tokenize=False, add_generation_prompt=True),
        add_special_tokens=False)
    compiler = unskew.Compiler(tokens)
    scored = Model(real_model, temperature, top_p), compiler.compile(constraint), tokens, prompt, tokens.eos, most - 1
    law, mass, left_out = exact(*scored, prune=1e-4, first=40)
    if mass == 0:
        # Nothing of the constraint is left after the truncation, and the server must say so, or reject every walk.
        walks = ask(server, prompt, constraint, unskew.Faithful(compiler).reject_id, requests=8, max_tokens=most, temperature=temperature,
            top_p=top_p)
        assert not walks.texts
        return
    assert left_out < 0.01
    reject_id = unskew.Faithful(compiler).reject_id
    walks = ask(server, prompt, constraint, reject_id, requests=WALKS // 50, n=50, at_once=2, max_tokens=most, temperature=temperature,
        top_p=top_p)
    p, p_lengths = walks.judge(law, law.__contains__)
    log_estimate, error = estimate(server, prompt, constraint, max_tokens=most, temperature=temperature, top_p=top_p)
    print(
        f"\n| {name} | T {temperature}, top-p {top_p} | {len(law)} texts | {mass:.3g} | {len(walks.texts)} of {WALKS} | {p:.3f} "
        f"| {p_lengths:.3f} | {math.exp(log_estimate) / mass - 1:+.2%} +- {error:.2%} |"
    )
    assert p > 0.001 and p_lengths > 0.001 and len(walks.texts) > 50
    assert abs(math.exp(log_estimate) / mass - 1) < 4 * error + left_out + 0.01
