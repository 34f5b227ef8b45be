"""n faithful outputs of a vLLM server, over plain HTTP.

```python
from unskew import Constraint
from unskew.vllm import client

result = client.complete("http://localhost:8000/v1", "Kind regards,\\n", Constraint.choice(["Thomas Hansen", "Peter Costa"]), n=100)
for output in result.outputs:
    print(output.text, output.log_prob)
print(result.log_estimate, result.walks)
```

The server runs with `--logits-processors unskew.vllm:Faithful` and with VLLM_PLUGINS=unskew, whose endpoint begins rejected walks again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import unskew

from ..serving.client import Output, Prompt, Result, ServerError, call, prompt_of

__all__ = ["Output", "Result", "ServerError", "complete"]


def complete(
    base_url: str,
    prompt: Prompt,
    constraint: Any,
    *,
    n: int = 1,
    model: str | None = None,
    mode: str = "cars",
    max_tokens: int = 256,
    temperature: float = 1.0,
    seed: int | None = None,
    walks: int | None = None,
    log_masks: bool = False,
    template: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    timeout: float = 600.0,
    **options: Any,
) -> Result:
    """n outputs from the model's own distribution under `constraint`, of at most `max_tokens` ids with the end.

    `prompt` is a text, ids, or the messages of a chat, which the server puts into the chat template of its model; `template` are fields beside
    them, such as `tools` or `chat_template_kwargs`.

    `temperature` and, in `options`, `top_p`, `top_k` and `min_p` define the model; those that are left out are the server's. `walks` is how
    many sequences are tried (default: 1,000 and 100 for each output). In the modes "weights" and "twist" n walks are made, and those that
    come to an end have a weight each. Raises `ServerError`, also where the walks are used up.
    """
    if model is None:
        model = call(f"{base_url}/models", None, api_key, timeout)["data"][0]["id"]
    wish = {"constraint": json.loads(unskew.Constraint.of(constraint).to_json()), "mode": mode, "log_masks": log_masks}
    if walks is not None:
        wish["walks"] = walks
    body = {
        **options,
        "model": model,
        "prompt": prompt_of(base_url.rstrip("/").removesuffix("/v1"), prompt, template, api_key, timeout),
        "n": n,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "seed": seed,
        "return_token_ids": True,
        "vllm_xargs": {"unskew": json.dumps(wish)},
    }
    answer = call(f"{base_url}/completions", body, api_key, timeout)
    found = answer.get("unskew")
    if found is None:
        raise ServerError("the server answers without results of walks: start it with VLLM_PLUGINS=unskew")
    # The last id is the end.
    outputs = [Output(choice["text"], choice["token_ids"][:-1], **choice["unskew"]) for choice in answer["choices"]]
    return Result(outputs, **found)
