"""Hostile requests by a number: the same case on every machine.

A constraint comes from `constraint`, which both the classes without an engine and a server are given; `request` wraps it into what a client
sends. Three sources, as for the command line: shapes that are known to be hard, wrong values in every field, and good requests with damage.
Nothing here asks for so much that a server without constraints would stand still: a few sequences of a few tokens each.
"""

import copy
import json
import random
from dataclasses import dataclass, field

#: What a case is about: the rows of the report.
KINDS = (
    "files", "links", "limits", "stop ids", "ambiguous", "long texts", "deep nests", "surrogates", "wrong types", "options", "counts",
    "reject ids", "walks", "tags", "damage", "raw bodies",
)

#: The fields of a constraint that name a file.
FILES = ("set", "exclude_set", "regex_file", "grammar_file", "json_schema_file", "structural_tag_file", "schema_registry")

PROMPTS = ("A", "Kind regards,\n", "Dear Ms Meyer,\nYour order was sent on", '{"name": "', "")

MODES = ("cars", "rejection", "weights", "twist")

#: Values that few fields expect.
ODD = (
    None, True, False, 0, -1, 1, 3.5, -0.0, 1e308, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 64, -(1 << 63), "", "x", "\0", "9" * 400, [],
    [None], [[]], {},
    {"a": {}}, ["x"] * 50, {"regex": "a"}, [1, "a", None], "\u202e", "{", "null",
)


def odd_value(dice):
    """One of them, as a copy: some are put into others."""
    return copy.deepcopy(dice.choice(ODD))


#: Good constraints, which damage begins with.
WHOLE = (
    ("regex", "(ab|c)+[0-9]{2}"),
    ("regex", "[A-Z][a-z]{1,8} [A-Z][a-z]{1,8}"),
    ("choice", ["Thomas Hansen", "Peter Costa"]),
    ("json", '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}'),
    ("json", '{"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}'),
    ("grammar", 'start: "a" x\nx: /b+/'),
    ("grammar", 'root ::= "a" [0-9]+ | "(" root ")"'),
    ("grammar", '{"any_of": [{"regex": "a+"}, {"choices": ["b"]}]}'),
    ("grammar", '{"sequence": [{"regex": "a+"}, {"json_schema": {"type": "boolean"}}]}'),
    ("grammar", '{"grammar": "start: @a", "grammar_format": "lark", "grammars": {"a": {"regex": "x+"}}}'),
    ("structural_tag",
    '{"type": "structural_tag", "format": {"type": "tag", "begin": "<n>", "content": {"type": "any_text"}, "end": "</n>"}}'),
)


@dataclass
class Case:
    """One request."""

    number: int
    kind: str
    body: dict | bytes
    path: str = "/v1/completions"
    #: The client goes after so many seconds.
    leaves: float | None = None
    #: It names a file that no client may read: nothing but a refusal is right.
    must_refuse: bool = False
    #: What the classes are given: (kind of structured output, its text).
    parts: tuple = field(default=(), repr=False)

    def text(self):
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def dice_of(seed, number):
    return random.Random(f"{seed} {number}")


def request(seed, number, places):
    """The request of this number. `places` are files that a client must not read, and ways out of the folder that is lent."""
    dice = dice_of(seed, number)
    kind = KINDS[number % len(KINDS)]
    if kind == "raw bodies":
        return Case(number, kind, raw(dice), dice.choice(("/v1/completions", "/v1/chat/completions")))
    what, text = constraint(dice, kind, places)
    must_refuse = kind in ("files", "links")
    as_walk = what == "grammar" and _object(text) is not None and dice.random() < 0.5 or kind in ("walks", "reject ids")
    if as_walk:
        body = walk(dice, kind, what, text)
    else:
        body = mask(dice, kind, what, text)
    # vLLM's server draws beams without the constraint, and reads no file then.
    must_refuse &= not body.get("use_beam_search")
    case = Case(number, kind, body, must_refuse=must_refuse, parts=(what, text))
    if kind not in ("files", "links") and dice.random() < 0.1:
        case.leaves = dice.choice((0.02, 0.1, 0.3, 1.0))
    if not as_walk and dice.random() < 0.1:
        body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
        case.path = "/v1/chat/completions"
    return case


