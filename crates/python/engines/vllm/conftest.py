"""A checkpoint for vLLM: the embedded model, with the files that engines look for beside the weights."""

import os
import pathlib
import sys
from types import SimpleNamespace

import pytest

import unskew

MODEL = pathlib.Path(__file__).parents[3] / "tiny-model" / "model"

# `law`, of the tests without an engine, and `live`, of those of all engines.
sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "tests"), str(pathlib.Path(__file__).parents[1])]
import live  # noqa: E402

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "2")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    os.environ["UNSKEW_FILES"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return live.tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def real_model():
    """SmolLM2-135M-Instruct, which `cargo xtask engines` makes."""
    folder = os.environ.get("UNSKEW_REAL_MODEL")
    if folder is None:
        pytest.skip("UNSKEW_REAL_MODEL names no folder: `cargo xtask engines` makes one")
    return pathlib.Path(folder)


@pytest.fixture(scope="session")
def tok():
    return unskew.Tokenizer.from_file(MODEL / "tokenizer.json")


@pytest.fixture(scope="session")
def hf(checkpoint):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast.from_pretrained(checkpoint)


def config(checkpoint):
    model = SimpleNamespace(
        max_model_len=64,
        get_vocab_size=lambda: 2048,
        is_diffusion=False,
        try_get_generation_config=lambda: {"eos_token_id": 0},
        tokenizer=str(checkpoint),
        logits_processors=["unskew.vllm:Faithful"],
    )
    parallel = SimpleNamespace(data_parallel_rank=0)
    return SimpleNamespace(model_config=model, speculative_config=None, parallel_config=parallel)


@pytest.fixture
def parts(checkpoint, hf, monkeypatch):
    import vllm.tokenizers
    from unskew.vllm import faithful

    for module in (vllm.tokenizers, faithful):
        monkeypatch.setattr(module, "cached_tokenizer_from_config", lambda model_config: hf)
    return config(checkpoint)
