"""The embedded model as a checkpoint, and a server of SGLang with it."""

import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent

# The stand-in for the kernels, in this process, too; `live`, of the tests of all engines, and `law`, of those without one.
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "tests")]

import live  # noqa: E402

os.environ.update(SGLANG_USE_CPU_ENGINE="1", HF_HUB_OFFLINE="1")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    return live.tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def server(checkpoint, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "server.log"
    with live.sglang(checkpoint, log, environment={"UNSKEW_COMPILE_SECONDS": "10"}) as server:
        print(f"SGLang was ready after {server.started:.0f} s")
        yield server
        assert server.process.poll() is None, server.tail()
