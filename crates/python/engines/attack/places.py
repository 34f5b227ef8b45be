"""Files that no client may read, the ways to them, and how one tells that an answer holds a part of them."""

import json
import os
import pathlib
import random
import re
import string
from dataclasses import dataclass

#: So many characters of a secret in a row are no chance: secrets are letters and digits at random.
PIECE = 6

#: What the operating system says of a file: an answer with it tells a client which files there are.
TELLS = re.compile(r"No such file|Is a directory|Not a directory|Permission denied|os error \d|Errno", re.IGNORECASE)


@dataclass
class Places:
    """Where the files lie."""

    #: Outside of what is lent.
    folder: str
    #: Lent by UNSKEW_FILES.
    lent: str
    secrets: list
    escapes: list
    #: Pieces of the secrets.
    pieces: frozenset
    #: A variable of the server's environment with a secret, which /proc tells.
    environment: dict

    def leak(self, answer, request):
        """What an answer tells of a file, if it does. `request` may hold the same text by itself."""
        for piece in {answer[at : at + PIECE] for at in range(len(answer) - PIECE + 1)} & self.pieces:
            if piece not in request:
                return f"a part of a secret, {piece!r}"
        if "root:x:0" in answer and "root:x:0" not in request:
            return "/etc/passwd"
        found = TELLS.search(answer)
        return f"whether a file exists ({found.group()!r})" if found and found.group() not in request else None


def make(folder, seed):
    """Plants the files of an attack."""
    folder = pathlib.Path(folder).resolve()
    dice = random.Random(f"secrets {seed}")

    def secret():
        return "".join(dice.choices(string.ascii_uppercase + string.digits, k=24))

    out, lent = folder / "outside", folder / "lent"
    for each in (out, lent / "sub"):
        each.mkdir(parents=True, exist_ok=True)
    words = [secret() for _ in range(5)]
    (out / "secret.txt").write_text(f"{words[0]}\nKEY={words[1]}\n")
    (out / "secret.json").write_text(json.dumps({"const": words[2]}))
    (out / "secret.lark").write_text(f'A: "{words[3]}"\nstart: A\n')
    (out / "secret.bin").write_bytes(bytes(range(256)) * 10)
    if not (out / "pipe").exists():
        os.mkfifo(out / "pipe")
    (lent / "ok.txt").write_text("fine\n")
    (lent / "import.lark").write_text("%import .evil.A\nstart: A\n")
    for name, to in {"link.txt": out / "secret.txt", "dir": out, "evil.lark": out / "secret.lark", "etc": "/etc",
        "proc": "/proc/self"}.items():
        if not (lent / name).is_symlink():
            (lent / name).symlink_to(to)
    # A way that leads to the file from wherever the server runs.
    relative = os.path.relpath(out / "secret.txt")
    secrets = [
        str(out / "secret.txt"), str(out / "secret.json"), str(out / "secret.lark"), str(out / "secret.bin"), str(out / "pipe"),
        str(out / "none.txt"), str(out), relative,
        "/etc/passwd", "/etc/hostname", "/proc/self/environ", "/proc/self/cmdline", "/proc/self/maps", "/proc/self/fd/0",
        "/proc/1/environ", "/dev/zero", "/dev/urandom",
        "/dev/stdin", "/dev/tty", "/", "\0", "~/x", "file:///etc/passwd",
    ]
    escapes = [
        "../outside/secret.txt", "sub/../../outside/secret.txt", "link.txt", "dir/secret.txt", "dir/secret.json", "dir/pipe", "etc/passwd",
        "proc/environ", "evil.lark",
        "import.lark", f"{lent}/link.txt", f"{lent}/../outside/secret.txt", "./././link.txt", "dir/../secret.txt",
        "", "ok.txt\0", "ok.txt/../link.txt",
    ]
    pieces = frozenset(word[at : at + PIECE] for word in words for at in range(len(word) - PIECE + 1))
    return Places(str(out), str(lent), secrets, escapes, pieces, {"UNSKEW_ATTACK_PLANT": words[4]})