def mask(dice, kind, what, text):
    body = {
        "model": "m", "prompt": dice.choice(PROMPTS[:4]), "max_tokens": 120 if kind in ("files", "links", "ambiguous") else dice.choice((1,
        8, 40)),
        "temperature": dice.choice((0, 0.3, 1.0, 1.0)), "structured_outputs": {what: text},
    }
    if dice.random() < 0.2:
        body["n"] = dice.choice((1, 2, 4))
    if kind == "stop ids":
        body["stop_token_ids"] = [dice.randrange(1, 2048) for _ in range(dice.choice((1, 1, 3, 2000)))]
        if dice.random() < 0.3:
            # Every token: the first one that the constraint allows is among them.
            body["stop_token_ids"] = list(range(1, 2048))
    if kind == "options":
        body |= options(dice)
    if kind == "counts":
        body |= counts(dice)
    if kind == "wrong types":
        wrong(dice, body)
    return body


def walk(dice, kind, what, text):
    """Faithful outputs: by the endpoint, or with a `reject_id` of the client."""
    wish = {"constraint": _spec(what, text)}
    if dice.random() < 0.6:
        wish["mode"] = dice.choice(MODES[:2] if dice.random() < 0.7 else MODES)
    body = {"model": "m", "prompt": dice.choice(PROMPTS), "max_tokens": dice.choice((1, 2, 12, 40)), "n": dice.choice((1, 1, 2, 4))}
    wish["walks"] = dice.choice((1, 20, 60))
    if kind == "reject ids" or dice.random() < 0.4:
        del wish["walks"]
        wish["reject_id"] = dice.choice((1, 2, 5, 2047)) if kind == "walks" else dice.choice((odd_value(dice), 0, 2046, 2047, 2048, 2049, 1 << 20))
        body["stop_token_ids"] = [wish["reject_id"]] if dice.random() < 0.8 else dice.choice(([], [5, 6], list(range(2048)), None, "x",
            [-1]))
        body |= {"top_p": 1, "top_k": 0}
    if dice.random() < 0.5:
        body["temperature"] = dice.choice((0.05, 0.3, 0.7, 1.5, dice.choice((0, 0.0005, 0.001, 100, 1e9, -1, float(1 << 40)))))
    if dice.random() < 0.3:
        body["top_p"] = dice.choice((0.1, 0.9, 0.999, 1, dice.choice((0, 1e-9, 1.0000001, -1, 2))))
    if dice.random() < 0.1:
        body |= options(dice)
    if dice.random() < 0.15:
        body |= {"seed": dice.choice((0, 1, (1 << 63) - 1, -1, -(1 << 63), 1 << 64))}
    if kind == "counts":
        body |= counts(dice)
    if dice.random() < 0.1:
        wish[dice.choice(("constraint", "mode", "walks", "reject_id", "more", "seed", "temperature", "top_p"))] = odd_value(dice)
    try:
        text = json.dumps(wish)
    except (ValueError, RecursionError):
        # A case that holds itself, or is nested too deeply for Python's own writer.
        text = "[" * 100_000
    if dice.random() < 0.05:
        text = damaged(dice, text)
    body["vllm_xargs"] = {"unskew": text if dice.random() < 0.95 else wish}
    if dice.random() < 0.03:
        body["structured_outputs"] = {"regex": "a"}
    return body


