"""Constraints of every kind, as their JSON."""

import json

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
    {"structural_tag": TAG},
    {"canonical": True},
    {},
]

SPECS = [json.dumps(spec) for spec in SPECS]
