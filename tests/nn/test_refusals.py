"""What a part refuses, it refuses in a sentence, with the value and the limit.

In a process of its own: here the shape checker would speak first.
"""

import subprocess
import sys

CASES = {
    'Residual(LayerNorm(8), place="middle")': "place='middle' is not one of pre, post",
    'FeedForward(8, 16, activation="swish")': "activation='swish' is not one of relu, gelu, "
    "gelu-tanh, silu, squared-relu",
    "MultiHeadAttention(10, 4)": "d_model=10 does not divide into n_heads=4 equal heads",
    "MultiHeadAttention(8, 0)": "d_model=8 does not divide into n_heads=0 equal heads",
    "MultiHeadAttention(8, 4, n_kv_heads=3)": "n_kv_heads=3 does not divide n_heads=4",
    "SelfAttention(8, 2, window=2)(torch.zeros(1, 3, 8))": "window=2 looks back from each "
    "position: it needs is_causal=True",
    "SelfAttention(8, 2, window=0)": "window=0 is less than 1: a position sees itself at least",
    'RotaryPositions(8, pairing="thirds")': "pairing='thirds' is not one of half, interleaved",
    'make_norm("batch", 8)': "norm_kind='batch' is not one of layer, rms",
    'Pooling("median", 8)': "pooling='median' is not one of final, mean, max, attention",
    'Recurrent("elman", 8, 8)': "kind='elman' is not one of rnn, gru, lstm",
    'Recurrent("gru", 8, 8)(torch.zeros(2, 0, 8))': "a recurrent layer needs at least one "
    "step, and the batch has none",
    'ClassicAttention("dot", 8, 8)': "attention='dot' is not one of bahdanau, luong-dot, "
    "luong-general, luong-concat",
    "attend(x, x, x, x)": "a mask must be boolean with True where attention is allowed, not "
    "torch.float32; write mask.bool() if 1 means allowed in it, or mask == 0 if it is added to "
    "scores",
}


def test_parts_refuse_in_a_sentence() -> None:
    program = "from regard.nn import *\nimport torch\nx = torch.zeros(1, 1, 2, 2)\n" + "\n".join(
        f"try:\n    {call}\nexcept (ValueError, TypeError) as error:\n    print(error)"
        for call in CASES
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines() == list(CASES.values())
