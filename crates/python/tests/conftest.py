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


@pytest.fixture(scope="session")
def broken():
    """A matcher of which some methods raise."""

    class Broken:
        def __init__(self, matcher, **errors):
            self.matcher, self.errors = matcher, errors

        def __getattr__(self, name):
            if name not in self.errors:
                return getattr(self.matcher, name)

            def fail(*arguments):
                raise self.errors[name]

            return fail

    return Broken
