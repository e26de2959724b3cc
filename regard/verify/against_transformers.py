"""Stacks of our blocks against Hugging Face's GPT-2 and Llama, with the same weights."""

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn import (
    Block,
    Embedding,
    FeedForward,
    LayerNorm,
    LearnedPositions,
    Norm,
    Residual,
    RMSNorm,
    RotaryPositions,
    SelfAttention,
    Stack,
    TokenEmbedding,
)
from regard.verify.check import Check, largest

VOCAB, D_MODEL, HEADS, KV_HEADS, D_FF, LAYERS, LONGEST = 20, 32, 4, 2, 48, 2, 12
TOKENS = torch.tensor([[4, 5, 6, 7, 0, 9, 3], [8, 9, 2, 2, 11, 0, 1]])

Copy = tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]
"""A weight of ours, the weight of theirs that it equals, and how theirs is converted to ours."""


class OneSequence(nn.Module):
    """Embedding and stack: GPT-2 and Llama without the projection to logits."""

    def __init__(self, embedding: Embedding, stack: Stack) -> None:
        super().__init__()
        self.embedding = embedding
        self.stack = stack

    def forward(self, tokens: Tensor) -> Tensor:
        return self.stack(self.embedding(tokens), is_causal=True)


def _body(make_block: Callable[[], Block], positions: LearnedPositions | None, norm: Norm) -> Any:
    """A model in which no id is padding and embeddings are not scaled."""
    tokens = TokenEmbedding(VOCAB, D_MODEL, padding=None, scaled=False)
    stack = Stack([make_block() for _ in range(LAYERS)], final_norm=norm)
    return OneSequence(Embedding(tokens, positions, dropout=0.0), stack)


