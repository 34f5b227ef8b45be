"""Arguments of calls as elements, beside vLLM's parsers: what the constraint takes is read as arguments that satisfy the tool's schema, and
what a template writes of such arguments is taken.

A parser knows the types of a tool's parameters from `type`, `enum`, `anyOf`, `oneOf` and `allOf` alone. It is told all types here. What it
reads more kindly than JSON (`True`, `007`, a member twice) is refused, and counted; nothing else may be.
"""

import json
import os
import random
from types import SimpleNamespace

import jsonschema
import pytest
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
from vllm.tool_parsers import ToolParserManager

import unskew

#: Schemas of each style; `UNSKEW_STYLES` asks for more.
SCHEMAS = int(os.environ.get("UNSKEW_STYLES", "60"))

DSML = "\uff5cDSML\uff5c"
M3 = "]<]minimax[>["

#: By style: the parser, whether it is told the tools, the text around the arguments, an element, and whether values nest.
STYLES = {
    "qwen_xml": ("qwen3_coder", True, "<tool_call>\n<function=f>\n", "</function>\n</tool_call>", "<parameter={name}>{value}</parameter>"),
    "minimax_xml": (
        "minimax_m2",
        True,
        '<minimax:tool_call><invoke name="f">',
        "</invoke></minimax:tool_call>",
        '<parameter name="{name}">{value}</parameter>',
    ),
    "deepseek_xml": (
        "deepseek_v32",
        False,
        f'<{DSML}function_calls><{DSML}invoke name="f">',
        f"</{DSML}invoke></{DSML}function_calls>",
        f'<{DSML}parameter name="{{name}}" string="{{is_string}}">{{value}}</{DSML}parameter>',
    ),
    "deepseek_v4_1_xml": (
        "deepseek_v41",
        False,
        f'<{DSML} calls><{DSML} invoke name="f">',
        f"</{DSML} invoke></{DSML} calls>",
        f'<{DSML} parameter name="{{name}}" string="{{is_string}}">{{value}}</{DSML} parameter>',
    ),
    "glm_xml": ("glm47", True, "<tool_call>f", "</tool_call>", "<arg_key>{name}</arg_key>\n<arg_value>{value}</arg_value>"),
    "kimi_k3_xml": (
        "kimi_k3",
        False,
        '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>',
        "<|close|>call<|sep|><|close|>tools<|sep|>",
        '<|open|>argument key="{name}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>',
    ),
    "minimax_m3_xml": (
        "minimax_m3",
        True,
        f'{M3}<tool_call>\n{M3}<invoke name="f">',
        f"{M3}</invoke>\n{M3}</tool_call>",
        f"{M3}<{{name}}>{{value}}{M3}</{{name}}>",
    ),
}

NAMES = ["a", "b", "filter[id]", "@x", "a/b", "two words", "$ref", "é"]
TEXTS = ["", "a", "b", "ab", "x y", "12", "-3", "true", "null", "[1]", '{"a": 1}', "1.5", '"q"', "a<b", "</", "\n", "\na\n", " a ", "é" * 3]
DATES = ["2024-02-29", "2023-02-29"]


