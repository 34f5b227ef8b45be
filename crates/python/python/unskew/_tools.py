"""Functions as tools: from signatures to the constraint in which a model calls them, and from an output to the calls.

The marks of each family of models are in Rust (`unskew_engine::tools`), which makes the structural tag. Here are the sides that Python knows:
the types of parameters, and typed values. A text is read by the same marks; it is an output of the constraint, so that what stands between
two marks is one thing alone.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import _unskew
from ._errors import ConstraintError, OptionError
from ._types import Read, pattern_of, pydantic_is_there, refused, schema_of, texts_of
from ._unskew import Constraint

__all__ = ["Call", "tool_list"]


@dataclass(frozen=True)
class Call:
    """A call of a tool in an output. `arguments` are values of the parameters' types, of a tool without types values of JSON."""

    name: str
    arguments: dict[str, Any]
    #: The function, where the tool is one.
    function: Callable[..., Any] | None = None

    def __call__(self) -> Any:
        """Calls the function."""
        if self.function is None:
            raise OptionError(f"the tool {self.name!r} is no function: give its arguments to whoever has it")
        return self.function(**self.arguments)


def tool_list(tools: Any, *, closed: bool | None = None) -> list[dict[str, Any]]:
    """Tools in the form of OpenAI's interface, which chat templates read: functions, an MCP server's list, or OpenAI's tools."""
    return [
        {"type": "function", "function": {"name": name, "description": description, "parameters": json.loads(parameters)}}
        for name, description, parameters in _unskew._tool_list(json.dumps([tool for tool, _, _ in _tools(tools)]), closed)
    ]


def constraint(
    tools: Any, model: str, choice: Any, parallel: bool, reasoning: Any, response_format: Any, closed: bool | None
) -> Constraint:
    """`Constraint.tools`."""
    each = _tools(tools)
    text = json.dumps([tool for tool, _, _ in each])
    known = _unskew._tool_list(text, closed)
    mode = {None: "disabled", False: "disabled", True: "enabled"}.get(reasoning, reasoning)
    if mode not in ("disabled", "enabled", "auto"):
        raise OptionError(f'`reasoning` is {reasoning!r}: give True, False or "auto"')
    if choice is None or choice in ("auto", "required", "none"):
        choice = choice or "auto"
    elif callable(choice) or isinstance(choice, Mapping):
        choice = ":" + _tool(choice)[0]["name"]
    elif any(choice == name for name, _, _ in known):
        choice = ":" + choice
    else:
        raise OptionError(f'`choice` is {choice!r}: give "auto", "required", "none", a function or the name of a tool')
    response, _ = _response(response_format)
    made, marks = _unskew._tools(model, text, choice, parallel, mode, response, closed)
    readers = {name: (function, json.loads(schema)) for (name, _, schema), (_, function, _) in zip(known, each)}
    return made._read_by(Reader(json.loads(marks), readers, mode, response_format))


def _tools(tools: Any) -> list[tuple[dict[str, Any], Callable[..., Any] | None, Read | None]]:
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except json.JSONDecodeError as error:
            raise OptionError(f"`tools` is a text and no JSON: {error}") from error
    if isinstance(tools, Mapping) and "tools" in tools:
        tools = tools["tools"]
    if callable(tools) or isinstance(tools, Mapping):
        raise OptionError("`tools` is one tool: give a list")
    return [_tool(tool) for tool in tools]


def _tool(tool: Any) -> tuple[dict[str, Any], Callable[..., Any] | None, Read | None]:
    if isinstance(tool, Mapping):
        return dict(tool.get("function", tool) if isinstance(tool.get("function"), Mapping) else tool), None, None
    if hasattr(tool, "inputSchema"):
        # A tool of the package `mcp`.
        return {"name": tool.name, "description": tool.description or "", "inputSchema": tool.inputSchema}, None, None
    if callable(tool):
        return _of_function(tool)
    raise OptionError(f"{tool!r} is no tool: give a function, or a dict with `name` and `inputSchema`")


