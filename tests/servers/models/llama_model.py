"""Writes a language model of random weights for `transformers serve`: `llama_model.py FOLDER`, in its environment."""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 200
SPECIAL = ["<s>", "</s>"]
# Prompts are read byte by byte. Texts are made of words, each of which begins with a space, which `Ġ` stands for.
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
TOKENS = SPECIAL + BYTES + [f"Ġw{word}" for word in range(WORDS)]


def tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.BPE({token: number for number, token in enumerate(TOKENS)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>")
    made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return made


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(TOKENS), max_position_embeddings=4096, bos_token_id=0, eos_token_id=1, **sizes)
    made = LlamaForCausalLM(config)
    with torch.no_grad():
        # The largest of many random numbers is above 0, so every text is one of words, and ends at its longest length.
        made.lm_head.weight.normal_()
        made.lm_head.weight[: len(TOKENS) - WORDS] = 0
    made.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=1, pad_token_id=1, do_sample=False)
    return made


if __name__ == "__main__":
    tokenizer().save_pretrained(sys.argv[1])
    model().save_pretrained(sys.argv[1])
