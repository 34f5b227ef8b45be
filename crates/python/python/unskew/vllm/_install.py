"""The names of vLLM that are replaced, as a table, and the versions in which they are known.

vLLM has a closed list of backends. Three names keep it: the type of the configuration's field, the check of a request, and the place
that makes the backend. Two more let compiling hold up nobody: requests arrive at the front end on its event loop, and at the engine on a
thread beside its step. One lets the masks of a step be made in one call. Logits processors have an entry point of their own, but are not
told which rows belong to prompts that are read in pieces: so `Faithful` is given the model runner, which knows.

Each entry has the parameters that it counts on, and each part stands alone: where a name of one part has changed, that part is left out and
named, and the others work. Nothing else of vLLM changes, and each replaced function calls the one before for all that is not ours.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

__all__ = ["KNOWN", "UnknownVersionError", "install", "plugin"]

#: The versions of vLLM that the tests have run on. Others are tried, with a warning.
KNOWN = ("0.32.0", "0.33.0")

logger = logging.getLogger("vllm.unskew")

#: The names that are replaced in this process, by part.
_installed: dict[str, list[str]] = {}


class UnknownVersionError(ImportError):
    """A version of vLLM in which a name that unskew replaces is not as it was."""


class Patch(NamedTuple):
    """A name of vLLM, and what comes in its place."""

    owner: str
    name: str
    #: The first parameters of the function; none for a field, None for a new name.
    expects: tuple[str, ...] | None
    #: From the function before to the one that replaces it.
    make: Callable[[Any], Any]

    def target(self) -> Any:
        module, _, name = self.owner.partition(":")
        return getattr(importlib.import_module(module), name)

    def check(self) -> None:
        """Raises `UnknownVersionError` where the name is not as expected."""
        try:
            found = getattr(self.target(), self.name, None)
        except (ImportError, AttributeError) as error:
            raise UnknownVersionError(f"{self}: {error}") from error
        if self.expects is None:
            return
        if found is None:
            raise UnknownVersionError(f"{self} is missing")
        parameters = tuple(inspect.signature(found).parameters) if self.expects else ()
        if parameters[: len(self.expects)] != self.expects:
            raise UnknownVersionError(f"{self} has the parameters {list(parameters)}, not {list(self.expects)}")

    def apply(self) -> None:
        target = self.target()
        before = getattr(target, self.name, None)
        after = self.make(before)
        if after is not None:
            setattr(target, self.name, functools.wraps(before)(after) if before is not None else after)

    def __str__(self) -> str:
        return f"{self.owner.partition(':')[2]}.{self.name}"


def plugin() -> None:
    """`install`, for vLLM's entry point: where it cannot be done, vLLM goes on without unskew, and its log says why; but for a command
    line that names unskew, which must not end with another message than ours."""
    try:
        install()
    except Exception as error:  # noqa: BLE001 - vLLM must start for those who do not use unskew
        logger.error("unskew is not installed into vLLM: %s", error)
        if any("unskew" in argument for argument in sys.argv[1:]):
            raise SystemExit(f"unskew is not installed into vLLM: {error}") from error


def install(parts: Iterable[str] = ("masks", "walks", "ahead")) -> list[str]:
    """Installs the backend `unskew` (`masks`) and what `Faithful` needs (`walks`) into this process; answers with the names that were
    replaced. `ahead` lets nobody wait for a compilation, and is left out with a warning where vLLM has changed.

    A second call changes nothing. Raises `UnknownVersionError`, which names what differs, after it has installed what it can.
    """
    parts = tuple(parts)
    if all(part in _installed for part in parts):
        return _names(parts)
    import vllm

    version = str(vllm.__version__)
    if version.split("+", 1)[0] not in KNOWN:
        logger.warning("unskew was tested with vLLM %s, and this is %s: what has changed is named below", ", ".join(KNOWN), version)
    errors: list[str] = []
    for part in parts:
        if part in _installed:
            continue
        try:
            # Everything is looked at before anything is replaced.
            for patch in _PARTS[part]:
                patch.check()
        except UnknownVersionError as error:
            logger.warning("unskew in vLLM %s: without %s: %s", version, part, error)
            if part in _NEEDED:
                errors.append(f"{part}: {error}")
            continue
        for patch in _PARTS[part]:
            patch.apply()
        _installed[part] = [str(patch) for patch in _PARTS[part]]
    logger.info("unskew in vLLM %s, process %d: replaced %s", version, os.getpid(), "; ".join(_names(_installed)))
    if errors:
        raise UnknownVersionError(f"vLLM {version} differs from {', '.join(KNOWN)}: {'; '.join(errors)}")
    return _names(parts)


def _names(parts: Iterable[str]) -> list[str]:
    return [name for part in parts for name in _installed.get(part, ())]


# Masks.


def _open_config(_: Any) -> None:
    """Lets the configuration have any name of a backend; unknown ones fail where the backend is made, as before."""
    from pydantic.dataclasses import rebuild_dataclass
    from vllm.config.structured_outputs import StructuredOutputsConfig as config

    config.__annotations__["backend"] = str
    config.__dataclass_fields__["backend"].type = str
    config.__pydantic_fields__["backend"].annotation = str
    rebuild_dataclass(config, force=True)


#: The parameters that a task has checked on another thread already.
_checked: ContextVar[Any] = ContextVar("unskew_checked", default=None)


def _validate(before: Any) -> Any:
    def _validate_structured_outputs(self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any) -> None:
        from ._ahead import checked, has_mask

        if _checked.get() is not self:
            checked(self, model_config, structured_outputs_config, tokenizer)
        if not has_mask(self, structured_outputs_config):
            before(self, model_config, structured_outputs_config, tokenizer)

    return _validate_structured_outputs


def _grammar_init(before: Any) -> Any:
    def grammar_init(self: Any, request: Any) -> Any:
        wanted = request.structured_output_request
        if wanted is not None and self.backend is None and wanted.params._backend == "unskew":
            from .backend import UnskewBackend

            vocab_size = self.vllm_config.model_config.get_vocab_size()
            self.backend = UnskewBackend(self.vllm_config, tokenizer=self.tokenizer, vocab_size=vocab_size)
            # Most masks take a microsecond: vLLM's threads, for batches above 128, take longer to wake.
            self.fill_bitmask_parallel_threshold = self.vllm_config.scheduler_config.max_num_seqs
        return before(self, request)

    return grammar_init


# Compiling ahead.


def _add_request(before: Any) -> Any:
    async def add_request(self: Any, request_id: Any, prompt: Any, params: Any, *arguments: Any, **options: Any) -> Any:
        from ..serving.compiling import off_the_loop
        from ._ahead import checked, has_mask, is_walk

        config = self.vllm_config.structured_outputs_config
        if not is_walk(params) and not has_mask(params, config):
            return await before(self, request_id, prompt, params, *arguments, **options)
        await off_the_loop(checked, params, self.model_config, config, self.input_processor.tokenizer)
        token = _checked.set(params)
        try:
            return await before(self, request_id, prompt, params, *arguments, **options)
        finally:
            _checked.reset(token)

    return add_request


def _preprocess_add_request(before: Any) -> Any:
    def preprocess_add_request(self: Any, request: Any) -> Any:
        made = before(self, request)
        with _nothing_leaves():
            from ._ahead import wait

            wait(made[0], self.vllm_config.model_config, not self.structured_output_manager._use_async_grammar_compilation)
        return made

    return preprocess_add_request


def _engine_add_request(before: Any) -> Any:
    def add_request(self: Any, request: Any, *arguments: Any) -> Any:
        with _nothing_leaves():
            from ._ahead import Waiting, Workers

            waiting = request.structured_output_request
            if isinstance(waiting, Waiting):
                workers = waiting.workers = vars(self).setdefault("_unskew_workers", Workers(self.model_executor))
                workers.tell(waiting.spec)
        return before(self, request, *arguments)

    return add_request


def _worker_ahead(_: Any) -> Any:
    def unskew_ahead(self: Any, specs: tuple[str, ...]) -> None:
        with _nothing_leaves():
            from ._ahead import in_worker

            in_worker(self.model_config, specs)

    return unskew_ahead


@contextmanager
def _nothing_leaves() -> Iterator[None]:
    """What fails here is slower, and no error of the engine."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - see above
        logger.error("unskew: not compiled ahead: %s: %s", type(error).__name__, error)