def _of_function(function: Callable[..., Any]) -> tuple[dict[str, Any], Callable[..., Any], Read]:
    name = getattr(function, "__name__", type(function).__name__)
    if isinstance(function, type):
        raise OptionError(f"`{name}` is a class and no function: give a function that makes one")
    signature = inspect.signature(function)
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        raise refused(function, str(error), "define the type before the function") from error
    members: dict[str, Any] = {}
    needed = set()
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _no_parameter(name, parameter.name, "it is not given by its name", "take one that is")
        if parameter.name not in hints:
            raise _no_parameter(name, parameter.name, "it has no type", "annotate it, with `Any` for any value of JSON")
        members[parameter.name] = hints[parameter.name]
        if parameter.default is parameter.empty:
            needed.add(parameter.name)
    schema, read = schema_of(_typed_dict(name, members, needed))
    definitions = schema.get("$defs", {})
    if "$ref" in schema:
        # The object itself, with its definitions beside it.
        schema = {**definitions.pop(schema["$ref"].rsplit("/", 1)[1]), **({"$defs": definitions} if definitions else {})}
    schema = _resolved(schema)
    description, notes = _documentation(function)
    for member, note in notes.items():
        if member in schema["properties"] and "$ref" not in schema["properties"][member]:
            schema["properties"][member].setdefault("description", note)
    return {"name": name, "description": description, "parameters": schema}, function, read


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose references are replaced by what they lead to, but those of types that contain themselves.

    Parsers of calls read the `type` of a parameter and follow no reference: an object behind one would be read as a text.
    """
    definitions = schema.get("$defs", {})
    kept: set[str] = set()
    left = 10_000

    def walk(value: Any, inside: tuple[str, ...], names: bool = False) -> Any:
        nonlocal left
        left -= 1
        if isinstance(value, list):
            return [walk(one, inside) for one in value]
        if not isinstance(value, dict) or left < 0:
            return value
        if names:
            return {name: walk(part, inside) for name, part in value.items()}
        name = value.get("$ref", "").removeprefix("#/$defs/")
        if name in inside:
            kept.add(name)
        elif name in definitions:
            beside = {key: part for key, part in value.items() if key != "$ref"}
            return {**walk(definitions[name], (*inside, name)), **walk(beside, inside)}
        values = ("const", "enum", "default", "examples")
        return {key: part if key in values else walk(part, inside, key == "properties") for key, part in value.items()}

    made: dict[str, Any] = walk({key: part for key, part in schema.items() if key != "$defs"}, ())
    while missing := kept - made.get("$defs", {}).keys():
        made.setdefault("$defs", {}).update({name: walk(definitions[name], (name,)) for name in missing})
    # Types that stand in each other many times over would fill the prompt.
    return made if left >= 0 else schema


def _no_parameter(function: str, parameter: str, why: str, way_out: str) -> ConstraintError:
    return ConstraintError(f"the parameter `{parameter}` of `{function}`: {why}; {way_out}", f"{function}.{parameter}")


def _typed_dict(name: str, members: dict[str, Any], needed: set[str]) -> Any:
    """The arguments of a function as a type."""
    if pydantic_is_there():
        # Pydantic takes the `TypedDict` of typing from Python 3.12 on alone.
        import typing_extensions

        module: Any = typing_extensions
        fields = {key: kind if key in needed else module.NotRequired[kind] for key, kind in members.items()}
        return module.TypedDict(name, fields)
    # Python 3.10 has no `NotRequired`.
    module = typing
    made: Any = module.TypedDict(name, members)
    made.__required_keys__ = frozenset(needed)
    return made


_PARAMETER = re.compile(r"\s*(?::param\s+(?:[\w\[\], ]+\s)?)?(\w+)\s*(?:\([^)]*\))?\s*:\s*(\S.*)$")


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and its lines about parameters, as Google and Sphinx write them."""
    text = inspect.getdoc(function) or ""
    first, _, rest = text.partition("\n\n")
    notes = {}
    for line in (rest or text).splitlines():
        match = _PARAMETER.match(line)
        if match:
            notes[match[1]] = match[2].strip()
    return ("" if first.startswith(("Args:", ":param")) else " ".join(first.split())), notes


