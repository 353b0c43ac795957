"""GPT-2 by transformers' Trainer on made-up text, written as public examples are."""

import os
import random
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, default_data_collator

BLOCK = 512


class Blocks(Dataset):
    def __init__(self, n, words):
        rng = random.Random(0)
        self.text = [rng.randrange(words) for _i in range(BLOCK * 512)]
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        begin = (i * 131) % (len(self.text) - BLOCK)
        ids = self.text[begin : begin + BLOCK]
        return {"input_ids": ids, "labels": list(ids), "attention_mask": [1] * BLOCK}


class Clock(TrainerCallback):
    begun = 0.0

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in (40, 140):
            torch.cuda.synchronize()
            if state.global_step == 140:
                print("STEP", sys.argv[1:], round((time.perf_counter() - self.begun) / 100 * 1e3, 2), "ms", flush=True)
                os._exit(0)
            self.begun = time.perf_counter()


def main():
    config = GPT2Config(n_layer=12, n_head=12, n_embd=768)
    model = GPT2LMHeadModel(config)
    extra = {"torch_compile": True} if "--compile" in sys.argv else {}
    if "--bf16" in sys.argv:
        extra["bf16"] = True
    if "--workers" in sys.argv:
        extra["dataloader_num_workers"] = 4
    args = TrainingArguments(
        output_dir="output",
        per_device_train_batch_size=16,
        max_steps=2000,
        logging_steps=100,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=1,
        **extra,
    )
    data = Blocks(100000, config.vocab_size)
    trainer = Trainer(model=model, args=args, train_dataset=data, data_collator=default_data_collator)
    if "--time" in sys.argv:
        trainer.add_callback(Clock())
    trainer.train()


if __name__ == "__main__":
    main()
