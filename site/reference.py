"""The reference of the Python package, in Markdown: `python site/reference.py PACKAGE OUT` writes a page for each public module.

It reads the stubs and sources with `ast` and imports nothing, so that it needs neither the wheel nor an engine. What a module has is what its
`__all__` names; each name is followed through imports to its class, function or constant. Tools for this (pdoc, griffe) import the package or
do not follow names into a stub of another module.
"""

from __future__ import annotations

import ast
import html
import pathlib
import re
import sys

#: The public modules, by what each is for.
MODULES = {
    "unskew": "constraints, masks, models and samplers",
    "unskew.transformers": "in `generate` of transformers",
    "unskew.vllm": "the plug-in of vLLM",
    "unskew.vllm.client": "a client of a vLLM server",
    "unskew.sglang": "the plug-in of SGLang, and a client",
}

#: The most columns of a signature on one line.
COLUMNS = 100


class Source:
    """A file of the package: what its top level defines, and what it imports from others of the package."""

    def __init__(self, package, name):
        self.package, self.name = package, name
        self.path = package.path(name)
        self.tree = ast.parse(self.path.read_text(encoding="utf-8"))
        self.defined, self.imported, self.comments = {}, {}, {}
        for node in statements(self.tree.body):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                self.defined.setdefault(node.name, []).append(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self.defined[target.id] = [node]
            elif isinstance(node, ast.ImportFrom) and node.level:
                base = name.split(".")[: len(name.split(".")) - node.level + self.is_package()]
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (".".join([*base, *filter(None, [node.module])]), alias.name)

    def is_package(self):
        return self.path.name == "__init__.py"

    def exported(self):
        for node in self.defined.get("__all__", []):
            return [element.value for element in node.value.elts]
        return []

    def comment(self, node):
        """The comment that begins with `#:` above a constant."""
        lines, found = self.path.read_text(encoding="utf-8").splitlines(), []
        for line in reversed(lines[: node.lineno - 1]):
            if not line.startswith("#:"):
                break
            found.insert(0, line[2:].strip())
        return " ".join(found)


class Package:
    def __init__(self, root):
        self.root, self.sources = pathlib.Path(root), {}

    def path(self, name):
        base = self.root.joinpath(*name.split(".")[1:])
        for path in (base.with_suffix(".pyi"), base.with_suffix(".py"), base / "__init__.py"):
            if name != "unskew" and path.is_file() or path.name == "__init__.py" and path.is_file():
                return path
        raise FileNotFoundError(f"{name} is no module of {self.root}")

    def source(self, name):
        if name not in self.sources:
            self.sources[name] = Source(self, name)
        return self.sources[name]

    def find(self, module, name):
        """The source and the nodes that define a name."""
        source = self.source(module)
        if name in source.defined:
            return source, source.defined[name]
        if name in source.imported:
            return self.find(*source.imported[name])
        raise LookupError(f"{module}.{name} is defined nowhere")


def statements(body):
    """The statements of a module, those for checkers of types among them."""
    for node in body:
        if isinstance(node, ast.If):
            yield from statements(node.body)
        else:
            yield node


def is_public(name):
    return not name.startswith("_") or name in ("__init__", "__or__", "__add__", "__call__")


def has(node, decorator):
    return any(ast.unparse(each).split("(")[0] == decorator for each in node.decorator_list)


class Writer:
    """The pages, with the places of all names for links between them."""

    def __init__(self, package):
        self.package = package
        self.places = {}
        exported = package.source("unskew").exported()
        stubs = package.source("unskew._unskew").defined
        self.shapes = [name for name in stubs if is_public(name) and name not in exported]
        for module in MODULES:
            for name in package.source(module).exported():
                self.places.setdefault(name, (module, name))
                source, nodes = package.find(module, name)
                if isinstance(nodes[0], ast.ClassDef):
                    for member in nodes[0].body:
                        if isinstance(member, ast.FunctionDef) and is_public(member.name):
                            self.places.setdefault(f"{name}.{member.name}", (module, f"{name}.{member.name}"))

        for name in self.shapes:
            self.places.setdefault(name, ("unskew", name))

    def link(self, name, module):
        """The address of a name, as a page of `module` has it; None where no page has it."""
        name = name.removeprefix("unskew.") if name not in MODULES else name
        if name in MODULES:
            return f"{name}.md"
        here = (module, name) if name.split(".")[0] in self.package.source(module).exported() else None
        place = here if here and (name in self.places) else self.places.get(name)
        return place and f"{'' if place[0] == module else place[0] + '.md'}#{place[1]}"

    def prose(self, text, module):
        """A docstring, in which names in code are links."""

        def linked(match):
            address = self.link(match[1].split("(")[0], module)
            return f"[`{match[1]}`]({address})" if address else match[0]

        parts = re.split(r"(```.*?```)", text or "", flags=re.DOTALL)
        for index in range(0, len(parts), 2):
            parts[index] = re.sub(r"(?<![`\[])`([A-Za-z_][\w.]*(?:\([^`]*\))?)`(?!`)", linked, parts[index])
        return "".join(parts).strip()

    def code(self, text, module, own=""):
        """A signature, in which types are links."""

        def linked(match):
            address = None if match[0] == own else self.link(match[0], module)
            # mdBook turns addresses of pages in Markdown alone.
            return f'<a href="{address.replace(".md", ".html")}">{match[0]}</a>' if address else match[0]

        pieces = re.split(r"('[^']*'|\"[^\"]*\")", text)
        shown = [html.escape(piece, quote=False) if index % 2 else re.sub(r"(?<![\w.])[A-Z]\w+", linked, html.escape(piece, quote=False)) for index, piece in enumerate(pieces)]
        return f'<pre class="signature"><code>{"".join(shown)}</code></pre>'

    def signature(self, node, name, owner=None):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args]
        if owner and not has(node, "staticmethod"):
            every = every[1:]
        parts = []
        defaults = [None] * (len(every) - len(arguments.defaults)) + list(arguments.defaults)
        for argument, default in zip(every, defaults[-len(every) :] if every else []):
            parts.append(parameter(argument, default))
        if arguments.vararg:
            parts.append("*" + parameter(arguments.vararg, None))
        elif arguments.kwonlyargs:
            parts.append("*")
        parts += [parameter(argument, default) for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
        if arguments.kwarg:
            parts.append("**" + parameter(arguments.kwarg, None))
        back = f" -> {ast.unparse(node.returns)}" if node.returns and name != owner else ""
        head = ("async " if isinstance(node, ast.AsyncFunctionDef) else "") + name
        line = f"{head}({', '.join(parts)}){back}"
        return line if len(line) <= COLUMNS else f"{head}(\n" + "".join(f"    {part},\n" for part in parts) + f"){back}"

    def function(self, node, name, module, level, owner=None):
        shown = f"{owner}.{name}" if owner else name
        lines = [f"{'#' * level} `{name}` {{#{shown}}}", ""]
        if owner and has(node, "property"):
            lines.append(self.code(f"{shown}: {ast.unparse(node.returns)}", module, owner))
        else:
            lines.append(self.code(self.signature(node, shown, owner), module, owner or name))
        return [*lines, "", self.prose(ast.get_docstring(node), module), ""]

    def type(self, node, module):
        name = node.name
        bases = [ast.unparse(base) for base in node.bases]
        lines = [f"## `{name}` {{#{name}}}", "", self.code(f"class {name}" + (f"({', '.join(bases)})" if bases else ""), module, name), ""]
        lines += [self.prose(ast.get_docstring(node), module), ""]
        fields = [member for member in node.body if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name)]
        fields = [member for member in fields if is_public(member.target.id)]
        if fields:
            lines += [self.code("\n".join(ast.unparse(member) for member in fields), module), ""]
        seen = set()
        for member in node.body:
            if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) or not is_public(member.name):
                continue
            if has(member, "overload") and member.name in seen and not ast.get_docstring(member):
                continue
            if member.name == "__init__":
                lines += [self.code(self.signature(member, name, name), module, name), "", self.prose(ast.get_docstring(member), module), ""]
                continue
            written = self.function(member, member.name, module, 3, name)
            if member.name in seen:
                # Another overload: no heading of its own.
                written = written[2:]
            seen.add(member.name)
            lines += written
        return lines

    def constant(self, origin, node, name, module):
        return [f"## `{name}` {{#{name}}}", "", self.code(ast.unparse(node), module, name), "", self.prose(origin.comment(node), module), ""]

    def page(self, module):
        source = self.package.source(module)
        lines = [f"# {module}", "", self.prose(ast.get_docstring(source.tree), module), ""]
        if module == "unskew":
            lines += ["| module | for |", "|---|---|"]
            lines += [f"| [`{name}`]({name}.md) | {use} |" for name, use in MODULES.items() if name != module]
            lines.append("")
        names = source.exported()
        lines += [", ".join(f"[`{name}`](#{name})" for name in names), ""]
        for name in names:
            origin, nodes = self.package.find(module, name)
            for index, node in enumerate(nodes):
                if isinstance(node, ast.ClassDef):
                    lines += self.type(node, module)
                elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    lines += self.function(node, name, module, 2)[0 if index == 0 else 2 :]
                else:
                    lines += self.constant(origin, node, name, module)
        if module == "unskew":
            lines += ["## Shapes of arguments and answers", "", "Names of the stubs alone, which no module has when a program runs.", ""]
            for name in self.shapes:
                origin, (node, *_) = self.package.find("unskew._unskew", name)
                lines += self.type(node, module) if isinstance(node, ast.ClassDef) else self.constant(origin, node, name, module)
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def parameter(argument, default):
    text = argument.arg
    if argument.annotation:
        text += f": {ast.unparse(argument.annotation)}"
    if default is not None:
        text += f"{' = ' if argument.annotation else '='}{ast.unparse(default)}"
    return text


def pages(root):
    """The pages by the names of their modules."""
    writer = Writer(Package(root))
    return {module: writer.page(module) for module in MODULES}


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages(sys.argv[1]).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
