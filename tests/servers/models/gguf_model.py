"""Writes a language model of random weights for llama.cpp: `gguf_model.py FOLDER`, in an environment with `gguf`."""

import sys
from pathlib import Path

import numpy as np
from gguf import GGUFWriter, TokenType

WIDTH, HEADS, LAYERS, INNER, CONTEXT, WORDS = 64, 4, 2, 128, 32768, 200
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<unk>", "<s>", "</s>"]
# Texts are made of these words. Prompts are read byte by byte.
TOKENS = SPECIAL + BYTES + [f"\u2581w{word}" for word in range(WORDS)]


def add_vocabulary(writer: GGUFWriter) -> None:
    kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * len(BYTES)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types(kinds + [TokenType.NORMAL] * WORDS)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template("{% for message in messages %}{{ message['content'] }}{% endfor %}")


def add_weights(writer: GGUFWriter) -> None:
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name + ".weight", (random.standard_normal(shape) / 8).astype(np.float32))

    def add_ones(name: str) -> None:
        writer.add_tensor(name + ".weight", np.ones(WIDTH, np.float32))

    add("token_embd", len(TOKENS), WIDTH)
    for layer in range(LAYERS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_gate", INNER, WIDTH)
        add(f"blk.{layer}.ffn_up", INNER, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, INNER)
        add_ones(f"blk.{layer}.attn_norm")
        add_ones(f"blk.{layer}.ffn_norm")
    add_ones("output_norm")
    # The largest of many random numbers is above 0, so every text is one of words, and ends at its longest length.
    output = random.standard_normal((len(TOKENS), WIDTH)).astype(np.float32)
    output[: len(TOKENS) - WORDS] = 0
    writer.add_tensor("output.weight", output)


def write(path: Path) -> None:
    writer = GGUFWriter(str(path), "llama")
    writer.add_name("random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(TOKENS))
    add_vocabulary(writer)
    add_weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]) / "random.gguf")
