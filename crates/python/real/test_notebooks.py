"""The notebooks of docs/notebooks: what is stored is one whole run, and another run on SmolLM2 finds the same within the noise of its draws.

`UNSKEW_REAL` is the folder with the models (`models.py` makes them). A notebook needs pydantic, pandas and matplotlib beside the wheel, and no torch.
"""

import os
import pathlib
import re

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = pathlib.Path(__file__).parents[3] / "docs/notebooks"
MODEL = pathlib.Path(os.environ["UNSKEW_REAL"]) / "smollm2.gguf"

#: What holds at the end of a run, in the notebook's own names. The seeds are fixed; bounds leave room for other processors' rounding, which may
#: change draws: some four standard errors.
CHECKS = {
    "extraction-with-types": """
        assert {draw.value.age for draw in persons if draw.prompt == 1} == {44}
        best = answers.groupby("text", sort=False).first()
        assert best["share"].min() > 0.4 and set(best["age"]) == {29, 44, 63}
        assert isinstance(jobs[0].value, Job) and 0.6 < sum(draw.value is Job.NURSE for draw in jobs) / len(jobs) < 0.9
    """,
    "is-my-model-skewed": """
        model_share, masked, cars = (table[name] for name in ["the model", "masked", "cars"])
        assert model_share.idxmax() == cars.idxmax() == "joy" and masked.idxmax() == "love"
        assert (model_share - cars).abs().max() < 0.05 and abs(model_share["joy"] - 0.528) < 0.03
        lines = {line["sampler"]: line for line in report.lines}
        assert lines["masked"]["tv_text"] > 0.15 and lines["masked"]["tv_weighted"] < 0.05
        assert lines["cars"]["kl_text"] < 4 * lines["cars"]["kl_text_noise"]
        last = noise.loc[3200]
        assert last["KL", "masked"] > 50 * last["noise", "masked"] and last["KL", "cars"] < 4 * last["noise", "cars"]
    """,
    "rollouts": """
        average = estimates["average reward"]
        assert abs(average["masked, with weights"] - average["exact"]) < 0.15
        assert average["exact"] - average["masked, without weights"] > 0.04
        assert abs(masked_draws.log_mass - exact_draws.log_mass) < 0.3 and set(exact["log_weight"]) == {0.0}
        assert (top["share"] - top["p / P(constraint)"]).abs().max() < 0.06
    """,
    "tools": """
        (call,) = required.calls_of(called("add", a=17, b=25))
        assert call() == 42 and call.function is add
        assert sum(right) / len(right) > 0.8
    """,
}


def notebook(name):
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def test_every_notebook_has_its_checks():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_what_is_stored_is_one_whole_run_of_no_one_machine(name):
    cells = [cell for cell in notebook(name).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(output.output_type != "error" for cell in cells for output in cell.outputs)
    assert all(output.get("name") != "stderr" for cell in cells for output in cell.outputs)
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert set(notebook(name).metadata) == {"kernelspec", "language_info"} and notebook(name).metadata.kernelspec.name == "python3"
    assert not re.search(r'[" (]/(work|root|home|Users|tmp)/', text)


@pytest.mark.parametrize("name", CHECKS)
def test_a_run_finds_what_is_stored(name, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSKEW_MODEL", str(MODEL))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    book = notebook(name)
    checks = "\n".join(line.strip() for line in CHECKS[name].strip().splitlines())
    book.cells.append(nbformat.v4.new_code_cell(checks))
    # A cell that raises ends the run with its traceback.
    NotebookClient(book, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
