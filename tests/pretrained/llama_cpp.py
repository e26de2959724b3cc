"""llama.cpp (package xllamacpp) on a GGUF file: its token ids, and its greedy continuations."""

import json
import urllib.request
from pathlib import Path
from typing import Any


class LlamaCpp:
    """A model that llama.cpp has loaded, with one thread; exact: no 16-bit caches."""

    def __init__(self, path: Path, *, exact: bool = False) -> None:
        import xllamacpp

        options = xllamacpp.CommonParams()
        options.model.path = str(path)
        options.verbosity = 0
        options.n_ctx, options.warmup, options.cpuparams.n_threads = 256, False, 1
        if exact:
            kind = xllamacpp.ggml_type.GGML_TYPE_F32
            options.cache_type_k = options.cache_type_v = kind
            attention = xllamacpp.llama_flash_attn_type
            options.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = xllamacpp.Server(options)

    def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._server.listening_address + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def tokenize(self, text: str) -> list[int]:
        """The ids of a text, without a special token before it, and special tokens read as text."""
        body = {"content": text, "add_special": False, "parse_special": False}
        return self._ask("/tokenize", body)["tokens"]

    def greedy(self, prompt: list[int], count: int) -> tuple[list[int], list[dict[int, float]]]:
        """The most probable tokens after a prompt, and the log-probabilities of the first few."""
        body = {
            "prompt": prompt,
            "n_predict": count,
            "temperature": 0.0,
            "n_probs": 5,
            "return_tokens": True,
        }
        answer = self._ask("/completion", body)
        steps = [
            {token["id"]: token["logprob"] for token in step["top_logprobs"]}
            for step in answer["completion_probabilities"]
        ]
        return answer["tokens"], steps
