"""`unskew.audit`: the samplers beside each other, and the report."""

import math

import numpy as np
import pytest

import unskew

TOKENS = [b"0", b"1", "<end>"]


@pytest.fixture(scope="module")
def small():
    return unskew.Tokenizer.from_vocabulary(TOKENS, eos=[2])


def model(batch):
    """A model that begins with `0`, and then rarely goes on as the constraint demands."""
    rows = {0: [0.6, 0.3, 0.1], 1: [0.02, 0.03, 0.95]}
    return np.log(np.array([rows[0] if not ids or ids[-1] == 1 else rows[1] for ids in batch], np.float32))


def test_masking_is_far_and_cars_is_near(small, tmp_path):
    calls = []
    report = unskew.audit(
        model,
        unskew.Constraint.regex("[01][01]").with_end("model"),
        small,
        samplers=["masked", "cars", "smc:n=4"],
        n=2000,
        seed=1,
        progress=lambda sampler, outputs: calls.append((sampler, outputs)),
    )
    lines = {line["sampler"]: line for line in report.lines}
    assert list(lines) == ["masked", "cars", "smc"] and all(line["samples"] == 2000 for line in lines.values())
    # By hand: 00, 01, 10 and 11 have 0.0114, 0.0018, 0.171 and 0.009 of the model, and of masking 4/15, 6/15, 2/9 and 1/9.
    mass = [0.6 * 0.02 * 0.95, 0.6 * 0.03 * 0.1, 0.3 * 0.6 * 0.95, 0.3 * 0.3 * 0.1]
    masked = [2 / 3 * 0.4, 2 / 3 * 0.6, 1 / 3 * 2 / 3, 1 / 3 * 1 / 3]
    expected = sum(q * math.log(q / (p / sum(mass))) for p, q in zip(mass, masked))
    assert math.isclose(lines["masked"]["kl"], expected, rel_tol=0.1)
    assert lines["cars"]["kl"] < 0.01 < lines["masked"]["kl"] and lines["masked"]["tv_weighted"] < 0.1
    assert calls[0] == ("masked", 1) and calls[-1] == ("smc", 2000) and len(calls) == 6000
    assert report.html.startswith("<!doctype html>") and "cars" in report.html and report.seed == 1
    assert "srcdoc=" in report._repr_html_() and "<html" not in report._repr_html_()
    table = str(report).splitlines()
    assert len(table) == 4 and table[1].startswith("masked") and len({len(row) for row in table}) == 1
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    again = unskew.audit(model, unskew.Constraint.regex("[01][01]").with_end("model"), small, samplers=["masked", "cars", "smc:n=4"], n=2000, seed=1)
    assert again.lines == report.lines


def test_a_bar_and_a_prompt(small, capsys):
    report = unskew.audit(model, unskew.Constraint.choice(["1"]), small, n=3, prompt=[1, 0], progress=True)
    assert "cars: 3 of 3 outputs" in capsys.readouterr().err
    assert "after <code>10</code>" in report.html


def test_a_sampler_that_gives_up_is_a_finding(small):
    def never(batch):
        rows = np.full((len(batch), 3), -80.0, np.float32)
        rows[:, 0] = 0.0
        return rows

    report = unskew.audit(never, unskew.Constraint.regex("1"), small, samplers=["rejection:tries=20", "masked"], n=2, seed=1)
    assert "20 tries" in report.lines[0]["error"] and report.lines[0]["samples"] == 0
    assert "rejection stopped" in str(report)


def test_what_is_refused(small):
    con = unskew.Constraint.regex("[01]")
    for options, message in [
        ({"samplers": []}, "one sampler at least"),
        ({"n": 0}, "one output of each"),
        ({"samplers": ["auto"]}, "auto is the choice"),
        ({"samplers": ["fair"]}, "there is no sampler `fair`"),
        ({"batch": 0}, "`batch` is 0"),
    ]:
        with pytest.raises(unskew.OptionError, match=message):
            unskew.audit(model, con, small, **options)
    with pytest.raises(unskew.ConstraintError):
        unskew.audit(model, unskew.Constraint.regex("("), small)
    with pytest.raises(TypeError):
        unskew.audit(model, con, small, progress=3)

    class Own(Exception):
        pass

    def failing(batch):
        raise Own

    with pytest.raises(Own):
        unskew.audit(failing, con, small)
