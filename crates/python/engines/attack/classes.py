"""The plug-ins' classes under the constraints of `hostile.py`, with fakes around them and without an engine: a minute for each engine.

classes.py vllm|sglang [--cases N] [--seed S] [--first NUMBER] [--seconds LIMIT]

Each case passes what a request passes: the check of the front end, the compiler, some masks with tokens, a walk. A front end may refuse
with the exceptions that become HTTP 400; a compiler may refuse; what runs inside the step of the engine may raise nothing at all, since
that ends the engine. A child process takes the cases, one by one, so that one that never ends, or ends the process, is found and named.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "sglang")]

import hostile  # noqa: E402
import live  # noqa: E402
import places as files  # noqa: E402

#: One call in the step of an engine: all other requests wait for it.
STEP = 1.0

#: Tokens of a case.
STEPS = 48

END = 0


class Fault(Exception):
    """What is wrong with a case."""


def bits(row, most=2048):
    import numpy as np

    return np.flatnonzero(np.unpackbits(np.ascontiguousarray(row).view(np.uint8), bitorder="little")[:most])


def timed(what, call, *arguments):
    """The result of something that runs in the step of the engine."""
    began = time.monotonic()
    try:
        result = call(*arguments)
    except BaseException as error:  # noqa: BLE001 - whatever leaves ends the engine
        raise Fault(f"{what} raises {type(error).__name__}: {str(error)[:100]}") from error
    took = time.monotonic() - began
    if took > STEP:
        raise Fault(f"{what} takes more than {STEP:g} s")
    return result


class Runner:
    """Of both of vLLM's model runners, what `Faithful` asks for: one request in the first row."""

    def __init__(self, config):
        from types import SimpleNamespace

        import numpy as np

        self.vllm_config, self.told = config, []
        self.discard_request_mask = SimpleNamespace(np=np.zeros(4, bool))
        self.input_batch = SimpleNamespace(req_ids=["r"])
        self.req_states = SimpleNamespace(index_to_req_id={0: "r"})
        self.requests = {"r": SimpleNamespace(output_token_ids=self.told)}