def _response(kind: Any) -> tuple[str | None, Read | None]:
    """A part of a structural tag for a response format, and what reads it: a type, or the object of OpenAI's interface."""
    if kind is None:
        return None, None
    if isinstance(kind, Mapping):
        spec = json.loads(Constraint.response_format(kind).to_json())
        if "json_schema" not in spec:
            raise OptionError('`response_format` is a type, or {"type": "json_schema", "json_schema": {"schema": {...}}}')
        return json.dumps({"type": "json_schema", "json_schema": spec["json_schema"]}), json.loads
    if isinstance(kind, re.Pattern):
        return json.dumps({"type": "regex", "pattern": pattern_of(kind)}), str
    texts = texts_of(kind)
    if texts is not None:
        elements = [{"type": "const_string", "value": text} for text in texts]
        return json.dumps({"type": "or", "elements": elements}), texts.__getitem__
    schema, read = schema_of(kind)
    return json.dumps({"type": "json_schema", "json_schema": schema}), read


@dataclass(frozen=True)
class _Known:
    """A tool and what reads its arguments."""

    name: str
    function: Callable[..., Any] | None
    schema: Any
    read: Read | None

    def call(self, text: str) -> Call:
        return Call(self.name, (self.read or json.loads)(text), self.function)


class Reader:
    """What reads the outputs of a request with tools."""

    def __init__(
        self, marks: dict[str, Any], tools: dict[str, tuple[Callable[..., Any] | None, Any]], reasoning: str, response: Any
    ) -> None:
        #: What it is made of, for pickling: readers of types are made anew.
        self.made_of = (marks, tools, reasoning, response)
        self.marks, self.reasoning = marks, reasoning
        self.read = _response(response)[1]
        self.tools = {
            name: _Known(name, function, schema, _of_function(function)[2] if function else None)
            for name, (function, schema) in tools.items()
        }
        # Names that begin with another one go first.
        names = "|".join(sorted(map(re.escape, tools), key=len, reverse=True)) or "(?!)"
        begins = "|".join(re.escape(begin) for begin in marks["begins"])
        groups = iter(range(len(marks["begins"])))
        begins = re.sub(r"\\{name\\}", lambda _: f"(?P<name{next(groups)}>{names})", begins)
        self.begin = re.compile(begins.replace(r"\{id\}", "[0-9]+"))

    def __reduce__(self) -> Any:
        return Reader, self.made_of

    def value(self, text: str) -> Any:
        """Of a response format, the value of an answer, and None where there are calls; without one, the text."""
        if self.read is None:
            return text
        return None if self.calls(text) else self.read(self._answer(text))

    def calls(self, text: str) -> list[Call]:
        """The calls of an output, in their order."""
        text, found = self._behind_thought(text), []
        at = self._next(text, 0)
        while at is not None:
            calls, end = self._calls(text, at)
            found += calls
            at = self._next(text, max(end, at + 1))
        return found

    def _behind_thought(self, text: str) -> str:
        marks = self.marks
        if marks["shape"] == "harmony":
            next_message = "<|end|><|start|>assistant"
            while text.startswith("<|channel|>analysis<|message|>"):
                text = text[text.index(next_message) + len(next_message) :]
            return text
        if marks["thought"] is None or self.reasoning == "disabled":
            return text.removeprefix(marks["thoughtless"])
        begin, end, after = marks["thought"]
        if self.reasoning == "auto" and not text.startswith(begin):
            return text.removeprefix(after)
        return text[text.index(end) + len(end) :].removeprefix(after)

    def _answer(self, text: str) -> str:
        text = self._behind_thought(text)
        if self.marks["shape"] == "harmony":
            text = text.removeprefix("<|channel|>final<|message|>")
            return text.removesuffix("<|return|>").removesuffix("<|end|>")
        return text.removesuffix("<|close|>response<|sep|><|close|>message<|sep|>") if self.marks["shape"] == "kimi" else text

    def _next(self, text: str, at: int) -> int | None:
        """Where calls begin from `at` on. An answer of a response format has none beside it."""
        opening, start = self.marks["section"][0], 0
        if self.marks["shape"] == "kimi":
            # The response stands before.
            end = "<|close|>response<|sep|>"
            start = text.index(end) + len(end)
        elif self.read is None:
            if opening:
                found = text.find(opening, at)
                return None if found < 0 else found + len(opening)
            match = self.begin.search(text, at)
            return None if match is None else match.start()
        start += _blanks(text, start) if opening else 0
        return start + len(opening) if at <= start and text.startswith(opening, start) else None

    def _calls(self, text: str, at: int) -> tuple[list[Call], int]:
        """The calls that stand one after the other from `at` on, and their end."""
        found: list[Call] = []
        end = at
        while (match := self.begin.match(text, at)) is not None:
            tool = self.tools[next(name for name in match.groupdict().values() if name is not None)]
            at = match.end()
            if self.marks["elements"] is None:
                _, stop = json.JSONDecoder().raw_decode(text, at)
                arguments, at = text[at:stop], stop
            else:
                value, at = _Elements(self.marks["elements"], tool.schema, text).members(at, tool.schema)
                arguments = json.dumps(value)
            # White space of elements may stand before, and the end of the sequence may be the mark of the end.
            close = self.marks["end"].lstrip()
            at += _blanks(text, at)
            if not text.startswith(close, at) and at != len(text):
                raise ConstraintError(f"no {close!r} ends the call of {tool.name!r} at character {at}")
            end = at + len(close)
            found.append(tool.call(arguments))
            if not self.marks["section"][0] and self.read is None:
                # Free text may follow.
                break
            at = end + _blanks(text, end)
        return found, end


