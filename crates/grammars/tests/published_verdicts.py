"""Verdicts of other programs on texts, and on texts with one change: published_verdicts.py SUITE GRAMMAR FOLDER COUNT TEXT...

It writes FOLDER/SUITE.json (the grammar, and how it is read) and FOLDER/SUITE.jsonl (texts with verdicts), which
tests/integration/notations/published.rs reads. A text has two verdicts:

program   that of the program for which the grammar was written, or of one that reads the language
language  whether the text is in the language of the grammar: by lark's Earley parser without a scanner, over a
          translation of the grammar where it is no Lark. It is null where that takes too long.

Packages: lark, regex, and for single suites pyoxigraph, abnf.
"""

import json
import os
import random
import re
import signal
import sys

import lark

WORDS = re.compile(r"\s+|\w+|[^\w\s]")
# The texts between two terminals in Turtle and SPARQL, and case, as the specifications say in words.
PASS = "@pass WS | '#' [^#xA#xD]*\n"
CASES = {"turtle": "@caseless - 'a' - 'true' - 'false' - '@prefix' - '@base' - '@version'\n", "sparql": "@caseless - 'a'\n"}


class W3c:
    """A grammar of the W3C as a grammar of Lark, for lark's Earley parser. It knows the constructs of two files."""

    TOKEN = re.compile(
        r"""\s+|/\*.*?\*/|(?P<rule>[A-Za-z_0-9]+)\s*::=|(?P<name>[A-Za-z_0-9]+)|(?P<text>'[^']*'|"[^"]*")"""
        r"""|(?P<set>\[(?:[^\]])*\])|(?P<char>\#x[0-9A-F]+)|(?P<op>[()|*+?-])|(?P<mark>@terminals)""",
        re.S,
    )

    def __init__(self, text, suite):
        self.exact = {"turtle": ["a", "true", "false", "@prefix", "@base", "@version"], "sparql": ["a"]}[suite]
        self.rules, self.terminals, self.first = {}, {}, None
        target, name, at = self.rules, None, 0
        while at < len(text):
            match = self.TOKEN.match(text, at)
            assert match, text[at : at + 40]
            at, kind = match.end(), match.lastgroup
            if kind == "mark":
                target = self.terminals
            elif kind == "rule":
                name = match["rule"]
                self.first = self.first or name
                target[name] = []
            elif kind:
                target[name].append((kind, match[kind]))

    @staticmethod
    def char(code):
        # Lark itself reads the escapes of characters.
        if code < 0x20:
            return f"\\x{code:02x}"
        return chr(code) if chr(code).isalnum() or code > 0x7F else "\\" + chr(code)

    def set(self, text):
        body, out = text[1:-1], "["
        if body.startswith("^"):
            body, out = body[1:], "[^"
        items = re.findall(r"#x[0-9A-F]+|.", body, re.S)
        code = lambda item: int(item[2:], 16) if len(item) > 1 else ord(item)
        at = 0
        while at < len(items):
            if at + 2 < len(items) and items[at + 1] == "-":
                out += self.char(code(items[at])) + "-" + self.char(code(items[at + 2]))
                at += 3
            else:
                out += self.char(code(items[at]))
                at += 1
        return out + "]"

    def regex(self, name):
        out, tokens, at = "", self.terminals[name], 0
        while at < len(tokens):
            kind, text = tokens[at]
            if kind == "name":
                out += "(?:" + self.regex(text) + ")"
            elif kind == "text":
                out += "(?:" + "".join(self.char(ord(char)) for char in text[1:-1]) + ")"
            elif kind == "char":
                out += self.char(int(text[2:], 16))
            elif kind == "set":
                if tokens[at + 1 : at + 2] == [("op", "-")]:
                    out += "(?!" + self.set(tokens[at + 2][1]) + ")"
                    at += 2
                out += self.set(text)
            else:
                out += "(?:" if text == "(" else text
            at += 1
        return out

    def lark(self):
        lower = lambda name: "r_" + re.sub("[A-Z]", lambda match: "_" + match[0].lower(), name)
        lines = []
        for name, tokens in self.rules.items():
            body = []
            for kind, text in tokens:
                if kind == "name":
                    body.append(text if text in self.terminals else lower(text))
                elif kind == "text":
                    body.append(json.dumps(text[1:-1]) + ("" if text[1:-1] in self.exact else "i"))
                else:
                    body.append(text)
            lines.append(f"{lower(name)}: {' '.join(body)}")
        used = {text for tokens in self.rules.values() for kind, text in tokens if kind == "name"}
        lines += [f"{name}: /{self.regex(name)}/" for name in self.terminals if name in used]
        lines += ["BETWEEN: /[ \\t\\r\\n]|#[^\\r\\n]*/", "%ignore BETWEEN"]
        return "\n".join(line.replace("/?/", "") for line in lines), lower(self.first)


