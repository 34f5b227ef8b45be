"""Ranks of one model: two processes joined as SGLang joins them, with its own manager of grammars. They see the same requests in the same
turns, and must take them into the batch in the same order, however late one of them compiles: else a collective waits for ever."""

import datetime
import json
import multiprocessing
import socket
import time
from types import SimpleNamespace

import pytest

VOCABULARY = [bytes([byte]) for byte in range(256)] + ["<end>"]

#: Requests, each schema twice, one of them an error.
REQUESTS = 12

#: Turns of the scheduler between two requests.
TURNS = 10


def schema(at):
    return "{" if at == 3 else json.dumps({"enum": [f"{number:06d}{at}" for number in range(5_000)]})


def rank(number, port, late, reasoner, results):
    import torch
    from sglang.srt.constrained.grammar_manager import GrammarManager

    import unskew
    from unskew.sglang import Backend
    from unskew.sglang._backend import Kept

    join = {"init_method": f"tcp://127.0.0.1:{port}", "rank": number, "world_size": 2, "timeout": datetime.timedelta(seconds=60)}
    torch.distributed.init_process_group("gloo", **join)
    backend = Backend(unskew.Tokenizer.from_vocabulary(VOCABULARY, eos=[256]))
    # Grammars that are let go are compiled once more, on both.
    Kept.MOST = 4
    if number == 1:
        before = backend._init_value_dispatch

        def dispatch(*arguments):
            time.sleep(late)
            return before(*arguments)

        backend._init_value_dispatch = dispatch
    if reasoner:
        from sglang.srt.constrained.reasoner_grammar_backend import ReasonerGrammarBackend

        wrapped = ReasonerGrammarBackend.__new__(ReasonerGrammarBackend)
        super(ReasonerGrammarBackend, wrapped).__init__()
        wrapped.__dict__.update(cache=Kept(), _budget_variant_keys={}, _answer_frame=None)
        wrapped._init_value_dispatch = backend._init_value_dispatch
        backend = wrapped
    manager = GrammarManager.__new__(GrammarManager)
    manager.__dict__.update(
        grammar_queue=[], grammar_backend=backend, _enable_strict_thinking=False, grammar_sync_group=None, grammar_sync_size=2, pp_rank=0,
        pp_size=1, pp_group=None, SGLANG_GRAMMAR_POLL_INTERVAL=0.005, SGLANG_GRAMMAR_MAX_POLL_ITERATIONS=10_000,
        scheduler=SimpleNamespace(model_config=SimpleNamespace()),
    )
    order, aborted = [], []

    def request(at):
        params = SimpleNamespace(
            json_schema=schema(at // 2), regex=None, ebnf=None, structural_tag=None, custom_params=None, ebnf_full_assistant=False
        )
        return SimpleNamespace(
            sampling_params=params, rid=f"r{at}", origin_input_ids=[1], require_reasoning=False, grammar=None, grammar_key=None,
            grammar_wait_ct=0, finished=lambda: False, set_finish_with_abort=lambda why: aborted.append(f"r{at}"),
        )

    at = hits = 0
    while at < REQUESTS or manager.has_waiting_grammars():
        if at < REQUESTS:
            one, at = request(at), at + 1
            torch.distributed.barrier()
            if not manager.process_req_with_grammar(one):
                hits += 1
                order.append(one.rid)
        for _ in range(TURNS):
            if manager.has_waiting_grammars():
                ready = manager.get_ready_grammar_requests()
                assert all(each.grammar is not None for each in ready)
                order += [each.rid for each in ready]
            time.sleep(0.002)
    results.put((number, order, aborted, hits))


@pytest.mark.parametrize(("late", "reasoner"), [(0.3, False), (0.05, True)])
def test_ranks_take_requests_in_one_order(late, reasoner):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=rank, args=(number, port, late, reasoner, results), daemon=True) for number in range(2)]
    for process in processes:
        process.start()
    try:
        (_, *one), (_, *other) = sorted(results.get(timeout=300) for _ in processes)
    finally:
        for process in processes:
            process.kill()
    print(one)
    assert one == other and sorted(one[0]) == sorted(f"r{at}" for at in range(REQUESTS)) and one[1] == ["r6", "r7"]
    # With time between requests, the second of a schema is a hit.
    assert one[2] > 0 or late > 0.1
