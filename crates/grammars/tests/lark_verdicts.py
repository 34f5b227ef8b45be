"""Verdicts of lark on the files of this Python's standard library, and on files with one change: lark_verdicts.py FOLDER [COUNT]

It needs the packages lark and regex. tests/integration/notations/lark_files.rs reads what it writes.
"""

import json
import os
import random
import shutil
import sys

import lark
from lark.indenter import PythonIndenter

PARSER = lark.Lark.open_from_package(
    "lark", "python.lark", ["grammars"], parser="lalr", postlex=PythonIndenter(), start="file_input"
)
KINDS = ["indent", "dedent", "line", "swap", "copy", "cut", "join", "bracket", "delete", "insert"]


def is_accepted(text):
    try:
        PARSER.parse(text)
    except Exception:  # The indenter has errors of its own.
        return False
    return True


def files():
    root = os.path.dirname(os.__file__)
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(set(inner) - {"site-packages", "__pycache__", "test", "tests", "idle_test"})
        for name in sorted(name for name in names if name.endswith(".py")):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding="utf-8", newline="") as file:
                    yield path[len(root) :], file.read() + "\n"
            except UnicodeDecodeError:
                pass


def changed(text, kind):
    lines = text.split("\n")
    at = random.randrange(len(lines))
    if kind == "indent":
        lines[at] = " " * random.randint(1, 4) + lines[at]
    elif kind == "dedent":
        lines[at] = lines[at][random.randint(1, 4) :] if lines[at].startswith(" ") else lines[at]
    elif kind == "line":
        del lines[at]
    elif kind == "swap":
        other = random.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == "copy":
        lines.insert(at, random.choice(lines))
    elif kind == "cut":
        return text[: random.randrange(len(text))]
    else:
        wanted = {"join": " ", "bracket": "()[]{}:'\""}.get(kind)
        places = [place for place, char in enumerate(text) if wanted is None or char in wanted]
        place = random.choice(places or [0])
        more = random.choice("()[]{}:,;=+-*/.'\"# \n\tif1x\\") if kind == "insert" else ""
        return text[:place] + more + text[place + (kind != "insert") :]
    return "\n".join(lines)


def main(folder, count=2000):
    os.makedirs(folder, exist_ok=True)
    grammar = os.path.join(os.path.dirname(lark.__file__), "grammars", "python.lark")
    shutil.copy(grammar, os.path.join(folder, "python.lark"))
    short = []
    with open(os.path.join(folder, "files.jsonl"), "w", encoding="utf-8") as out:
        for name, text in files():
            accepted = is_accepted(text)
            out.write(json.dumps({"name": name, "text": text, "accepted": accepted}) + "\n")
            if accepted and 200 < len(text) < 6000:
                short.append((name, text))
    random.seed(7)
    with open(os.path.join(folder, "changed.jsonl"), "w", encoding="utf-8") as out:
        while count:
            name, text = random.choice(short)
            kind = random.choice(KINDS)
            new = changed(text, kind)
            if new != text:
                out.write(json.dumps({"name": f"{name} {kind} {count}", "text": new, "accepted": is_accepted(new)}) + "\n")
                count -= 1


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
