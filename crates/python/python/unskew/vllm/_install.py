"""The names of vLLM that are replaced, and the versions in which they are known.

vLLM has a closed list of backends. Three names keep it: the type of the configuration's field, the check of a request, and the
place that makes the backend. Logits processors have an entry point of their own, but are not told which rows belong to prompts
that are read in pieces: such a row says nothing about the output, so that `Faithful` is given the model runner, which knows. A new
method of the workers tells what was learned. Nothing else of vLLM changes, and each replaced function calls the one before for
all that is not ours.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from typing import Any

__all__ = ["KNOWN", "UnknownVersionError", "install", "plugin"]

#: The versions of vLLM that the tests have run on.
KNOWN = ("0.32.0",)

#: Set to "1" to try other versions.
UNKNOWN = "UNSKEW_VLLM_UNKNOWN"

logger = logging.getLogger("vllm.unskew")

_installed: list[str] = []


class UnknownVersionError(ImportError):
    """A version of vLLM that this version of unskew was not tested with."""


def plugin() -> None:
    """`install`, for vLLM's entry point: where it cannot be done, vLLM goes on without unskew, and its log says why."""
    try:
        install()
    except Exception as error:  # noqa: BLE001 - vLLM must start for those who do not use unskew
        logger.error("unskew is not installed into vLLM: %s", error)


def install(*, unknown: bool | None = None) -> list[str]:
    """Installs the backend `unskew` and what `Faithful` needs into this process; answers with the names that were replaced.

    A second call changes nothing. Raises `UnknownVersionError` for versions that are not in `KNOWN`, unless `unknown` is True, or the
    variable UNSKEW_VLLM_UNKNOWN is "1"; the names and their parameters are checked in any case.
    """
    if _installed:
        return list(_installed)
    import vllm

    version = str(vllm.__version__).split("+", 1)[0]
    if unknown is None:
        unknown = os.environ.get(UNKNOWN) == "1"
    if version not in KNOWN and not unknown:
        raise UnknownVersionError(
            f"vLLM {vllm.__version__} is not known to this version of unskew, which was tested with {', '.join(KNOWN)}: install one of "
            f"these, or set {UNKNOWN}=1 (or `install(unknown=True)`) to try"
        )
    from vllm.config.structured_outputs import StructuredOutputsConfig
    from vllm.sampling_params import SamplingParams
    from vllm.v1.structured_output import StructuredOutputManager
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner
    from vllm.v1.worker.worker_base import WorkerBase

    # Everything is looked at before anything is replaced.
    _expect(SamplingParams._validate_structured_outputs, ["self", "model_config", "structured_outputs_config", "tokenizer"])
    _expect(StructuredOutputManager.grammar_init, ["self", "request"])
    if "backend" not in StructuredOutputsConfig.__dataclass_fields__:
        raise UnknownVersionError("the configuration of structured outputs has no field `backend`")
    _open_config(StructuredOutputsConfig)
    _wrap(SamplingParams, "_validate_structured_outputs", _validate)
    _wrap(StructuredOutputManager, "grammar_init", _grammar_init)
    _wrap(GPUModelRunner, "__init__", _runner_init)
    WorkerBase.unskew_stats = _worker_stats
    _installed.extend(
        [
            "StructuredOutputsConfig.backend (any name)",
            "SamplingParams._validate_structured_outputs",
            "StructuredOutputManager.grammar_init",
            "GPUModelRunner.__init__",
            "WorkerBase.unskew_stats (new)",
        ]
    )
    logger.info("unskew in vLLM %s, process %d: replaced %s", vllm.__version__, os.getpid(), "; ".join(_installed))
    return list(_installed)


def _expect(function: Any, parameters: list[str]) -> None:
    found = list(inspect.signature(function).parameters)
    if found != parameters:
        raise UnknownVersionError(f"{function.__qualname__} has the parameters {found}, not {parameters}")


def _wrap(owner: type, name: str, make: Any) -> None:
    before = getattr(owner, name)
    setattr(owner, name, functools.wraps(before)(make(before)))


def _open_config(config: Any) -> None:
    """Lets the configuration have any name of a backend; unknown ones fail where the backend is made, as before."""
    from pydantic.dataclasses import rebuild_dataclass

    config.__annotations__["backend"] = str
    config.__dataclass_fields__["backend"].type = str
    config.__pydantic_fields__["backend"].annotation = str
    rebuild_dataclass(config, force=True)


def _validate(before: Any) -> Any:
    def _validate_structured_outputs(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        if self.extra_args and "unskew" in self.extra_args:
            from .faithful import check_request

            check_request(self, model_config, tokenizer)
        config = structured_outputs_config
        if config is None or self.structured_outputs is None or config.backend != "unskew":
            return before(self, model_config, structured_outputs_config, tokenizer)
        from .backend import validate

        return validate(self, model_config, config, tokenizer)

    return _validate_structured_outputs


def _grammar_init(before: Any) -> Any:
    def grammar_init(self: Any, request: Any) -> None:
        wanted = request.structured_output_request
        if wanted is not None and self.backend is None and wanted.params._backend == "unskew":
            from .backend import UnskewBackend

            vocab_size = self.vllm_config.model_config.get_vocab_size()
            self.backend = UnskewBackend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=vocab_size)
        return before(self, request)

    return grammar_init


def _runner_init(before: Any) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        for processor in self.input_batch.logitsprocs.all:
            attach = getattr(processor, "attach_runner", None)
            if attach is not None:
                attach(self)

    return __init__


def _worker_stats(self: Any, request: str) -> str:
    from .faithful import worker_stats

    return worker_stats(request)
