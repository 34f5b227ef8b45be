"""XGrammar as a peer of structural tags: a process that answers lines of JSON, for `cargo xtask bench tags`.

The first line is {"vocabulary": [bytes as numbers, ...], "end": id}, and its answer is {"version": text}. Each other one is
{"tag": {...}, "sequences": [[id, ...], ...]}, and the answer is {"accepted": [bool, ...]}, or {"error": text} where the tag is refused.
"""

import json
import os
import sys
from importlib.metadata import version

import xgrammar


def accepts(matcher, sequence, end, mask):
    """Whether each token is in the mask in front of it. Budgets are those of masks: without one, a token beyond a budget is accepted."""
    matcher.reset()
    for token in [*sequence, end]:
        matcher.fill_next_token_bitmask(mask)
        if not int(mask[0, token // 32]) >> (token % 32) & 1 or not matcher.accept_token(token):
            return False
    return True


def main():
    # XGrammar warns on standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = json.loads(sys.stdin.readline())
    texts, end = [bytes(text) for text in start["vocabulary"]], start["end"]
    info = xgrammar.TokenizerInfo(texts, xgrammar.VocabType.RAW, stop_token_ids=[end])
    compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
    mask = xgrammar.allocate_token_bitmask(1, len(texts))
    print(json.dumps({"version": version("xgrammar")}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            matcher = xgrammar.GrammarMatcher(compiler.compile_structural_tag(json.dumps(request["tag"])))
            answer = {"accepted": [accepts(matcher, sequence, end, mask) for sequence in request["sequences"]]}
        except Exception as error:  # whatever it raises is its answer
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
