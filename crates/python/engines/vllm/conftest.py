"""A checkpoint for vLLM: the embedded model, with the files that engines look for beside the weights."""

import json
import os
import pathlib
import shutil
import sys

import pytest

import unskew

MODEL = pathlib.Path(__file__).parents[3] / "tiny-model" / "model"

# `law`, of the tests without an engine.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests"))
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
    made = tmp_path_factory.mktemp("tiny")
    for path in [MODEL / "tokenizer.json", MODEL / "tiny" / "config.json", MODEL / "tiny" / "model.safetensors"]:
        shutil.copy(path, made)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|endoftext|>",
        "eos_token": "<|endoftext|>",
        "model_max_length": 512,
        "clean_up_tokenization_spaces": False,
        "chat_template": "{% for message in messages %}{{ message['content'] }}\n{% endfor %}",
    }
    (made / "tokenizer_config.json").write_text(json.dumps(config))
    (made / "generation_config.json").write_text('{"bos_token_id": 0, "eos_token_id": 0}')
    return made


@pytest.fixture(scope="session")
def tok():
    return unskew.Tokenizer.from_file(MODEL / "tokenizer.json")