def options(dice):
    """Fields of the server beside a constraint, right and wrong."""
    a = dice.randrange(2048)
    return dict(
        dice.choice(
            [
                {"ignore_eos": True, "max_tokens": 30}, {"min_tokens": 20, "max_tokens": 30}, {"use_beam_search": True, "n": 2,
                "temperature": 0},
                {"logit_bias": {"0": -100}}, {"logit_bias": {str(a): 100}}, {"allowed_token_ids": [a]}, {"bad_words": ["a"]},
                {"stop": "a"}, {"stop": ["", "b"]},
                {"top_k": 1}, {"top_k": 5, "top_p": 0.5}, {"min_p": 0.5}, {"min_p": 2}, {"presence_penalty": 2},
                {"repetition_penalty": 1.3}, {"echo": True, "logprobs": 1},
                {"stream": True}, {"best_of": 3}, {"suffix": "x"}, {"logprobs": 20}, {"prompt_logprobs": 2}, {"skip_special_tokens": False},
                {"include_stop_str_in_output": True}, {"return_token_ids": True}, {"truncate_prompt_tokens": 1},
                {"add_special_tokens": True},
                {"response_format": {"type": "json_object"}}, {"response_format": {"type": "json_schema", "json_schema": {"name": "x",
                "schema": {"type": "strange"}}}},
                {"guided_regex": "a"}, {"prompt": [a, a]}, {"prompt": [[a], [1]]}, {"prompt": ["a", "b"]}, {"prompt": [0] * 250},
            ]
        )
    )


def counts(dice):
    return dict(
        dice.choice(
            [
                {"n": 17_000}, {"n": 16_385}, {"n": 0}, {"n": -1}, {"n": 1 << 40}, {"n": "2"}, {"max_tokens": 0}, {"max_tokens": -1},
                {"max_tokens": 1 << 31},
                {"max_tokens": 1 << 62}, {"max_tokens": None}, {"max_tokens": 255}, {"max_tokens": 256}, {"n": 3, "best_of": 1},
                {"seed": 1 << 63}, {"seed": -5},
            ]
        )
    )


def wrong(dice, body):
    """Odd values somewhere, by any path into the request."""
    for _ in range(dice.choice((1, 1, 2, 4))):
        where = body
        while True:
            name = dice.choice([*where, "vllm_xargs", "stop_token_ids", "response_format", "structured_outputs"]) if isinstance(where,
                dict) else None
            if name is None:
                break
            if isinstance(where.get(name), dict) and where[name] and dice.random() < 0.6:
                where = where[name]
                continue
            where[name] = odd_value(dice)
            break


def constraint(dice, kind, places):
    """(kind of structured output, its text) for a row of the report."""
    if kind == "files":
        return "grammar", json.dumps(nested(dice, named(dice, dice.choice(places.secrets), places), places))
    if kind == "links":
        return "grammar", json.dumps(nested(dice, named(dice, dice.choice(places.escapes), places), places))
    if kind == "limits":
        return "grammar", json.dumps(limited(dice))
    if kind == "ambiguous":
        return "grammar", ambiguous(dice)
    if kind == "long texts":
        return long_text(dice)
    if kind == "deep nests":
        return deep(dice)
    if kind == "surrogates":
        what, text = dice.choice(WHOLE)
        odd = dice.choice(("\ud800", "\udfff\ud800", "\ufffe", "\0", "\ud83d", "\U0010ffff", "\u2028"))
        if isinstance(text, list):
            return what, [*text, odd, f"a{odd}"]
        at = dice.randrange(len(text) + 1)
        return what, text[:at] + odd + text[at:]
    if kind == "wrong types" and dice.random() < 0.7:
        return dice.choice(("regex", "json", "grammar", "structural_tag", "choice", "json_object")), odd_value(dice)
    if kind == "wrong types":
        return "grammar", json.dumps(mistyped(dice))
    if kind == "tags":
        return "structural_tag", json.dumps({"type": "structural_tag", "format": tag(dice, 3)})
    if kind == "damage":
        what, text = dice.choice(WHOLE)
        return what, [damaged(dice, part) for part in text] if isinstance(text, list) else damaged(dice, text)
    return dice.choice(WHOLE)