def _blanks(text: str, at: int) -> int:
    return len(text[at:]) - len(text[at:].lstrip())


#: Types of JSON, as a schema calls them.
_JSON_TYPES = {"null", "boolean", "number", "string", "array", "object"}


def _type(value: Any) -> str:
    names = {type(None): "null", bool: "boolean", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "number")


@dataclass
class _Elements:
    """Arguments as elements, such as `<parameter=city>Oslo</parameter>`."""

    style: dict[str, Any]
    root: Any
    text: str

    def members(self, at: int, schema: Any) -> tuple[dict[str, Any], int]:
        """The members from `at` on, and where they end."""
        values = {}
        while (match := self._begin(self.style["before"]).match(self.text, at)) is not None:
            name = match["name"]
            for letter, written in reversed(self.style["escapes"]):
                name = name.replace(written, letter)
            values[name], at = self._value(match, self._member(schema, name), name)
        return values, at + _blanks(self.text, at)

    def _items(self, at: int, schema: Any) -> tuple[list[Any], int]:
        values: list[Any] = []
        while (match := self._begin(self.style["item"]).match(self.text, at)) is not None:
            value, at = self._value(match, self._item(schema, len(values)), "item")
            values.append(value)
        return values, at + _blanks(self.text, at)

    def _begin(self, mark: str) -> re.Pattern[str]:
        words = "|".join(map(re.escape, self.style["words"]))
        mark = re.escape(mark).replace(r"\{name\}", '(?P<name>[^<>"/\\s][^<>"]*?)').replace(r"\{type\}", f"(?P<type>{words})")
        return re.compile(r"\s*" + mark + r"\s*" + re.escape(self.style["begin"]))

    def _value(self, match: re.Match[str], schema: Any, name: str) -> tuple[Any, int]:
        word, at = match.groupdict().get("type"), match.end()
        end = self.style["end"] + self.style["after"].replace("{name}", name)
        types = self._types(schema, 0)
        if self.style["item"] is not None:
            nested: tuple[Any, int] | None = None
            if word == "list" or word is None and "array" in types and self._begin(self.style["item"]).match(self.text, at):
                nested = self._items(at, schema)
            elif word == "dict" or word is None and "object" in types and self._begin(self.style["before"]).match(self.text, at):
                nested = self.members(at, schema)
            elif word is None and "string" not in types and self.text[at:].lstrip().startswith(end):
                nested = ([] if "array" in types else {}), at + _blanks(self.text, at)
            if nested is not None:
                return nested[0], nested[1] + len(end)
        # A value that is no string is JSON, whose strings may have a mark in them.
        if word not in ("string", "true", "raw"):
            begin = at + _blanks(self.text, at)
            try:
                value, stop = json.JSONDecoder().raw_decode(self.text, begin)
                stop += _blanks(self.text, stop)
            except ValueError:
                value, stop = None, begin
            is_other = word is not None or _type(value) in types - {"string"}
            if stop > begin and is_other and self.text.startswith(end, stop):
                return value, stop + len(end)
        close = self.text.index(end, at)
        raw, wrap = self.text[at:close], self.style["wrap"]
        if wrap:
            raw = raw.removeprefix(wrap).removesuffix(wrap)
        return raw, close + len(end)

    def _types(self, schema: Any, depth: int) -> set[str]:
        """The types of the values of a schema."""
        if not isinstance(schema, dict) or depth > 50:
            return set() if schema is False else set(_JSON_TYPES)
        types = set(_JSON_TYPES)
        named = schema.get("type", list(_JSON_TYPES))
        types &= {"number" if name == "integer" else name for name in ([named] if isinstance(named, str) else named)}
        if "const" in schema:
            types &= {_type(schema["const"])}
        if "enum" in schema:
            types &= {_type(value) for value in schema["enum"]}
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                types &= set().union(*(self._types(part, depth + 1) for part in schema[keyword]))
        for part in [*schema.get("allOf", []), *([self._target(schema)] if "$ref" in schema else [])]:
            types &= self._types(part, depth + 1)
        return types

    def _target(self, schema: Any) -> Any:
        """The schema that a reference leads to; any, where it is no pointer into the same document."""
        found, reference = self.root, schema["$ref"]
        if not reference.startswith("#"):
            return True
        for part in filter(None, reference[1:].split("/")):
            part = part.replace("~1", "/").replace("~0", "~")
            found = found[int(part)] if isinstance(found, list) else found.get(part, True) if isinstance(found, dict) else True
        return found

    def _inside(self, schema: Any, depth: int = 0) -> Iterator[Any]:
        """A schema and those that say something of the same value."""
        if isinstance(schema, dict) and depth < 50:
            yield schema
            parts = [part for keyword in ("anyOf", "oneOf", "allOf") for part in schema.get(keyword, [])]
            for part in [*parts, *([self._target(schema)] if "$ref" in schema else [])]:
                yield from self._inside(part, depth + 1)

    def _member(self, schema: Any, name: str) -> Any:
        found = [one["properties"][name] for one in self._inside(schema) if name in one.get("properties", {})]
        more = [one["additionalProperties"] for one in self._inside(schema) if "additionalProperties" in one]
        return {"anyOf": found or more} if found or more else True

    def _item(self, schema: Any, at: int) -> Any:
        found = []
        for one in self._inside(schema):
            places = one.get("prefixItems", [])
            found += [places[at]] if at < len(places) else [one["items"]] if "items" in one else []
        return {"anyOf": found} if found else True
