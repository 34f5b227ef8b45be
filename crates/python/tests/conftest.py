"""The tokenizer of the embedded model, and a vocabulary of single bytes."""

import pathlib

import pytest

import unskew

MODEL = pathlib.Path(__file__).parents[2] / "tiny-model" / "model"


@pytest.fixture(scope="session")
def tokenizer_path():
    return MODEL / "tokenizer.json"


@pytest.fixture(scope="session")
def tok(tokenizer_path):
    return unskew.Tokenizer.from_file(tokenizer_path)


@pytest.fixture(scope="session")
def compiler(tok):
    return unskew.Compiler(tok)


@pytest.fixture(scope="session")
def byte_tok():
    return unskew.Tokenizer.from_vocabulary([bytes([b]) for b in range(256)] + ["<end>"], eos=[256])