def accepts(parse):
    def verdict(text):
        try:
            parse(text)
        except RecursionError:
            return None
        except Exception:  # Each program has errors of its own.
            return False
        return True

    return verdict


def within(seconds, verdict):
    """The verdict, or None if it takes longer."""

    def raised(*_):
        raise KeyboardInterrupt

    def bounded(text):
        signal.signal(signal.SIGALRM, raised)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return verdict(text)
        except KeyboardInterrupt:
            return None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    return bounded


def of_lark(text, start, **options):
    """The two verdicts for a grammar of Lark: its own program is lark with these options."""
    program = lark.Lark(text, start=start, parser="lalr", **options)
    options.pop("postlex", None)
    language = lark.Lark(text, start=start, parser="earley", lexer="dynamic_complete")
    return accepts(program.parse), accepts(language.parse)


def without_documents(text):
    """HCL2 without here-documents, whose border refers back."""
    return "\n".join(line for line in text.split("\n") if not re.match(r"\s*\|?\s*heredoc_template|HEREDOC", line))


def of_w3c(text, suite, program):
    translated, start = W3c(text, suite).lark()
    language = lark.Lark(translated, start=start, parser="earley", lexer="dynamic_complete", regex=True)
    return accepts(program), accepts(language.parse)


def turtle(text):
    import pyoxigraph

    # Relative addresses need a base, which a document may leave to its place.
    parse = lambda text: list(pyoxigraph.parse(text.encode(), pyoxigraph.RdfFormat.TURTLE, base_iri="http://a/"))
    return of_w3c(text, "turtle", parse)


def sparql(text):
    import pyoxigraph

    store = pyoxigraph.Store()
    return of_w3c(text, "sparql", lambda text: store.query(text, base_iri="http://a/"))


def uri(text):
    """The RFC's rules as an expression of Python, which is possible since they are not recursive."""
    from abnf.grammars import rfc3986

    parts = re.compile(
        r"""(?P<rule>[A-Za-z][\w-]*)\s*=|;[^\n]*|\s+|(?P<times>\d*\*\d*|\d+)|(?P<name>[A-Za-z][\w-]*)|"(?P<text>[^"]*)\""""
        r"""|%x(?P<low>[0-9A-F]+)-(?P<high>[0-9A-F]+)|(?P<op>[()\[\]/<>])"""
    )
    rules = {"ALPHA": [("set", "[A-Za-z]")], "DIGIT": [("set", "[0-9]")], "HEXDIG": [("set", "[0-9A-Fa-f]")]}

    def expression(name):
        out, times, open_times = "", "", []
        for kind, part in rules[name]:
            if kind == "times":
                least, star, most = part.partition("*")
                times = "{%s,%s}" % (least or 0, most if star else least)
            elif part in ("(", "[") and kind == "op":
                open_times.append(times)
                out, times = out + "(?:", ""
            elif kind == "op":
                out += {"/": "|", ")": ")", "]": ")?"}[part] + (open_times.pop() if part != "/" else "")
            else:
                out += "(?:" + (expression(part) if kind == "name" else part) + ")" + times
                times = ""
        return out

    name, at = None, 0
    while at < len(text):
        match = parts.match(text, at)
        at = match.end()
        if match["rule"]:
            name = match["rule"]
            rules[name] = []
        elif match["text"] is not None:
            rules[name].append(("set", "(?i:" + re.escape(match["text"]) + ")"))
        elif match["low"]:
            rules[name].append(("set", f"[\\x{match['low']}-\\x{match['high']}]"))
        elif match.lastgroup and match[0] not in "<>":
            rules[name].append((match.lastgroup, match[0]))
    language = re.compile(expression("URI-reference"))

    def parse(text):
        assert language.fullmatch(text)

    return accepts(rfc3986.Rule("URI-reference").parse_all), accepts(parse)


