"""Dimensions of public language models, as their configuration files state them."""

from __future__ import annotations

LLAMA = {"model_type": "llama", "rms_norm_eps": 1e-5, "max_position_embeddings": 131072, "vocab_size": 128256}
QWEN2 = {"model_type": "qwen2", "rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "vocab_size": 151936}


def shape(
    family: dict, hidden: int, layers: int, heads: int, kv_heads: int, intermediate: int, *, tied: bool, **more
) -> dict:
    return {
        **family,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
        "tie_word_embeddings": tied,
        **more,
    }


SHAPES = {
    "Llama-3.2-1B": shape(LLAMA, 2048, 16, 32, 8, 8192, tied=True, head_dim=64),
    "Llama-3.2-3B": shape(LLAMA, 3072, 28, 24, 8, 8192, tied=True, head_dim=128),
    "Llama-3.1-8B": shape(LLAMA, 4096, 32, 32, 8, 14336, tied=False, head_dim=128),
    "Llama-2-7B": shape({**LLAMA, "vocab_size": 32000}, 4096, 32, 32, 32, 11008, tied=False),
    "TinyLlama-1.1B": shape({**LLAMA, "vocab_size": 32000}, 2048, 22, 32, 4, 5632, tied=False),
    "Qwen2.5-0.5B": shape(QWEN2, 896, 24, 14, 2, 4864, tied=True),
    "Qwen2.5-1.5B": shape(QWEN2, 1536, 28, 12, 2, 8960, tied=True),
    "Qwen2.5-3B": shape(QWEN2, 2048, 36, 16, 2, 11008, tied=True),
    "Qwen2.5-7B": shape({**QWEN2, "vocab_size": 152064}, 3584, 28, 28, 4, 18944, tied=False),
}


def config(name: str):
    """The transformers configuration of a public model."""
    import transformers

    fields = dict(SHAPES[name])
    return transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
