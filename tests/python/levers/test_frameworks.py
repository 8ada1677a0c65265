"""Models and loops of Hugging Face, where they are installed; CI has none, so this is run by hand:

`OOMPROOF_TEST_STANDINS=FOLDER PYTHON -m pytest tests/python/levers/test_frameworks.py`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest
import real_torch  # noqa: F401 - before torch
import torch
from levers import PlanRefused, apply

transformers = pytest.importorskip("transformers")
accelerate = pytest.importorskip("accelerate")

ROUNDING = 5e-6
SMALL = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SILENT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def llama(attention: str = "sdpa") -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SMALL, num_key_value_heads=2, attn_implementation=attention)
    )


def gpt2(attention: str = "sdpa") -> Any:
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **dropout, attn_implementation=attention))


def bert(attention: str = "sdpa") -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, **SILENT, attn_implementation=attention))


def eager(make: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: make("eager")


def data(rows: int = 24) -> List[Dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for row in range(rows):
        tokens = torch.randint(1, 50, (12,), generator=generator)
        labels = tokens.clone()
        labels[12 - row % 5 :] = -100
        found.append({"input_ids": tokens, "labels": labels, "attention_mask": torch.ones_like(tokens)})
    return found


def loop(make: Callable[[], Any], levers: List[Dict[str, Any]], _: Path) -> Any:
    model = make().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    applied = apply({"levers": levers}, model, optimizer)
    try:
        for batch in torch.utils.data.DataLoader(data(), batch_size=8):  # type: ignore[arg-type]
            optimizer.zero_grad()
            model(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    finally:
        applied.undo()
    return model


def by_accelerate(make: Callable[[], Any], levers: List[Dict[str, Any]], _: Path) -> Any:
    accelerator = accelerate.Accelerator(cpu=True)
    model = make().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loader = torch.utils.data.DataLoader(data(), batch_size=8)  # type: ignore[arg-type]
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    applied = apply({"levers": levers}, model, optimizer)
    try:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
    finally:
        applied.undo()
    return model


def by_trainer(make: Callable[[], Any], levers: List[Dict[str, Any]], folder: Path, accumulation: int = 1) -> Any:
    arguments = transformers.TrainingArguments(
        str(folder), per_device_train_batch_size=8, gradient_accumulation_steps=accumulation, learning_rate=0.1, optim="sgd",
        num_train_epochs=1, report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, logging_steps=1000,
    )  # fmt: skip
    model = make()
    trainer = transformers.Trainer(model, arguments, train_dataset=data())
    applied = apply({"levers": levers}, model)
    try:
        trainer.train()
    finally:
        applied.undo()
    return model


def accumulating(make: Callable[[], Any], levers: List[Dict[str, Any]], folder: Path) -> Any:
    return by_trainer(make, levers, folder, accumulation=2)


def checkpoint(*modules: str) -> Dict[str, Any]:
    return {"name": "activation-checkpointing", "modules": list(modules)}


def micro(chunks: int) -> Dict[str, Any]:
    return {"name": "micro-batch", "chunks": chunks}


CHUNKED = {"name": "chunked-loss", "chunks": 5}
SDPA = {"name": "attention", "implementation": "sdpa"}
OFFLOAD = {"name": "activation-offload", "least_bytes": 0}

CASES: List[Tuple[Callable[..., Any], Callable[[], Any], List[Dict[str, Any]], float]] = [
    (loop, llama, [checkpoint("model.layers.0", "model.layers.1")], 0.0),
    (loop, gpt2, [checkpoint("transformer.h.0")], 0.0),
    (loop, bert, [checkpoint("bert.encoder.layer.0")], 0.0),
    (loop, llama, [OFFLOAD], 0.0),
    (loop, llama, [CHUNKED], ROUNDING),
    (loop, gpt2, [CHUNKED], ROUNDING),
    (loop, bert, [CHUNKED, micro(3)], ROUNDING),
    (loop, eager(llama), [SDPA], ROUNDING),
    (loop, eager(gpt2), [SDPA], ROUNDING),
    (loop, eager(bert), [SDPA], ROUNDING),
    (by_accelerate, llama, [micro(2)], ROUNDING),
    (by_accelerate, gpt2, [micro(4), CHUNKED], ROUNDING),
    (by_trainer, llama, [micro(2)], ROUNDING),
    (by_trainer, gpt2, [micro(4), checkpoint("transformer.h.1"), CHUNKED], ROUNDING),
    (accumulating, llama, [micro(2)], ROUNDING),
]


@pytest.mark.parametrize(("run", "make", "levers", "tolerance"), CASES)
def test_a_planned_run_leaves_the_same(run: Any, make: Any, levers: Any, tolerance: float, tmp_path: Path) -> None:
    states = []
    for chosen in ([], levers):
        torch.manual_seed(0)
        states.append(run(make, chosen, tmp_path).state_dict())
    torch.testing.assert_close(states[1], states[0], rtol=tolerance, atol=tolerance)


REFUSED: List[Tuple[Callable[..., Any], Callable[[], Any], Dict[str, Any], str]] = [
    (by_trainer, llama, micro(3), "the trainer's batch of 8 is no multiple of 3"),
    (by_trainer, bert, micro(2), "number of labels of a whole step"),
]


@pytest.mark.parametrize(("run", "make", "lever", "reason"), REFUSED)
def test_refused(run: Any, make: Any, lever: Dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(PlanRefused) as caught:
        run(make, [lever], tmp_path)
    assert reason in caught.value.reason