def python(text):
    from lark.indenter import PythonIndenter

    program = lark.Lark(text, start="file_input", parser="lalr", postlex=PythonIndenter())
    return accepts(program.parse), lambda _: None


SUITES = {
    "graphql": lambda text: (*of_lark(text, "document", lexer="contextual"), {"start": "document"}),
    "sql": lambda text: (*of_lark(text, "start"), {}),
    "verilog": lambda text: (*of_lark(text, "start"), {}),
    "hcl2": lambda text: (*of_lark(text, "start"), {}),
    "turtle": lambda text: (*turtle(text), {"added": PASS + CASES["turtle"]}),
    "sparql": lambda text: (*sparql(text), {"added": PASS + CASES["sparql"]}),
    "python": lambda text: (*python(text), {"start": "file_input"}),
    "uri": lambda text: (*uri(text), {"start": "URI-reference"}),
}


def texts(places):
    """The texts of files, or of the lines of files whose names end in .txt."""
    for place in places:
        for folder, inner, names in os.walk(place) if os.path.isdir(place) else [("", [], [place])]:
            inner.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    text = open(path, encoding="utf-8", newline="").read()
                except UnicodeDecodeError:
                    continue
                if name.endswith(".txt"):
                    yield from ((f"{name}:{number}", line) for number, line in enumerate(text.split("\n")))
                else:
                    yield path[-60:], text


def changed(text, other):
    """The text with one change of a character or a word, or with a word of another text."""
    parts = WORDS.findall(text) if random.random() < 0.6 else list(text)
    if not parts:
        return text
    at, kind = random.randrange(len(parts)), random.choice(["delete", "copy", "swap", "replace", "insert", "cut"])
    if kind == "cut":
        return "".join(parts[:at])
    if kind == "delete":
        del parts[at]
    elif kind == "copy":
        parts.insert(at, random.choice(parts))
    elif kind == "swap":
        with_which = random.randrange(len(parts))
        parts[at], parts[with_which] = parts[with_which], parts[at]
    else:
        parts[at : at + (kind == "replace")] = [random.choice(WORDS.findall(other) or [" "])]
    return "".join(parts)


def main(suite, grammar, folder, count, *places):
    text = open(grammar, encoding="utf-8").read()
    if suite == "hcl2":
        text = without_documents(text)
    program, language, options = SUITES[suite](text)
    language = within(2, language)
    random.seed(7)
    written, short = set(), []
    with open(os.path.join(folder, suite + ".jsonl"), "w", encoding="utf-8") as out:

        def write(name, text):
            if text in written:
                return False
            written.add(text)
            verdicts = {"program": program(text), "language": language(text) if len(text) < 4000 else None}
            out.write(json.dumps({"name": name, "text": text, **verdicts}) + "\n")
            return verdicts["program"]

        for name, one in texts(places):
            if write(name, one) and len(one) < 1500:
                short.append((name, one))
        for number in range(int(count)):
            (name, one), (_, other) = random.choice(short), random.choice(short)
            write(f"{name} changed {number}", changed(one, other))
    with open(os.path.join(folder, suite + ".json"), "w", encoding="utf-8") as out:
        json.dump({"grammar": text, "extension": os.path.splitext(grammar)[1][1:], **options}, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
