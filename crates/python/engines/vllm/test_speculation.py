"""n-gram speculation: drafts are cut to what the constraint allows, some are accepted, and all outputs are valid. One start."""

import re

import pytest

import unskew.vllm

unskew.vllm.install()

from vllm import LLM, SamplingParams  # noqa: E402
from vllm.sampling_params import StructuredOutputsParams  # noqa: E402

RECORDS = r'(\{"name": "[A-Z][a-z]+ [A-Z][a-z]+", "age": [1-9][0-9]\}\n){3}'


def test_drafts(checkpoint):
    llm = LLM(
        str(checkpoint),
        max_model_len=256,
        max_num_seqs=8,
        enforce_eager=True,
        dtype="float32",
        disable_log_stats=False,
        structured_outputs_config={"backend": "unskew"},
        speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1},
    )
    params = SamplingParams(max_tokens=120, n=8, seed=1, structured_outputs=StructuredOutputsParams(regex=RECORDS))
    outputs = llm.generate(['{"name": "Anna Wong", "age": 21}\n'], params, use_tqdm=False)[0].outputs
    finished = [output for output in outputs if output.finish_reason == "stop"]
    assert finished and all(re.fullmatch(RECORDS, output.text) for output in finished)
    metrics = {metric.name: getattr(metric, "value", None) for metric in llm.get_metrics() if "spec_decode" in metric.name}
    print(f"\nspeculation: {metrics}")
    assert metrics["vllm:spec_decode_num_accepted_tokens"] > 0
    # A processor that chooses the tokens does not go together with drafts.
    with pytest.raises(Exception, match="(?i)specul"):
        unskew.vllm.Faithful(llm.llm_engine.vllm_config, None, False)
