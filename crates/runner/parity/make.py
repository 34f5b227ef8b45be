"""Tiny random checkpoints with every switch of their configurations on, and the logits of transformers for them.

`cargo xtask parity` runs this file. Each case is a folder with `config.json`, `model.safetensors` and `logits.safetensors`: tokens
(`tokens`, one row for each text of a batch, padded with -1) and the logits after each of some lengths (`logits.LENGTH`, rows of the last
position). transformers computes each length in a pass of its own from a fresh model, without a cache, because scalings that follow the
length keep a state.
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file

VOCAB = 40
SIZES = dict(
    vocab_size=VOCAB, hidden_size=24, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=None,
)
LENGTHS = [1, 7, 33, 70]


def rope(kind, **more):
    return {"rope_type": kind, "rope_theta": 500.0, **more}


PLAIN = dict(max_position_embeddings=128)
SHORT = dict(max_position_embeddings=32)
CASES = {
    "llama": ("Llama", dict(**PLAIN, head_dim=8, attention_bias=True, mlp_bias=True, rope_parameters=rope("default"))),
    "llama-linear": ("Llama", dict(**SHORT, tie_word_embeddings=True, num_attention_heads=6, rope_parameters=rope("linear", factor=4.0))),
    "llama-dynamic": ("Llama", dict(**SHORT, num_attention_heads=6, rope_parameters=rope("dynamic", factor=4.0))),
    "llama-llama3": ("Llama", dict(**PLAIN, num_attention_heads=3, num_key_value_heads=1, hidden_act="gelu", rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))),
    "llama-yarn": ("Llama", dict(**PLAIN, head_dim=16, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=16.0, beta_slow=2.0))),
    "llama-yarn-scales": ("Llama", dict(**PLAIN, head_dim=16, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.5, mscale_all_dim=0.7, truncate=False))),
    "mistral": ("Mistral", dict(**PLAIN, head_dim=10, sliding_window=13, rope_parameters=rope("default"))),
    "qwen2": ("Qwen2", dict(**PLAIN, num_hidden_layers=3, use_sliding_window=True, sliding_window=9, max_window_layers=1,
                            tie_word_embeddings=True, num_attention_heads=6, rope_parameters=rope("default"))),
    "qwen3": ("Qwen3", dict(**PLAIN, head_dim=14, attention_bias=True, use_sliding_window=True, sliding_window=11,
                            layer_types=["sliding_attention", "full_attention"], rope_parameters=rope("default"))),
    "smollm3": ("SmolLM3", dict(**PLAIN, num_hidden_layers=4, num_attention_heads=6, attention_bias=True, mlp_bias=True, use_sliding_window=True,
                                sliding_window=15, no_rope_layers=[1, 0, 1, 0], rope_parameters=rope("default"))),
    "gemma2": ("Gemma2", dict(**PLAIN, num_hidden_layers=3, head_dim=12, attention_bias=True, query_pre_attn_scalar=7, sliding_window=10,
                              attn_logit_softcapping=2.0, final_logit_softcapping=1.5, rope_parameters=rope("default"))),
    "gemma3": ("Gemma3Text", dict(
        **PLAIN, num_hidden_layers=3, head_dim=12, attention_bias=True, query_pre_attn_scalar=7, sliding_window=10, final_logit_softcapping=1.5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rope_parameters={"full_attention": rope("linear", factor=4.0), "sliding_attention": {"rope_type": "default", "rope_theta": 90.0}})),
    "phi3": ("Phi3", dict(
        **PLAIN, num_attention_heads=3, num_key_value_heads=1, original_max_position_embeddings=32, sliding_window=40,
        rope_parameters=rope("longrope", partial_rotary_factor=0.5, short_factor=[1.0, 1.3], long_factor=[1.5, 3.0]))),
    "gpt2": ("GPT2", dict(vocab_size=VOCAB, n_embd=24, n_layer=2, n_head=4, n_positions=128, n_inner=20, bos_token_id=1, eos_token_id=2,
                          scale_attn_by_inverse_layer_idx=True, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "olmo2": ("Olmo2", dict(**PLAIN, num_attention_heads=6, attention_bias=True, rope_parameters=rope("default"))),
}


def randomise(model, seed):
    """Values that make each part of the model matter: norms and biases too, and logits of about one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if parameter.dim() == 1:
                is_scale = name.endswith("weight")
                centre = 1.0 if is_scale and abs(float(parameter.detach().mean()) - 1.0) < 0.5 else 0.0
                parameter.copy_(centre + 0.3 * noise)
            elif "embed" in name or "wte" in name or "wpe" in name:
                parameter.copy_(0.6 * noise)
            else:
                parameter.copy_(1.2 * noise / math.sqrt(SIZES["hidden_size"]))


def logits(folder, tokens, length, dtype):
    # Attention that knows soft caps.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    embedding = model.get_input_embeddings()
    if hasattr(embedding, "embed_scale"):
        # The pass is in f32; with weights of another type the factor of Gemma's embeddings is rounded to that type.
        embedding.embed_scale = embedding.embed_scale.to(dtype).float()
    with torch.no_grad():
        rows = model(input_ids=torch.tensor(tokens[:, :length]), use_cache=False).logits[:, -1].float()
    # A file holds the memory of an array.
    return np.ascontiguousarray(rows.numpy())


def make(name, kind, options, dtype, out, number):
    config_class = getattr(transformers, kind + "Config")
    options = options if kind == "GPT2" else {**SIZES, **options}
    config = config_class(**options)
    config.dtype = dtype
    model_name = {"GPT2": "GPT2LMHeadModel", "Gemma3Text": "Gemma3ForCausalLM"}.get(kind, kind + "ForCausalLM")
    config.architectures = [model_name]
    torch.manual_seed(number)
    model = getattr(transformers, model_name)(config).eval()
    randomise(model, number)
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    model.to(dtype).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    random = np.random.default_rng(number)
    tokens = random.integers(0, VOCAB, size=(2, max(LENGTHS)))
    data = {"tokens": tokens.astype(np.int32)}
    for length in LENGTHS:
        data[f"logits.{length}"] = logits(folder, tokens, length, dtype)
    spread = np.abs(data[f"logits.{LENGTHS[-1]}"]).max()
    assert 0.5 < spread < 60, (name, spread)
    save_file(data, folder / "logits.safetensors")
    print(f"{name}: logits up to {spread:.2f}")


def main(out, seed):
    for number, (name, (kind, options)) in enumerate(CASES.items()):
        make(name, kind, options, torch.float32, out, seed + number)
    for number, name in enumerate(["llama", "gemma2", "gpt2"]):
        kind, options = CASES[name]
        make(f"{name}-bf16", kind, options, torch.bfloat16, out, seed + 100 + number)


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    main(pathlib.Path(sys.argv[1]), int(sys.argv[2]))
