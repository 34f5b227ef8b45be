"""Constraints of every kind, as their JSON: some by hand, and any number at random."""

import json
import random

TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<call>"],
        "tags": [
            {
                "begin": "<call>",
                "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
                "end": "</call>",
            }
        ],
    },
}

SPECS = [
    {"regex": "[0-9]{4}-[0-9]{2}"},
    {"regex": "[0-9]{4}-[0-9]{2}", "canonical": True},
    {"regex": "(?i)yes|no|perhaps"},
    {"regex": "\\w+( \\w+){0,5}\\."},
    {"regex": "[a-zäöü]*"},
    {"regex": ".*foo.*"},
    {"choices": ["yes", "no", "maybe so"]},
    {"choices": ["Thomas Hansen", "Peter Costa", "Paul Becker"], "canonical": True},
    {"json_schema": {"type": "integer"}},
    {"json_schema": {"type": "number"}},
    {"json_schema": {"type": "string", "maxLength": 12}},
    {"json_schema": {"enum": [1, "two", None, [3]]}},
    {"json_schema": {"type": "array", "items": {"type": "boolean"}, "maxItems": 4}, "whitespace": "compact"},
    {
        "json_schema": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
            "required": ["name", "age"],
            "additionalProperties": False,
        }
    },
    {"json_schema": {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False}},
    {"json_schema": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]}, "whitespace": "spaced"},
    {"json_schema": {}},
    {"grammar": 'start: "(" start ")" | "x"', "grammar_format": "lark"},
    {"grammar": 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/\n%ignore " "', "grammar_format": "lark"},
    {"grammar": 'root ::= "a" root "b" | "c"', "grammar_format": "gbnf"},
    {"grammar": 'root ::= [a-z]+ (", " [a-z]+)*', "grammar_format": "gbnf"},
    {"grammar": "root ::= 'a'* 'b' | 'c' root 'd'", "grammar_format": "ebnf"},
    {"grammar": 'root ::= "a" Regex("[b-d]+") | x root\nx[max_chars=2] ::= [x-z]+', "grammar_format": "xgrammar"},
    {"grammar": 'a = 1*3"a" [ b ] / "(" a ")"\nb = %x62-64', "grammar_format": "abnf"},
    {"structural_tag": TAG},
    {"canonical": True},
    {},
]

SPECS = [json.dumps(spec) for spec in SPECS]


def at_random(count, seed):
    """Specs that all can be compiled."""
    rng = random.Random(seed)
    kinds = [_regex_spec, _choice_spec, _schema_spec, _schema_spec, _grammar_spec, _tag_spec]
    return [json.dumps(kinds[at % len(kinds)](rng)) for at in range(count)]


def _pattern(rng, depth=3):
    if depth == 0:
        return rng.choice(["a", "[0-9]", "[a-z]", "\\w", "é", "x y", "[^,]", "."])
    return rng.choice(
        [
            lambda: _pattern(rng, depth - 1) + _pattern(rng, depth - 1),
            lambda: f"(?:{_pattern(rng, depth - 1)}|{_pattern(rng, depth - 1)})",
            lambda: f"(?:{_pattern(rng, depth - 1)})" + rng.choice(["*", "+", "?", "{2}", "{1,4}"]),
            lambda: _pattern(rng, 0),
        ]
    )()


def _regex_spec(rng):
    return {"regex": _pattern(rng, 4) + "!", "canonical": rng.random() < 0.3}


def _choice_spec(rng):
    texts = {"".join(rng.choice("abc ,.XYZ012é") for _ in range(rng.randint(1, 12))) for _ in range(rng.randint(1, 30))}
    return {"choices": sorted(texts), "canonical": rng.random() < 0.3}


def _schema(rng, depth):
    simple = [
        lambda: {"type": "integer", "minimum": rng.randint(-50, 0), "maximum": rng.randint(1, 5000)},
        lambda: {"type": "number"},
        lambda: {"type": "string", "minLength": rng.randint(0, 3), "maxLength": rng.randint(3, 9)},
        lambda: {"type": "string", "pattern": f"^{_pattern(rng, 2)}$"},
        lambda: {"type": "string", "format": rng.choice(["date", "time", "uuid", "ipv4"])},
        lambda: {"enum": rng.sample([None, True, 1, 2.5, "x", "yes", [1], {"a": 1}], rng.randint(1, 4))},
        lambda: {"const": rng.choice(["fixed", 7, None])},
    ]
    if depth == 0:
        return rng.choice(simple)()
    names = rng.sample(["id", "name", "age", "tags", "sub", "zip code"], rng.randint(1, 4))
    nested = [
        lambda: {
            "type": "object",
            "properties": {name: _schema(rng, depth - 1) for name in names},
            "required": rng.sample(names, rng.randint(0, len(names))),
            "additionalProperties": False,
        },
        lambda: {"type": "array", "items": _schema(rng, depth - 1), "minItems": rng.randint(0, 2), "maxItems": 5},
        lambda: {"anyOf": [_schema(rng, depth - 1), _schema(rng, depth - 1)]},
    ]
    return rng.choice(nested)()


def _schema_spec(rng):
    options = {"whitespace": rng.choice(["compact", "spaced", "flexible", "bounded:2"]), "any_order": rng.random() < 0.5}
    return {"json_schema": _schema(rng, 2), **options}


def _grammar_spec(rng):
    first, second = _pattern(rng, 1), _pattern(rng, 1)
    return rng.choice(
        [
            {"grammar": f'start: "(" start ")" | /{first}/ "," /{second}/', "grammar_format": "lark"},
            {"grammar": f'start: (A ";")* A\nA: /{first}q/', "grammar_format": "lark"},
            {"grammar": 'root ::= "' + rng.choice("abc") + '" root [x-z] | [0-9]+ "."', "grammar_format": "gbnf"},
            {"grammar": "root ::= '" + rng.choice("abc") + "' root 'd' | [0-9]+ 'e'?", "grammar_format": "ebnf"},
        ]
    )


def _tag_spec(rng):
    name = rng.choice(["call", "tool", "f"])
    tag = {"begin": f"<{name}>", "content": {"type": "json_schema", "json_schema": _schema(rng, 1)}, "end": f"</{name}>"}
    tags = {"type": "triggered_tags", "triggers": [f"<{name}>"], "tags": [tag], "at_least_one": rng.random() < 0.5}
    return {"structural_tag": {"type": "structural_tag", "format": tags}}