class Maker:
    """A random schema, what a parser is told of it, and values that nearly satisfy it."""

    def __init__(self, seed, nests):
        self.random, self.nests = random.Random(seed), nests

    def some(self, of):
        return self.random.choice(of)

    def chance(self, of):
        return self.random.random() < of

    def value(self, depth=1):
        """The schema, the types by which a parser reads it, and a function that makes values."""
        kinds = [self.string, self.number, self.boolean, self.null, self.listed]
        kinds += [self.array, self.record] * (depth > 0) + [self.union, self.any] * (depth > 0)
        return self.some(kinds)(depth)

    def string(self, depth):
        bounds = self.some([{}, {}, {"minLength": 2}, {"maxLength": 2}, {"minLength": 1, "maxLength": 3}, {"maxLength": 70000}])
        more = self.some([{}, {}, {}, {"pattern": "^[a-b\n]+$"}, {"format": "date"}])
        schema = {"type": "string", **bounds, **more}
        return schema, {"type": ["string"]}, lambda: self.some(TEXTS + DATES)

    def number(self, depth):
        of = self.some(["integer", "number"])
        bounds = self.some([{}, {"minimum": 2}, {"maximum": 10, "exclusiveMinimum": -3}, {"multipleOf": 3}])
        return {"type": of, **bounds}, {"type": [of]}, lambda: self.some([0, 1, 3, 12, -3, 7, 100, 1.5])

    def boolean(self, depth):
        return self.some([{"type": "boolean"}, {"const": True}]), {"type": ["boolean"]}, lambda: self.some([True, False])

    def null(self, depth):
        return {"type": "null"}, {"type": ["null"]}, lambda: None

    def listed(self, depth):
        values = self.random.sample(["a", "b", "12", "x y", 12, 1.5, True, None], self.random.randint(1, 4))
        types = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
        schema = {"enum": values} if len(values) > 1 or self.chance(0.5) else {"const": values[0]}
        return schema, {"type": sorted({types[type(value)] for value in values})}, lambda: self.some(values + ["c", 5])

    def array(self, depth):
        item, typed, make = self.value(depth - 1)
        bounds = self.some([{}, {"minItems": 1}, {"maxItems": 2}])
        schema = {"type": "array", "items": item, **bounds}
        return schema, {"type": ["array"], "items": typed}, lambda: [make() for _ in range(self.random.randint(0, 3))]

    def record(self, depth):
        members = {name: self.value(depth - 1) for name in self.random.sample(NAMES[:4] + NAMES[6:], self.random.randint(1, 2))}
        schema = {"type": "object", "properties": {name: of[0] for name, of in members.items()}, "additionalProperties": False}
        schema["required"] = [name for name in members if self.chance(0.4)]
        typed = {"type": ["object"], "properties": {name: of[1] for name, of in members.items()}}
        return schema, typed, lambda: {name: of[2]() for name, of in members.items() if self.chance(0.7)}

    def union(self, depth):
        ways = [self.value(0) for _ in range(2)]
        if not self.nests and self.chance(0.5):
            ways.append(self.some([self.array, self.record])(1))
        types = {of for way in ways for of in way[1].get("type", ["string"])}
        typed = {"type": sorted(types), **{k: v for way in ways for k, v in way[1].items() if k != "type"}}
        return {self.some(["anyOf", "oneOf"]): [way[0] for way in ways]}, typed, lambda: self.some(ways)[2]()

    def any(self, depth):
        return self.some([{}, True]), {}, lambda: self.some(TEXTS)

    def tool(self):
        names = self.random.sample(NAMES, self.random.randint(1, 4))
        members = {name: self.value(2 if self.nests else 1) for name in names}
        properties = {name: of[0] for name, of in members.items()}
        typed = {name: of[1] for name, of in members.items()}
        makers = {name: of[2] for name, of in members.items()}
        schema = {"type": self.some(["object", ["object", "null"]]), "properties": properties}
        if self.chance(0.3):
            schema["x-order"] = 1
        if self.chance(0.3):
            properties["never"], makers["never"] = self.some([False, {"not": {}}]), lambda: "x"
        if self.chance(0.3) and not self.nests:
            first = names[0]
            target = first.replace("/", "~1").replace(" ", "%20").replace("[", "%5B").replace("]", "%5D").replace("é", "%C3%A9")
            properties["same"] = {"$ref": f"#/properties/{target}"}
            typed["same"], makers["same"] = typed[first], makers[first]
        schema["required"] = [name for name in names if self.chance(0.5)]
        some = self.some(names)
        more = self.random.random()
        if more < 0.1:
            schema["anyOf"] = [{"required": [some]}, {"required": [names[-1]]}]
        elif more < 0.2:
            schema["allOf"] = [{"if": {"required": [some]}, "then": {"required": [names[-1]]}}]
        elif more < 0.3:
            schema["minProperties"] = self.random.randint(1, len(names))
        elif more < 0.4:
            schema["oneOf"] = [{"required": [some]}, {"properties": {some: False}}]
        elif more < 0.5:
            schema["additionalProperties"] = False
        elif more < 0.6 and not self.nests:
            schema["patternProperties"] = {"^s_": {"type": "string", "maxLength": 2}}
            schema["additionalProperties"] = False
            makers["s_1"] = lambda: self.some(["a", "abc"])
        return schema, typed, makers

    def arguments(self, makers, required):
        return {name: make() for name, make in makers.items() if self.chance(0.95 if name in required else 0.5)}