def named(dice, path, places):
    """A constraint that reads a file."""
    # The file itself is lent, and what it imports is not.
    name = "grammar_file" if path == "import.lark" else dice.choice(FILES)
    if name == "schema_registry":
        return {"json_schema": {"$ref": dice.choice(("x", "secret.json", "file:secret.json", "./secret.json"))}, name: places.folder}
    if name == "exclude_set" and dice.random() < 0.5:
        return {name: path, "regex": ".*"}
    if dice.random() < 0.15:
        # By the grammar's own imports.
        return {"grammar": f"%import {dice.choice(('.evil.A', '..secret.A', 'evil.A', '.' + path + '.A'))}\nstart: A",
            "grammar_format": "lark"}
    return {name: path}


def nested(dice, part, places):
    """The part somewhere in another constraint, or alone."""
    for _ in range(dice.choice((0, 1, 1, 1, 2, 5))):
        part = dice.choice(
            [
                {"any_of": [part]},
                {"any_of": [part, {"choices": ["zz"]}]},
                {"any_of": [{"choices": ["zz"]}, part]},
                {"sequence": [{"choices": ["x:"]}, part]},
                {"sequence": [part, part]},
                {"grammar": "start: @a", "grammar_format": "lark", "grammars": {"a": part}},
                {"grammar": 'start: "q" | @a @b', "grammar_format": "lark", "grammars": {"b": {"regex": "."}, "a": part}},
                {"not": part}, {"all_of": [part, {"regex": "(?s).*"}]},
            ][: 9 if dice.random() < 0.1 else 7]
        )
    return part


def limited(dice):
    """A constraint with limits of its own, most of them raised so far that nothing is a limit any more."""
    names = (
        "grammar.state_items", "grammar.scratch_bytes", "grammar.nodes", "grammar.positions", "grammar.automata_bytes", "regex.dfa_bytes",
        "regex.dfa_states", "regex.dfa_steps", "regex.nfa_size", "regex.lazy_bytes", "regex.mask_cache_bytes", "schema.bytes",
        "schema.products", "schema.alternatives", "tag.bytes",
    )
    limits = {dice.choice(names): dice.choice((1, 1 << 24, 1 << 30, 1 << 30)) for _ in range(dice.choice((1, 2, 4)))}
    if dice.random() < 0.2:
        limits = dice.choice((odd_value(dice), {"no.such": 1}, {names[0]: odd_value(dice)}))
    base = dice.choice(
        [
            {"grammar": ambiguous(dice), "grammar_format": "lark"}, {"regex": "(a|b)*a(a|b){22}"}, {"regex": "[0-9]{3}"},
            {"regex": "\\w{0,300}x\\w{0,300}"},
            {"json_schema": {"type": "array", "uniqueItems": True, "items": {"type": "integer", "maximum": 300, "minimum": 0}}},
        ]
    )
    part = {**base, "limits": limits}
    return dice.choice([part, part, {"any_of": [part, {"choices": ["zz"]}]}, {"sequence": [{"choices": ["x"]}, part]}])


def ambiguous(dice):
    """Texts with so many readings that the state of a parser grows with each token."""
    many = dice.choice((15, 30, 60))
    return dice.choice(
        [
            "start: " + " ".join(["x?"] * many) + ' "a"~60\nx: "a" | "aa" | "aaa" | "a" x "a"\n',
            'start: x+\nx: "a" | "a" x "a" | "aa" x "aa"\n',
            'start: item+\nitem: "*" item+ "*" | "**" item+ "**" | /[a-z ]/\n',
            'start: start start | start start start | "a" | \n',
            'start: a\na: b "x"? | "y"\nb: a "x" | "z"? a\n',
            'start: x x x\nx: /a*/ x? /a*/\n',
            'root ::= root root | "a" | ""',
            'root ::= ("a" | "aa" | "aaa" | root "a" root)*',
            "start: " + " ".join(f"x{at}?" for at in range(many)) + "\n" + "\n".join(f'x{at}: "a"~1..{1 + at}' for at in range(many)),
        ]
    )