class Vllm:
    """vLLM's side: `validate`, the backend, `Faithful` by both interfaces."""

    def __init__(self, model):
        import logging
        from types import SimpleNamespace

        import numpy as np
        import torch
        import vllm.tokenizers
        from transformers import PreTrainedTokenizerFast
        from vllm.v1.structured_output.backend_types import StructuredOutputOptions

        from unskew.vllm import backend, faithful

        # A rejected walk is no fault, and its line is one too many for thousands of cases.
        logging.getLogger("vllm.unskew").setLevel(logging.CRITICAL)
        self.torch, self.backend, self.faithful, self.kinds = torch, backend, faithful, StructuredOutputOptions
        hf = PreTrainedTokenizerFast.from_pretrained(model)
        self.hf = hf
        vllm.tokenizers.cached_tokenizer_from_config = lambda model_config: hf
        self.config = SimpleNamespace(
            max_model_len=256, seed=0, get_vocab_size=lambda: 2048, try_get_generation_config=lambda: {"eos_token_id": END},
            tokenizer=str(model),
            is_diffusion=False, logits_processors=[faithful.Faithful],
        )
        parallel = SimpleNamespace(data_parallel_rank=0)
        whole = SimpleNamespace(
            model_config=self.config, speculative_config=None, structured_outputs_config=None, parallel_config=parallel
        )
        # `faithful` has the name from before.
        faithful.cached_tokenizer_from_config = lambda model_config: hf
        self.ours = backend.UnskewBackend(whole, tokenizer=hf, vocab_size=2048)
        self.options = SimpleNamespace(disable_any_whitespace=False, disable_additional_properties=False)
        self.mask = self.ours.allocate_token_bitmask(2)
        self.first = faithful.Faithful(whole, torch.device("cpu"), False)
        self.state = SimpleNamespace(prompt_len=SimpleNamespace(np=np.full(4, 3)), prefill_len=SimpleNamespace(np=np.full(4, 3)))
        self.second = faithful.Faithful(whole, self.state)
        self.runner = Runner(whole)

    def run(self, case, dice):
        body = case.body
        if isinstance(body, dict) and isinstance(body.get("structured_outputs"), dict):
            self.run_mask(body, dice)
        if isinstance(body, dict) and isinstance(body.get("vllm_xargs"), dict) and "unskew" in body["vllm_xargs"]:
            self.run_walk(body, dice)

    def params(self, body):
        """As the server makes them of a request. None where vLLM itself refuses."""
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        names = ("n", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids", "ignore_eos", "min_tokens",
            "logit_bias", "bad_words", "logprobs")
        given = {name: body[name] for name in names if body.get(name) is not None}
        try:
            if isinstance(body.get("structured_outputs"), dict):
                given["structured_outputs"] = StructuredOutputsParams(**body["structured_outputs"])
            if isinstance(body.get("vllm_xargs"), dict):
                given["extra_args"] = dict(body["vllm_xargs"])
            return SamplingParams(**given)
        except Exception:  # noqa: BLE001 - not ours
            return None

    def run_mask(self, body, dice):
        from vllm.exceptions import VLLMValidationError
        from vllm.v1.structured_output.request import get_structured_output_key

        import unskew

        params = self.params(body)
        if params is None or params.structured_outputs is None:
            return "vllm refuses"
        try:
            self.backend.validate(params, self.config, self.options, self.hf)
        except VLLMValidationError as error:
            self.check(error, body)
            return "refused"
        except BaseException as error:  # noqa: BLE001
            raise Fault(f"validate raises {type(error).__name__}: {str(error)[:100]}") from error
        kind, spec = get_structured_output_key(params.structured_outputs)
        stops = {END, *(params.stop_token_ids or [])}
        try:
            grammar = self.ours.compile_grammar(kind, spec, stops)
        except unskew.Error:
            return "refused late"
        except BaseException as error:  # noqa: BLE001
            raise Fault(f"compile_grammar raises {type(error).__name__}: {str(error)[:100]}") from error
        told = []
        for _ in range(STEPS):
            if timed("is_terminated", grammar.is_terminated):
                break
            timed("fill_bitmask", grammar.fill_bitmask, self.mask, 0)
            allowed = bits(self.mask[0].numpy())
            if len(allowed) == 0:
                raise Fault("a mask without a token")
            id = int(allowed[0] if dice.random() < 0.3 else allowed[-1] if dice.random() < 0.3 else dice.choice(allowed))
            if id in stops and dice.random() < 0.8 and len(allowed) > 1:
                id = int(next(each
                    for each in allowed if int(each) not in stops)) if any(int(each) not in stops for each in allowed) else id
            if not timed("accept_tokens", grammar.accept_tokens, "r", [id]):
                if len(allowed) > 1:
                    raise Fault("a token of the mask is not taken")
                # Where there is no mask, the one id of the row is refused, and the request ends.
                return told
            told.append(id)
        return told

    def run_walk(self, body, dice):
        from types import SimpleNamespace

        import numpy as np
        from vllm.exceptions import VLLMValidationError

        params = self.params(body)
        if params is None:
            return "vllm refuses"
        if "reject_id" not in str(body["vllm_xargs"]["unskew"]):
            # As the endpoint does.
            try:
                wish = json.loads(body["vllm_xargs"]["unskew"])
                wish.pop("walks", None)
                params.stop_token_ids, params.extra_args = [1], {"unskew": {**wish, "reject_id": 1}}
            except (ValueError, TypeError, AttributeError, RecursionError):
                return "refused"
        try:
            self.faithful.check_request(params, self.config, self.hf)
            self.faithful.Faithful.validate_params(params)
        except (VLLMValidationError, ValueError) as error:
            self.check(error, body)
            return "refused"
        except BaseException as error:  # noqa: BLE001
            raise Fault(f"check_request raises {type(error).__name__}: {str(error)[:100]}") from error
        new = SimpleNamespace(
            req_id="r", sampling_params=params, prompt_token_ids=[7, 8, 9], prompt_embeds=None, mm_features=[], lora_request=None
        )
        for what, processor in (("apply", self.first), ("apply (V2)", self.second)):
            told = self.runner.told
            told.clear()
            timed("observe", processor.observe, self.runner, SimpleNamespace(finished_req_ids={"r"}, scheduled_new_reqs=[new]))
            for at in range(STEPS):
                context = SimpleNamespace(idx_mapping_np=np.array([0]), pos=self.torch.tensor([2 + at]))
                rest = () if processor is self.first else (context,)
                logits = timed(what, processor.apply, self.row(dice), *rest)
                told.append(int(logits[0].argmax()))
                if int(self.torch.isfinite(logits[0]).sum()) != 1 or told[-1] in (END, *(params.stop_token_ids or [])):
                    break
        return told

    def row(self, dice):
        self.torch.manual_seed(dice.randrange(1 << 30))
        logits = self.torch.randn((1, 2048)) * 3
        logits[0, END] += 4
        if dice.random() < 0.02:
            logits[0, dice.randrange(2048)] = dice.choice((float("nan"), float("inf"), float("-inf")))
        return logits

    def check(self, error, body):
        self.said = str(error)


