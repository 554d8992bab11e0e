"""A vector for each prompt, so that similar prompts have close vectors.

Rows have length 1, so distances lie in [0, 2] whatever the model. A row that cannot be scaled,
equal to the mean of all, stays zero.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlvr_platform.config.allocator import (
    EmbeddingConfig,
    NgramEmbedding,
    PolicyEmbedding,
    SentenceTransformerEmbedding,
)
from rlvr_platform.errors import InputError
from rlvr_platform.types import Prompt

if TYPE_CHECKING:
    import torch

INPUT_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte)\.weight$")
INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
BLOCK_ROWS = 8192
"""Rows of an embedding matrix that are in memory at once."""
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


def embed(
    config: EmbeddingConfig, prompts: Sequence[Prompt], model_folder: Path | str
) -> np.ndarray:
    """float32 [Q, D], a row of length 1 for each prompt.

    `model_folder` is the policy's folder or hub name, read for kind policy only.
    Raises InputError when a model cannot be read.
    """
    match config:
        case PolicyEmbedding():
            return _unit(_centred(policy_means(prompts, model_folder)))
        case NgramEmbedding():
            return _unit(_centred(ngram_counts(config, [p.text for p in prompts])))
        case SentenceTransformerEmbedding():
            return _unit(sentence_means(config, [p.text for p in prompts]))


def policy_means(prompts: Sequence[Prompt], model: Path | str) -> np.ndarray:
    """float64 [Q, D]: mean row of the model's input embedding matrix over each prompt's tokens.

    Only the rows of tokens that occur are kept; the model itself is not loaded.
    """
    import torch

    tokens = np.concatenate([p.tokens for p in prompts]).astype(np.int64)
    used, place = np.unique(tokens, return_inverse=True)
    rows = _embedding_rows(model, used)
    starts = np.cumsum([0, *(len(p.tokens) for p in prompts[:-1])])
    means = torch.nn.functional.embedding_bag(
        torch.from_numpy(place), rows, torch.from_numpy(starts), mode="mean"
    )
    return means.double().numpy()


def ngram_counts(config: NgramEmbedding, texts: Sequence[str]) -> np.ndarray:
    """float64 [Q, dimension]: counts of character n-grams, hashed with a sign each.

    The sign keeps inner products unbiased under collisions (Weinberger et al., 2009). A text
    shorter than n is one gram.
    """

    @cache
    def bucket(gram: str) -> tuple[int, float]:
        key = f"{config.seed} {gram}".encode(errors="surrogatepass")
        value = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")
        return (value >> 1) % config.dimension, 1.0 if value & 1 else -1.0

    counts = np.zeros((len(texts), config.dimension))
    for row, text in zip(counts, texts, strict=True):
        for start in range(max(1, len(text) - config.n + 1)):
            place, sign = bucket(text[start : start + config.n])
            row[place] += sign
    return counts


def sentence_means(config: SentenceTransformerEmbedding, texts: Sequence[str]) -> np.ndarray:
    """float64 [Q, D]: mean of the encoder's last states over each text's tokens."""
    import torch

    tokenizer, encoder = _load_encoder(config.path)
    # Alike lengths together waste little padding.
    order = np.argsort([len(text) for text in texts], kind="stable")
    means: list[Any] = [None] * len(texts)
    with torch.inference_mode():
        for start in range(0, len(order), config.batch_size):
            chosen = order[start : start + config.batch_size]
            batch = tokenizer(
                [texts[i] for i in chosen],
                padding=True,
                truncation=True,
                max_length=config.max_tokens,
                return_tensors="pt",
            )
            mask = batch["attention_mask"][..., None].float()
            states = encoder(**batch).last_hidden_state.float()
            pooled = (states * mask).sum(1) / mask.sum(1).clamp_min(1)
            for i, row in zip(chosen, pooled.double().numpy(), strict=True):
                means[i] = row
    return np.stack(means)


def _load_encoder(path: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = Path(path).expanduser()
    local = folder.is_dir()
    if not local and (folder.exists() or not _HUB_NAME.fullmatch(path)):
        raise _no_encoder(path, "it is no folder")
    name = str(folder) if local else path
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name, local_files_only=local, trust_remote_code=False
        )
        encoder = AutoModel.from_pretrained(
            name,
            local_files_only=local,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise _no_encoder(path, str(error).splitlines()[0]) from error
    return tokenizer, encoder.eval()


def _no_encoder(path: str, why: str) -> InputError:
    return InputError(
        f"cannot load the sentence encoder {path}: {why}",
        "a folder with config, weights and tokenizer, or a hub name that can be reached",
        "correct allocator.embedding.path, or set allocator.embedding.kind=policy",
    )


def _embedding_rows(model: Path | str, tokens: np.ndarray) -> torch.Tensor:
    """float32 [len(tokens), D]: those rows of the input embedding matrix; tokens ascending."""
    import torch
    from safetensors import SafetensorError, safe_open

    file, name = _find_embedding(model)
    try:
        with safe_open(file, framework="pt") as weights:
            matrix = weights.get_slice(name)
            vocabulary = matrix.get_shape()[0]
            if tokens[-1] >= vocabulary:
                raise InputError(
                    f"token {tokens[-1]} in a prompt, {vocabulary} rows in {name} of {file}",
                    "a tokenizer and weights of the same model",
                )
            return torch.cat(list(_blocks(matrix, vocabulary, tokens)))
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read {file}: {error}", "a complete safetensors file") from error


def _blocks(matrix: Any, vocabulary: int, tokens: np.ndarray) -> Any:
    for start in range(0, vocabulary, BLOCK_ROWS):
        low, high = np.searchsorted(tokens, [start, start + BLOCK_ROWS])
        if high > low:
            block = matrix[start : min(start + BLOCK_ROWS, vocabulary)]
            yield block[tokens[low:high] - start].float()


def _find_embedding(model: Path | str) -> tuple[Path, str]:
    """The safetensors file with the input embedding matrix, and the matrix's name in it."""
    from safetensors import SafetensorError, safe_open

    fetch = _folder_file if Path(model).is_dir() else _hub_file
    try:
        index = fetch(str(model), INDEX)
        if index is not None:
            where = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        else:
            single = fetch(str(model), SINGLE)
            if single is None:
                raise _no_embedding(model, f"it has neither {INDEX} nor {SINGLE}")
            with safe_open(single, framework="pt") as weights:
                where = dict.fromkeys(weights.keys(), SINGLE)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise _no_embedding(model, str(error)) from error
    names = sorted(name for name in where if INPUT_EMBEDDING.search(name))
    if len(names) != 1:
        raise _no_embedding(model, f"{len(names)} tensors are called *embed_tokens or *wte")
    file = fetch(str(model), where[names[0]])
    if file is None:
        raise _no_embedding(model, f"{where[names[0]]} is missing")
    return file, names[0]


def _folder_file(folder: str, name: str) -> Path | None:
    file = Path(folder, name)
    return file if file.is_file() else None


def _hub_file(repository: str, name: str) -> Path | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(repository, name))
    except LocalEntryNotFoundError:
        raise
    except EntryNotFoundError:
        return None


def _no_embedding(model: Path | str, why: str) -> InputError:
    return InputError(
        f"cannot take prompt embeddings from the model {model}: {why}",
        "safetensors weights with one input embedding matrix",
        "set allocator.embedding.kind=ngrams, which needs no model",
    )


def _centred(rows: np.ndarray) -> np.ndarray:
    """Without what all prompts share, the template's tokens above all."""
    return rows - rows.mean(axis=0)


def _unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 1e-9, lengths, np.inf)).astype(np.float32)