class Writer:
    """The text of arguments, as a template writes it, or with other white space."""

    def __init__(self, style, maker):
        self.style, self.maker = style, maker
        self.element = STYLES[style][4]

    def write(self, arguments, is_plain):
        space = (lambda: "\n") if is_plain else (lambda: self.maker.some(["", "\n", " \n"]))
        return "".join(self.part(name, value, is_plain) + space() for name, value in arguments.items())

    def part(self, name, value, is_plain):
        if self.style == "kimi_k3_xml":
            name = name.replace("&", "&amp;").replace('"', "&quot;")
        kinds = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null", list: "array", dict: "object"}
        marks = {"kind": kinds[type(value)], "is_string": "true" if isinstance(value, str) else "false"}
        return self.element.format(name=name, value=self.text(value, is_plain), **marks)

    def text(self, value, is_plain):
        if self.style == "minimax_m3_xml" and isinstance(value, (list, dict)):
            parts = value.items() if isinstance(value, dict) else (("item", item) for item in value)
            return "".join(self.part(name, part, is_plain) for name, part in parts)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if self.style == "qwen_xml" and (is_plain or self.maker.chance(0.5)):
            return f"\n{text}\n"
        return text if is_plain or isinstance(value, str) else self.maker.some(["", " "]) + text


class Vocabulary(dict):
    """Any token has a number, so that a parser finds its marks."""

    def get(self, token, default=None):
        return self.setdefault(token, len(self))


class Reader:
    def __init__(self, style, typed):
        name, knows_tools, self.begin, self.end, _ = STYLES[style]
        tokenizer = SimpleNamespace(get_vocab=Vocabulary, encode=lambda text, **_: [], all_special_tokens=[])
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": typed}}}
        tools = [ChatCompletionToolsParam(**tool)] if knows_tools else None
        options = {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}} if name not in ("kimi_k3",) else {}
        try:
            self.parser = ToolParserManager.get_tool_parser(name)(tokenizer, tools, **options)
        except TypeError:
            self.parser = ToolParserManager.get_tool_parser(name)(tokenizer, tools)
        self.request = SimpleNamespace(tools=tools, tool_choice="auto", skip_special_tokens=False)

    def read(self, text):
        read = self.parser.extract_tool_calls(self.begin + text + self.end, self.request)
        if len(read.tool_calls) != 1:
            return None
        return json.loads(read.tool_calls[0].function.arguments)


def is_beyond(schema, arguments):
    """Whether a member is in the arguments that the style leaves out."""
    silent = not {"additionalProperties", "patternProperties"} & set(schema)
    return silent and any(name not in schema["properties"] for name in arguments)


@pytest.mark.parametrize("style", STYLES)
def test_what_is_taken_is_what_is_read(style):
    tokenizer = unskew.Tokenizer.from_vocabulary([bytes([byte]) for byte in range(256)] + ["<end>"], eos=[256])
    compiler = unskew.Compiler(tokenizer)
    taken, refused, lost, empty = 0, 0, [], 0
    for seed in range(SCHEMAS):
        maker = Maker(seed, style == "minimax_m3_xml")
        schema, typed, makers = maker.tool()
        valid = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker(["date"])).is_valid
        content = {"type": "json_schema", "style": style, "json_schema": schema, "any_order": True}
        try:
            compiled = compiler.compile(unskew.Constraint.structural_tag({"type": "structural_tag", "format": content}))
        except unskew.ConstraintError as error:
            # A long string that is not another one is an automaton.
            assert "no value satisfies" in str(error) or "70000" in json.dumps(schema), (schema, error)
            empty += 1
            continue
        reader, writer = Reader(style, typed), Writer(style, maker)
        for at in range(12):
            wanted = maker.arguments(makers, schema["required"])
            text = writer.write(wanted, at % 2 == 0)
            if at % 4 == 3 and text:
                place = maker.random.randrange(len(text))
                text = text[:place] + maker.some(["", "\n", " ", "1", "<"]) + text[place + 1 :]
            matcher = unskew.Matcher(compiled)
            ids = list(text.encode())
            is_taken = matcher.accept_all(ids) == len(ids) and matcher.is_accepting()
            found = reader.read(text)
            is_right = found is not None and valid(found)
            if is_taken:
                assert is_right, (style, seed, schema, text, found)
                taken += 1
            elif is_right:
                # The same arguments, as a template writes them.
                lost.append((style, seed, schema, text, found, found == wanted and at % 2 == 0))
            else:
                refused += 1
    plain = [one for one in lost if one[-1] and not is_beyond(one[2], one[4])]
    print(f"\n{style}: {taken} taken, {refused} refused by both, {len(lost)} refused and read kindly, {empty} schemas without arguments")
    if os.environ.get("UNSKEW_SHOW"):
        for one in lost[:: max(1, len(lost) // 12)]:
            print(json.dumps(one[2], ensure_ascii=False), repr(one[3]), one[4])
    assert not plain, plain[:3]
    assert taken > 2 * SCHEMAS and refused > SCHEMAS