class Sglang:
    """SGLang's side: `Backend` with `Grammar`, and `Faithful`."""

    NAMES = {"regex": "regex", "json": "json", "grammar": "ebnf", "structural_tag": "structural_tag"}

    def __init__(self, model):
        os.environ.update(SGLANG_USE_CPU_ENGINE="1")
        import torch
        from transformers import PreTrainedTokenizerFast

        # A server has it already; its import takes longer than a case may.
        import sglang.srt.managers.schedule_batch  # noqa: F401
        import unskew
        from unskew.sglang import Backend, Faithful

        self.torch = torch
        self.hf = PreTrainedTokenizerFast.from_pretrained(model)
        self.tokenizer = unskew.Tokenizer.from_hf(self.hf, vocab_size=2048, eos=[END])
        self.backend, self.processor = Backend(self.tokenizer), Faithful()
        self.said = ""

    def run(self, case, dice):
        if isinstance(case.body, bytes):
            return None
        what, text = case.parts
        if what in self.NAMES and isinstance(text, str):
            self.run_mask(self.NAMES[what], text, dice)
        if "vllm_xargs" in case.body:
            self.run_walk(case.body, dice)

    def run_mask(self, kind, text, dice):
        from concurrent.futures import Future

        from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject

        value, _ = timed("get_cached_or_future_value", self.backend.get_cached_or_future_value, (kind, text), False)
        if isinstance(value, Future):
            try:
                value = value.result(30)
            except Exception:  # noqa: BLE001 - SGLang ends the request by it; its own search for NUL bytes raises RecursionError
                return
            except BaseException as error:  # noqa: BLE001
                raise Fault(f"a dispatch raises {type(error).__name__}: {str(error)[:100]}") from error
        if isinstance(value, InvalidGrammarObject):
            self.said = value.error_message
            return
        grammar = timed("copy", value.copy)
        mask = grammar.allocate_vocab_mask(2048, 1, "cpu")
        for _ in range(STEPS):
            if timed("is_terminated", grammar.is_terminated):
                break
            mask.fill_(-1)
            timed("fill_vocab_mask", grammar.fill_vocab_mask, mask, 0)
            allowed = bits(mask[0].numpy())
            if len(allowed) == 0:
                raise Fault("a mask without a token")
            try:
                grammar.accept_token(int(dice.choice(allowed)))
            except ValueError:
                # SGLang ends the request by it.
                break

    def run_walk(self, body, dice):
        from types import SimpleNamespace

        given = body["vllm_xargs"]["unskew"] if isinstance(body["vllm_xargs"],
            dict) and "unskew" in body["vllm_xargs"] else body["vllm_xargs"]
        with_defaults = {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "temperature": 1.0}
        own = {name: body[name] if body.get(name) is not None else value for name, value in with_defaults.items()}
        params = SimpleNamespace(
            **own, frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0, min_new_tokens=0, logit_bias=None,
            ignore_eos=False, beam_width=1, stop_strs=[],
            stop_regex_strs=[], stop_token_ids=None, json_schema=None, regex=None, ebnf=None, structural_tag=None, n=1,
            max_new_tokens=body.get("max_tokens", 20),
        )
        kv = SimpleNamespace(kv_committed_len=3)
        req = SimpleNamespace(
            kv=kv, input_embeds=None, lora_id=None, multimodal_inputs=None, sampling_params=params, rid=str(dice.random()), origin_input_ids=[7, 8, 9], output_ids=[], eos_token_ids={END},
            tokenizer=self.hf, customized_info=None,
            to_finish=None, extend_end=3, full_untruncated_fill_ids=[7, 8, 9],
        )
        custom = {"__req__": req, "unskew": given}
        for _ in range(STEPS):
            self.torch.manual_seed(dice.randrange(1 << 30))
            logits = timed("Faithful.__call__", self.processor, self.torch.randn((1, 2048)) * 3, [custom])
            if req.to_finish is not None:
                self.said = str(vars(req.to_finish))
                return
            req.output_ids.append(int(logits[0].argmax()))
            kv.kv_committed_len += 1
            if req.output_ids[-1] in (END, *(params.stop_token_ids or ())):
                return