def gpt2(*, fast: bool) -> tuple[nn.Module, nn.Module, list[Copy]]:
    """Layer norm before each sub-layer, learned positions, GELU (tanh), biases everywhere."""
    from transformers import GPT2Config, GPT2Model

    def block() -> Block:
        return Block(
            self_attention=SelfAttention(D_MODEL, HEADS, fast=fast),
            feed_forward=FeedForward(D_MODEL, D_FF, activation="gelu-tanh", fast=fast),
            residual=lambda: Residual(LayerNorm(D_MODEL, fast=fast), dropout=0.0),
        )

    ours = _body(block, LearnedPositions(D_MODEL, length=LONGEST), LayerNorm(D_MODEL, fast=fast))
    theirs: Any = GPT2Model(
        GPT2Config(
            vocab_size=VOCAB,
            n_positions=LONGEST,
            n_embd=D_MODEL,
            n_layer=LAYERS,
            n_head=HEADS,
            n_inner=D_FF,
            activation_function="gelu_new",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    copies = [
        _copy(ours.embedding.tokens.weight, theirs.wte.weight),
        _copy(ours.embedding.positions.weight, theirs.wpe.weight),
        *_affine(ours.stack.final_norm, theirs.ln_f),
    ]
    for mine, other in zip(ours.stack.layers, theirs.h, strict=True):
        copies += _affine(mine.self_attention_residual.norm, other.ln_1)
        copies += _affine(mine.feed_forward_residual.norm, other.ln_2)
        for linear, transposed in (
            (mine.self_attention.projection, other.attn.c_attn),
            (mine.self_attention.output, other.attn.c_proj),
            (mine.feed_forward.inner, other.mlp.c_fc),
            (mine.feed_forward.outer, other.mlp.c_proj),
        ):
            copies.append((linear.weight, transposed.weight, torch.t))  # D in, D out
            copies.append(_copy(linear.bias, transposed.bias))
    return ours, theirs, copies


def llama(*, fast: bool) -> tuple[nn.Module, nn.Module, list[Copy]]:
    """RMS norm, rotary positions, SwiGLU, grouped-query attention, no biases."""
    from transformers import LlamaConfig, LlamaModel

    rotary = RotaryPositions(D_MODEL // HEADS, base=5_000.0)

    def block() -> Block:
        return Block(
            self_attention=SelfAttention(
                D_MODEL, HEADS, n_kv_heads=KV_HEADS, rotary=rotary, bias=False, fast=fast
            ),
            feed_forward=FeedForward(
                D_MODEL, D_FF, activation="silu", gated=True, bias=False, fast=fast
            ),
            residual=lambda: Residual(_rms(fast), dropout=0.0),
        )

    ours = _body(block, None, _rms(fast))
    theirs: Any = LlamaModel(
        LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=D_MODEL,
            intermediate_size=D_FF,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            max_position_embeddings=LONGEST,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 5_000.0},
            pad_token_id=None,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    copies = [
        _copy(ours.embedding.tokens.weight, theirs.embed_tokens.weight),
        _copy(ours.stack.final_norm.weight, theirs.norm.weight),
    ]
    for mine, other in zip(ours.stack.layers, theirs.layers, strict=True):
        attention, network = mine.self_attention, mine.feed_forward
        q, k, v = attention.projection.weight.split(attention.projection.heights)
        copies += [
            _copy(mine.self_attention_residual.norm.weight, other.input_layernorm.weight),
            _copy(mine.feed_forward_residual.norm.weight, other.post_attention_layernorm.weight),
            _copy(q, other.self_attn.q_proj.weight),
            _copy(k, other.self_attn.k_proj.weight),
            _copy(v, other.self_attn.v_proj.weight),
            _copy(attention.output.weight, other.self_attn.o_proj.weight),
            _copy(network.gate.weight, other.mlp.gate_proj.weight),
            _copy(network.inner.weight, other.mlp.up_proj.weight),
            _copy(network.outer.weight, other.mlp.down_proj.weight),
        ]
    return ours, theirs, copies


def _rms(fast: bool) -> RMSNorm:
    return RMSNorm(D_MODEL, epsilon=1e-6, fast=fast)


def _same(weight: Tensor) -> Tensor:
    return weight


def _copy(ours: Tensor, theirs: Tensor) -> Copy:
    return ours, theirs, _same


def _affine(ours: Any, theirs: Any) -> list[Copy]:
    return [_copy(ours.weight, theirs.weight), _copy(ours.bias, theirs.bias)]


def compare(
    make: Callable[..., tuple[nn.Module, nn.Module, list[Copy]]],
    *,
    fast: bool,
    tokens: Tensor = TOKENS,
) -> float:
    """The largest difference of hidden states, and of the gradients of all weights."""
    ours, theirs, copies = make(fast=fast)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for mine, other, convert in copies:  # including biases and norms, which are 0 or 1
            other.copy_(torch.randn(other.shape, generator=generator) * 0.2)
            mine.copy_(convert(other))
    noise = torch.randn(*tokens.shape, D_MODEL, generator=generator) / tokens.numel()
    outputs = ours(tokens), theirs(input_ids=tokens).last_hidden_state
    our_gradients = torch.autograd.grad(
        (outputs[0] * noise).sum(), _leaves([mine for mine, _, _ in copies]), allow_unused=False
    )
    their_gradients = torch.autograd.grad(
        (outputs[1] * noise).sum(), [other for _, other, _ in copies], allow_unused=False
    )
    return largest(
        [
            outputs,
            *(
                (_part(mine, gradient), convert(expected))
                for (mine, _, convert), gradient, expected in zip(
                    copies, our_gradients, their_gradients, strict=True
                )
            ),
        ]
    )


def _leaves(weights: list[Tensor]) -> list[Tensor]:
    """The parameter that each weight is, or is a slice of."""
    return [weight if weight._base is None else weight._base for weight in weights]


def _part(weight: Tensor, gradient: Tensor) -> Tensor:
    """The rows of a parameter's gradient that belong to this slice of it."""
    if weight._base is None:
        return gradient
    first = weight.storage_offset() // weight.size(1)
    return gradient[first : first + weight.size(0)]


def transformers_checks() -> Iterator[Check]:
    """Blocks with the options of GPT-2 and Llama, by both paths; nothing without the package."""
    if find_spec("transformers") is None:
        return
    for fast in (False, True):
        path = "fast" if fast else "reference"
        yield Check(
            f"Stack of blocks ({path}) = transformers' GPT2Model, and gradients",
            partial(compare, gpt2, fast=fast),
        )
        yield Check(
            f"Stack of blocks ({path}) = transformers' LlamaModel, and gradients",
            partial(compare, llama, fast=fast),
        )