def long_text(dice):
    n = dice.choice((1_000, 20_000, 200_000, 1_000_000))
    small = dice.choice((10, 100, 1_000))
    return dice.choice(
        [
            ("regex", "a" * n), ("regex", "(a|b)?" * (n // 6)), ("regex", f"\\w{{0,{small}}}x\\w{{0,{small}}}"), ("regex",
            f"((a{{{small}}}){{{small}}}){{{small}}}"),
            ("regex", "|".join(f"w{at}" for at in range(n // 6))), ("regex", f"(a|b)*a(a|b){{{small}}}"), ("regex",
            "(?i)" + "\\p{L}" * small),
            ("choice", [f"{at:06}" for at in range(n // 10)]), ("choice", ["a" * (n // 10)] * 10),
            ("json", json.dumps({"enum": [f"{at:06}" for at in range(n // 10)]})), ("json", json.dumps({"type": "string", "minLength": n,
            "maxLength": n + 1})),
            ("json", json.dumps({"properties": {f"p{at}": {"type": "string"} for at in range(small)},
            "required": [f"p{at}" for at in range(small)]})),
            ("json", json.dumps({"type": "number", "multipleOf": 0.00000007, "minimum": 0, "maximum": 1e300})),
            ("json", json.dumps({"type": "array", "uniqueItems": True, "items": {"type": "integer"}, "minItems": small})),
            ("grammar", "start: " + " | ".join(f'"w{at}"' for at in range(n // 10))), ("grammar", 'start: "a"~' + f"{n}..{n * 2}"),
            ("grammar", "root ::= " + " ".join(["[a-z]?"] * (n // 10))), ("grammar",
            "\n".join(f"x{at}: x{at + 1} x{at + 1}" for at in range(small)) + f'\nx{small}: "a"\nstart: x0'),
            ("regex", "([a-z]{1,60}[0-9]|[a-m0-9]{2,80}x?){1,170}" + dice.choice("abcdef")),
        ]
    )


def deep(dice):
    n = dice.choice((50, 500, 5_000, 100_000))
    return dice.choice(
        [
            ("regex", "(" * n + "a" + ")" * n), ("regex", "(a|" * n + "b" + ")*" * n), ("json", '{"allOf":[' * n + "{}" + "]}" * n),
            ("json", '{"properties":{"a":' * n + "{}" + "}}" * n), ("json", "[" * n), ("json", json.dumps({"$ref": "#"})),
            ("json", json.dumps({"properties": {"a": {"$ref": "#"}}, "required": ["a"]})), ("grammar",
            "root ::= " + "(" * n + '"a"' + ")" * n),
            ("grammar", "start: " + "(" * n + '"a"' + ")" * n), ("grammar", '{"any_of":[' * n + '{"regex":"a"}' + "]}" * n), ("grammar",
            '{"sequence":[' * n + "{}" + "]}" * n),
            ("structural_tag",
            '{"type":"structural_tag","format":' + '{"type":"sequence","elements":[' * n + '{"type":"any_text"}' + "]}" * n + "}"),
            ("grammar", "{" * n), ("grammar", '{"grammars":{"a":' * n + "1" + "}}" * n),
        ]
    )


def mistyped(dice):
    """An object whose fields have odd values."""
    names = (*FILES, "regex", "choices", "json_schema", "grammar", "grammar_format", "grammars", "structural_tag", "canonical", "any_of",
        "sequence", "limits", "whitespace", "ascii",
             "any_order", "gpu", "strict", "captures", "lexer", "ignore", "")
    return {dice.choice(names): odd_value(dice) for _ in range(dice.choice((1, 2, 3)))}


def tag(dice, depth):
    """A structural tag of XGrammar, sometimes with a wrong part."""
    if depth == 0 or dice.random() < 0.2:
        return dice.choice(
            [
                {"type": "any_text"}, {"type": "const_string", "value": "a" * dice.choice((0, 1, 50))}, {"type": "json_schema",
                "json_schema": dice.choice(({}, True, {"type": "integer"}, 3, None))},
                {"type": "regex", "pattern": dice.choice(("a+", "(", ".*"))}, {"type": "grammar", "grammar": dice.choice(('root ::= "a"',
                "start: x", ""))},
                {"type": dice.choice(("none", "", "any_tokens", "token"))}, {}, odd_value(dice),
            ]
        )
    inner = [tag(dice, depth - 1) for _ in range(dice.choice((0, 1, 2, 3)))]
    begin, end = dice.choice((("<a>", "</a>"), ("", ""), ("<", ">"), ("\ud800", "x"), ("<a>", ["</a>", ""]), ("<" * 300, ">")))
    one = {"type": "tag", "begin": begin, "content": inner[0] if inner else {"type": "any_text"}, "end": end}
    return dice.choice(
        [
            {"type": "sequence", "elements": inner}, {"type": "or", "elements": inner}, one, {"type": "optional",
            "content": inner[0] if inner else None},
            {"type": "triggered_tags", "triggers": dice.choice((["<"], [""], [], "x", ["<a", "<"])), "tags": [one, one],
            "at_least_one": dice.choice((True, False, 3)), "stop_after_first": True},
            {"type": "tags_with_separator", "tags": [one], "separator": dice.choice((",", "", None)), "at_least_one": dice.random() < 0.5},
            {"type": "star", "content": inner[0] if inner else {}}, {"type": "repeat", "content": one, "min": dice.choice((0, -1, 5)),
            "max": dice.choice((3, 1 << 40, None))},
        ]
    )


def damaged(dice, text):
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(text) + 1)
        put = dice.choice(["", "(", ")", "{", "}", '"', "\\", "[", "]", "\u00e9", "9" * 30, "\u2028", "*", "|", "?", text[at : at + 5] * 2,
            chr(dice.randrange(1, 0xD000))])
        text = text[:at] + put + text[at + dice.randint(0, 2) :]
    return text


def raw(dice):
    """Bodies that are no request, or hardly one."""
    good = json.dumps({"model": "m", "prompt": "A", "max_tokens": 2, "structured_outputs": {"regex": "a"}}).encode()
    at = dice.randrange(len(good))
    return dice.choice(
        [
            good[:at], good[:at] + bytes([dice.randrange(256)]) + good[at + 1 :], b"", b"null", b"[]", b'"x"', b"\xff\xfe", b"{" * 1000,
            good.replace(b'"a"', b'"a' + b"\\ud800" + b'"'),
            good.replace(b"2", b"NaN"), good.replace(b"2", b"1e999"), good + good, good.replace(b'"m"', b'"other"'),
            good[:-1] + b', "structured_outputs": {"json": "{}"}}',
            b'{"model":"m","prompt":"A","max_tokens":2,"structured_outputs":{"regex":"a","choice":["a"]}}',
            b'{"model":"m","prompt":"A","vllm_xargs":{"unskew":null}}',
        ]
    )


def _object(text):
    try:
        value = json.loads(text) if isinstance(text, str) and text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _spec(what, text):
    """The constraint of a structured output as an object for a walk; the text itself where it is none."""
    if what == "grammar":
        return _object(text) if _object(text) is not None else {"grammar": text, "grammar_format": "gbnf" if isinstance(text,
            str) and "::=" in text else "lark"}
    name = {"regex": "regex", "choice": "choices", "json": "json_schema", "structural_tag": "structural_tag"}.get(what, what)
    return {name: _object(text) if what in ("json", "structural_tag") and _object(text) is not None else text}
