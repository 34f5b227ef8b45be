"""Rollouts of a structured task beside a vLLM server: how far masked ones are from the model's own, and how ratios of importance spread.

    python rollouts.py http://127.0.0.1:8000/v1 [--n 500]

The server runs as docs/vllm.md says, with VLLM_PLUGINS=unskew. Prints a table in Markdown, for docs/rollouts.md.
"""

import argparse
import json
import math

import unskew
from unskew.vllm import client

TURN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
CALL = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome", "Oslo", "Cairo"]}, "days": {"enum": [1, 2, 3, 5, 7]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TASKS = [
    ("label of six", "Which topic has this headline: 'Bank raises rates again'? Answer with one word.",
     unskew.Constraint.choice(["Business", "Sports", "Science", "Politics", "Health", "Art"]), 8),
    ("yes or no", "Is the Nile longer than the Rhine? Answer with yes or no.", unskew.Constraint.choice(["Yes.", "No."]), 8),
    ("a year", "In which year did the First World War begin? Answer with the year alone.", unskew.Constraint.regex("1[0-9]{3}"), 8),
    ("call with enums", 'Write the arguments for a trip of three days to Rome as JSON with "city" and "days".',
     unskew.Constraint.json_schema(json.dumps(CALL), whitespace="spaced"), 40),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--n", type=int, default=500)
    options = parser.parse_args()
    print("| task | P(constraint) | KL of masked from the model, nats | effective share of masked rollouts | largest share of one rollout | walks a faithful rollout |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, text, constraint, most in TASKS:
        asked = {"prompt": TURN.format(text), "constraint": constraint, "max_tokens": most, "n": options.n, "top_p": 1.0, "top_k": 0}
        masked = client.complete(options.url, mode="weights", log_masks=True, **asked)
        weights = [output.log_weight for output in masked.outputs]
        for output in masked.outputs:
            assert math.isclose(output.log_weight, sum(output.log_masks), abs_tol=1e-4)
        greatest = max(weights)
        shares = [math.exp(weight - greatest) for weight in weights]
        total = sum(shares)
        # log P - E log w: KL of the masked law from the model given the constraint.
        divergence = masked.log_estimate - sum(weights) / len(weights)
        row = [f"{math.exp(masked.log_estimate):.2g}", f"{divergence:.2f}", f"{total**2 / sum(s * s for s in shares) / len(shares):.0%}", f"{1 / total:.0%}"]
        try:
            faithful = client.complete(options.url, **{**asked, "n": min(options.n, 100)})
            row.append(f"{faithful.walks / len(faithful.outputs):.1f}")
            assert all(output.log_weight == 0.0 for output in faithful.outputs)
        except unskew.SampleError as error:
            row.append(f"more than {1000 + 100 * min(options.n, 100)}: {error}"[:60])
        print(f"| {name} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
