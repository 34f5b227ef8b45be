"""Reasoning before a constrained answer: free text up to the place that vLLM's parser names, then the constraint. One start."""

import pathlib
import re

import unskew.vllm

unskew.vllm.install()

from vllm import LLM, SamplingParams  # noqa: E402
from vllm.sampling_params import StructuredOutputsParams  # noqa: E402

PARSER = pathlib.Path(__file__).parent / "line_parser.py"


def test_the_constraint_begins_after_the_reasoning(checkpoint):
    llm = LLM(
        str(checkpoint),
        max_model_len=256,
        max_num_seqs=32,
        enforce_eager=True,
        dtype="float32",
        disable_log_stats=True,
        structured_outputs_config={"backend": "unskew", "reasoning_parser": "line", "reasoning_parser_plugin": str(PARSER)},
    )
    params = SamplingParams(max_tokens=120, n=32, seed=1, structured_outputs=StructuredOutputsParams(regex="<[A-Z]{2}[0-9]{3}>"))
    outputs = llm.generate(["Dear Ms Meyer,\nYour order"], params, use_tqdm=False)[0].outputs
    reasons = set()
    for output in outputs:
        reasoning, end, answer = output.text.partition("\n")
        reasons.add(reasoning)
        if end and output.finish_reason == "stop":
            # A token may hold more than the end of the line; the constraint begins with the next one.
            assert re.fullmatch(r"\s*<[A-Z]{2}[0-9]{3}>", answer), output.text
    answered = [output for output in outputs if "\n" in output.text and output.finish_reason == "stop"]
    print(f"\n{len(answered)} of {len(outputs)} answered after a line of reasoning; {len(reasons)} reasons")
    assert len(answered) > 3 and len(reasons) > 3
