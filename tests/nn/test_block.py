"""What a block reads: the memory that is given, whatever its cache was made with."""

import torch

from regard.models.blueprint import Blueprint


def test_a_memory_that_is_given_is_read_beside_caches_made_without_one() -> None:
    parts = Blueprint(d_model=8, n_heads=2, d_ff=16, dropout=0.0)
    decoder = parts.stack(2, cross_attention=True).eval()
    x, memory = torch.randn(2, 3, 8), torch.randn(2, 5, 8)
    cached = decoder(x, memory, is_causal=True, caches=decoder.new_caches())
    torch.testing.assert_close(cached, decoder(x, memory, is_causal=True))
