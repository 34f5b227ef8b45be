"""Makes blocks.json: blocks of every type that the runner reads, and their values by the package gguf (0.19).

    python make.py blocks.json

The bits of a block are random, and its scales are small numbers.
"""

import json
import random
import struct
import sys

import gguf
import numpy as np

# The places of the numbers of 16 bits in a block.
SCALES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
}


def main(path):
    draw = random.Random(7)
    made = {}
    for name, places in SCALES.items():
        kind = gguf.constants.GGMLQuantizationType[name]
        _, size = gguf.constants.GGML_QUANT_SIZES[kind]
        blocks = bytearray()
        for _ in range(2):
            block = bytearray(draw.randbytes(size))
            for place in places:
                block[place : place + 2] = struct.pack("<e", draw.uniform(-0.02, 0.02))
            blocks += block
        raw = np.frombuffer(bytes(blocks), dtype=np.uint8).reshape(1, -1)
        values = gguf.quants.dequantize(raw, kind).astype("<f4")
        made[name] = {"kind": int(kind), "blocks": bytes(blocks).hex(), "values": values.tobytes().hex()}
    with open(path, "w") as file:
        json.dump(made, file, indent=0)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