def child(engine, options, folder, pipe):
    """Takes the numbers of cases and answers with what is wrong with each."""
    subject = {"vllm": Vllm, "sglang": Sglang}[engine](folder / "model")
    places = files.make(folder, options.seed)
    os.environ["UNSKEW_FILES"] = places.lent
    os.environ.update(places.environment)
    pipe.send("ready")
    while (number := pipe.recv()) is not None:
        case = hostile.request(options.seed, number, places)
        subject.said = ""
        fault = None
        try:
            subject.run(case, hostile.dice_of("steps", number))
        except Fault as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001
            fault = f"the harness: {type(error).__name__}: {error}"
        leak = places.leak(subject.said, case.text().decode(errors="replace"))
        if leak is not None:
            fault = f"the message tells {leak}"
        elif fault is None and case.must_refuse and not subject.said and "structured_outputs" in case.body:
            fault = "a file that nobody lends is read"
        pipe.send((fault, resident()))


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=("vllm", "sglang"))
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=2.0)
    #: A case whose compiling ends at its deadline twice, in the front end and in the engine, takes 10.
    parser.add_argument("--seconds", type=float, default=25.0)
    options = parser.parse_args()
    # A file or a device is read within seconds, or never.
    os.environ.setdefault("UNSKEW_COMPILE_SECONDS", "2")
    os.environ.setdefault("UNSKEW_CACHE_BYTES", str(64 << 20))
    faults, rows, memory = collections.defaultdict(list), collections.Counter(), []
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        live.tiny(folder / "model")
        worker = pipe = None
        number, end = options.first, None
        while number < options.first + options.cases and (end is None or time.monotonic() < end):
            if worker is None:
                pipe, theirs = context.Pipe()
                worker = context.Process(target=child, args=(options.engine, options, folder, theirs), daemon=True)
                worker.start()
                assert pipe.poll(600) and pipe.recv() == "ready"
                end = end or time.monotonic() + options.minutes * 60
            kind = hostile.KINDS[number % len(hostile.KINDS)]
            rows[kind] += 1
            pipe.send(number)
            fault = None
            try:
                if pipe.poll(options.seconds):
                    fault, mib = pipe.recv()
                    memory.append(mib)
                else:
                    fault = f"not done after {options.seconds:g} s"
                    worker.kill()
            except (EOFError, OSError):
                fault = "the process ends"
            if not worker.is_alive() or fault and fault.startswith("not done"):
                worker.join(10)
                worker = None
            if fault is not None:
                if not faults[kind, fault]:
                    print(f"FAULT {kind}: {fault} (case {number})", flush=True)
                faults[kind, fault].append(number)
            number += 1
        if worker is not None:
            pipe.send(None)
            worker.join(10)
    fifth = memory[len(memory) // 5]
    print(f"{options.engine}: {number - options.first} cases {dict(rows)}; resident {fifth} MiB at 20 %, {memory[-1]} at the end")
    for (kind, fault), numbers in sorted(faults.items()):
        print(f"FAULT {kind}: {fault}: {len(numbers)} times, such as case {numbers[0]}")
    print(f"{len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
