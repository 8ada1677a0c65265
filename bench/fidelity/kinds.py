"""Which workload a row of measurements describes, read off the row's fields.

The sources state what they ran in words, so each kind says in one place which words it goes by. A row that states no
version, or more than its kind can follow, has no workload, and the reason is printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GPUS = {
    "Tesla T4": "t4",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA A100-SXM4-80GB": "a100-80gb",
    "NVIDIA A100-SXM4-40GB": "a100-40gb",
    "NVIDIA A100 80GB": "a100-80gb",
    "NVIDIA A100 40GB": "a100-40gb",
    "NVIDIA A100 (single": "a100-40gb",
    "NVIDIA H100 80GB": "h100",
    "RTX 4070 Ti SUPER": "rtx-4070-ti-super",
    "NVIDIA A10G": "a10g",
}


@dataclass(frozen=True)
class Workload:
    """A script below `workloads/`, its arguments and what it needs."""

    script: str
    arguments: tuple[str, ...]
    gpu: str
    torch: str
    """The version that the row names, as far as it does: `2.11.0`, `2.4` or `any`."""
    estimated: str | None = None
    """What the row leaves open, and how it was read."""


@dataclass(frozen=True)
class Unmatched:
    """Why a row has no workload."""

    reason: str


ANY = "any"
"""For `torch`: the row states no version."""


def number(text: object) -> str:
    found = re.search(r"\d+", str(text))
    return found.group() if found else "0"


def match(row: dict) -> Workload | Unmatched:
    """The workload of a row, or the reason why it has none."""
    if "nvidia-smi" in row["metric"]:
        found = whole_process(row)
        if found:
            return Workload("whole_process.py", tuple(map(str, found)), GPUS["NVIDIA A100 40GB"], ANY)
    versions = row["framework_versions"]
    version = re.search(r"torch ~?(\d+\.\d+(?:\.\d+)?)(\.dev|a0)?", versions)
    if not version:
        return Unmatched("states no version of torch")
    if tuple(int(part) for part in version[1].split(".")[:2]) < (2, 4):
        return Unmatched("torch before 2.4")
    if version[2]:
        return Unmatched("a nightly build of torch, which is no longer published")
    gpu = next((ours for theirs, ours in GPUS.items() if row["gpu"].startswith(theirs)), None)
    if gpu is None:
        return Unmatched("several cards, or none that is stated")
    for kind in (calibration_step, finetune, operators, gpt_from_scratch, image_model):
        found = kind(row)
        if found:
            script, arguments, estimated = found
            open_version = "the row rounds the version" if "~" in version[0] or version[1].count(".") < 2 else None
            words = "; ".join(word for word in (open_version, estimated) if word)
            return Workload(script, tuple(map(str, arguments)), gpu, version[1], words or None)
    return Unmatched("no workload for this kind")


def calibration_step(row: dict):
    if "after reset_peak" not in row["metric"]:
        return None
    if "torchvision" not in row["config"] and "AutoModel" not in row["config"]:
        return None
    arguments = [row["model"], "--batch", row["batch"], "--size", number(row["seq_or_image"])]
    return "calibration_step.py", arguments, "transformers' version is not stated"


def finetune(row: dict):
    if "AutoModelForCausalLM" not in row["config"] or "minus pre-existing" not in row["metric"]:
        return None
    arguments = [row["model"], "--batch", row["batch"], "--size", number(row["seq_or_image"])]
    if "autocast" in row["dtype"]:
        arguments.append("--autocast")
    if row["checkpointing"].startswith("on"):
        arguments.append("--checkpointing")
    if "attn_implementation=eager" in row["config"]:
        arguments += ["--attention", "eager"]
    if "SGD" in row["optimizer"]:
        arguments += ["--optimizer", "sgd"]
    rank = re.search(r"LoRA r=(\d+)", row["config"])
    if rank:
        arguments += ["--lora", rank[1]]
    return "finetune.py", arguments, None


def operators(row: dict):
    if "torch baseline" not in row["model"]:
        return None
    dtype = {"fp32": "float32", "bf16": "bfloat16"}[row["dtype"]]
    sizes = dict(re.findall(r"\b([BTVHMN])=(\d+)", row["config"]))
    if "LM head" in row["model"]:
        arguments = ["language_head", "--rows", row["batch"], "--hidden", sizes["H"], "--vocabulary", sizes["V"]]
    elif "CrossEntropy" in row["model"]:
        rows = int(sizes["B"]) * int(sizes["T"])
        arguments = ["cross_entropy", "--rows", rows, "--vocabulary", sizes["V"]]
    elif "LayerNorm" in row["model"]:
        arguments = ["layer_norm", "--rows", sizes["M"], "--hidden", sizes["N"]]
    else:
        return None
    return "operators.py", [*arguments, "--dtype", dtype], None


def gpt_from_scratch(row: dict):
    if "from scratch (GPTModel" not in row["model"]:
        return None
    step = re.match(r"step (\d+)", row["config"])
    if not step:
        return None
    done = int(step[1])
    if 0 < done < 5:
        arguments = ["--batch", row["batch"]]
        if done >= 3:
            arguments.append("--fused-optimizer")
    else:
        arguments = ["--batch", row["batch"], "--fused-optimizer", "--bfloat16"]
        if done == 6:
            return None
        if done >= 7:
            arguments.append("--fused-layers")
        if done >= 8:
            arguments.append("--compile")
        if done >= 9:
            arguments += ["--vocabulary", "50304"]
    return "gpt_from_scratch.py", arguments, "A100 of 40 GB: the row leaves the size open"


def image_model(row: dict):
    if not row["model"].startswith("timm/") or "AdamW fused" not in row["optimizer"]:
        return None
    if "offload: torchao" in row["config"]:
        return None
    name = row["model"].removeprefix("timm/").split(" ")[0]
    size = re.match(r"\d+", row["seq_or_image"])
    arguments = [name, "--batch", row["batch"], "--size", size.group() if size else "224"]
    arguments += ["--precision", "autocast" if "autocast" in row["dtype"] else "bfloat16"]
    if row["checkpointing"].startswith("on"):
        arguments.append("--checkpointing")
    if "--compile" in row["config"]:
        arguments.append("--compile")
    return "image_model.py", arguments, None if size else "images of 224 pixels: the row leaves the size open"


def whole_process(row: dict):
    if not row["gpu"].startswith("NVIDIA A100 40GB"):
        return None
    model, config = row["model"], row["config"]
    if "ImageNet" in config:
        return ["images", "--model", model, "--batch", row["batch"], "--size", number(row["seq_or_image"])]
    if model.startswith("nn.TransformerEncoder"):
        names = {
            "input_size(vocab)": "vocabulary",
            "embedding": "width",
            "layers": "depth",
            "heads": "heads",
            "ff_hidden": "hidden",
            "classes": "classes",
            "seq": "size",
        }
        stated = dict(re.findall(r"([\w()]+)=(\d+)", config))
        arguments = ["encoder", "--batch", row["batch"]]
        for theirs, ours in names.items():
            arguments += [f"--{ours}", stated[theirs]]
        return arguments
    if model.startswith("MLP"):
        stated = dict(re.findall(r"(input|output|depth|arch|act|dropout|batchnorm):(\w+?)(?=_|;)", config))
        arguments = ["perceptron", "--batch", row["batch"], "--size", stated["input"], "--classes", stated["output"]]
        arguments += ["--depth", stated["depth"], "--widths", stated["arch"]]
        if "act:" in config:
            # The second script of that source ends in a softmax.
            arguments += ["--softmax", "--activation", re.search(r"act:(\w+?)_dropout", config)[1]]
        for word, option in (("dropout:True", "--dropout"), ("batchnorm:True", "--batch-norm")):
            if word in config:
                arguments.append(option)
        return arguments
    return None
