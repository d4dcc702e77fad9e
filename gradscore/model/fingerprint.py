"""A name for the content of a model's files, so that a resumed run can tell that the model is the same.

Files under 1 GB in all are hashed whole (about a second). Larger ones are hashed at their first and last
megabyte and at 64 places in between, together with their size: a retrained model changes everywhere, so
that finds it in under a second where the whole would take a minute; an edit of a few bytes may be missed.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

WHOLE_BYTES = 10**9
BLOCK_BYTES = 2**20
SAMPLED_BLOCKS = 64

WEIGHT_SUFFIXES = (".safetensors", ".bin", ".gguf")
TEXT_NAMES = (
    "config.json",
    "adapter_config.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def fingerprint_folder(folder: Path) -> str:
    """Return `sha256:…` over a model folder's configuration, tokenizer and weights; where it lies does not matter."""
    files = [f for f in folder.iterdir() if f.name in TEXT_NAMES or f.suffix in WEIGHT_SUFFIXES]
    return fingerprint_files(files)


def fingerprint_files(files: Iterable[Path]) -> str:
    """Return `sha256:…` over the names, sizes and content of some files, in whatever order they come."""
    ordered = sorted(files, key=lambda f: f.name)
    whole = sum(f.stat().st_size for f in ordered) <= WHOLE_BYTES
    digest = hashlib.sha256()
    for file in ordered:
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        for block in _blocks(file, size, whole or size <= SAMPLED_BLOCKS * BLOCK_BYTES):
            digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def _blocks(file: Path, size: int, whole: bool) -> Iterable[bytes]:
    with file.open("rb") as stream:
        if whole:
            while block := stream.read(BLOCK_BYTES):
                yield block
            return
        last = size - BLOCK_BYTES
        for place in range(SAMPLED_BLOCKS + 2):
            stream.seek(last * place // (SAMPLED_BLOCKS + 1))
            yield stream.read(BLOCK_BYTES)
