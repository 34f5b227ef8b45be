"""The reference of the site, which `site/reference.py` makes of the stubs, has every name of the package."""

import importlib.util
import inspect
import pathlib
import re

import pytest

import unskew

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("reference", ROOT / "site/reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages(ROOT / "crates/python/python/unskew")


def test_every_public_name_has_a_place(pages):
    page = pages["unskew"]
    assert len(unskew.__all__) > 30
    for name in unskew.__all__:
        assert page.count(f"\n## `{name}` {{#{name}}}\n") == 1, name
        value = getattr(unskew, name)
        if inspect.isclass(value):
            for member in vars(value):
                fields = getattr(value, "__dataclass_fields__", {})
                if not member.startswith("_") and member not in fields:
                    assert page.count(f"\n### `{member}` {{#{name}.{member}}}\n") == 1, f"{name}.{member}"


def test_links_lead_to_places(pages):
    places = {module: set(re.findall(r"\{#([\w.]+)\}", page)) for module, page in pages.items()}
    for module, page in pages.items():
        links = re.findall(r'\]\(([\w.]*)#([\w.]+)\)|href="([\w.]*)#([\w.]+)"', page)
        assert links, module
        for file, name, html_file, html_name in links:
            other = (file or html_file).removesuffix(".md").removesuffix(".html") or module
            assert (name or html_name) in places[other], (module, other, name or html_name)


def test_signatures_and_docstrings_are_those_of_the_stubs(pages):
    page = pages["unskew"]
    assert "Constraint.regex(pattern: str, *, dialect: str | None = None, canonical: bool = False)" in page
    assert "Draw.log_prob: float" in page and "The natural logarithm of the probability that the model itself gives the output" in page
    assert "sampler: str = 'auto'" in page
    assert "| [`unskew.vllm`](unskew.vllm.md) |" in page and "ServerError" in pages["unskew.vllm.client"]