# Walks.


def _execute_model(before: Any) -> Any:
    def execute_model(self: Any, scheduler_output: Any) -> Any:
        # Only a process that has the processor has its module.
        faithful = sys.modules.get("unskew.vllm.faithful")
        if faithful is not None:
            faithful.observe(self.worker.model_runner, scheduler_output)
        return before(self, scheduler_output)

    return execute_model


#: What replaces weights or adapters, or may have done so. Whoever does it in another way calls `unskew_forget`.
_REPLACES = frozenset(
    "sleep wake_up load_model reload_weights update_weights start_weight_update finish_weight_update reset_weights update_config "
    "add_lora remove_lora unskew_forget".split()
)


def _getattr(before: Any) -> Any:
    def __getattr__(self: Any, attr: str) -> Any:
        # Calls from afar find the methods of a worker here.
        faithful = sys.modules.get("unskew.vllm.faithful") if attr in _REPLACES else None
        if faithful is not None:
            faithful.worker_forget()
        return before(self, attr)

    return __getattr__


def _worker_results(_: Any) -> Any:
    def unskew_results(self: Any, name: str) -> str:
        from .faithful import worker_results

        return worker_results(name)

    return unskew_results


def _worker_forget(_: Any) -> Any:
    def unskew_forget(self: Any) -> None:
        """Found by `__getattr__`, which has forgotten."""

    return unskew_forget


#: The parts that are asked for; without the others they are slower.
_NEEDED = ("masks", "walks")

_CHECK = ("self", "model_config", "structured_outputs_config", "tokenizer")

_PARTS: dict[str, tuple[Patch, ...]] = {
    "masks": (
        Patch("vllm.config.structured_outputs:StructuredOutputsConfig", "backend", (), _open_config),
        Patch("vllm.sampling_params:SamplingParams", "_validate_structured_outputs", _CHECK, _validate),
        Patch("vllm.v1.structured_output:StructuredOutputManager", "grammar_init", ("self", "request"), _grammar_init),
    ),
    "walks": (
        # Not the runners themselves: each is imported only where it runs.
        Patch("vllm.v1.worker.worker_base:WorkerWrapperBase", "execute_model", ("self", "scheduler_output"), _execute_model),
        Patch("vllm.v1.worker.worker_base:WorkerWrapperBase", "__getattr__", ("self", "attr"), _getattr),
        Patch("vllm.v1.worker.worker_base:WorkerBase", "unskew_results", None, _worker_results),
        Patch("vllm.v1.worker.worker_base:WorkerBase", "unskew_forget", None, _worker_forget),
    ),
    "ahead": (
        Patch("vllm.v1.engine.async_llm:AsyncLLM", "add_request", ("self", "request_id", "prompt", "params"), _add_request),
        Patch("vllm.v1.engine.core:EngineCore", "preprocess_add_request", ("self", "request"), _preprocess_add_request),
        Patch("vllm.v1.engine.core:EngineCore", "add_request", ("self", "request"), _engine_add_request),
        Patch("vllm.v1.worker.worker_base:WorkerBase", "unskew_ahead", None, _worker_ahead),
    ),
}
