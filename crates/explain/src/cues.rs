//! What else a log says: settings, systems, libraries, how long it ran. Each is a plain word somewhere in the text,
//! so it supports a cause and never decides one.

use crate::failure::Failure;

/// How much of a log is searched, from its end: what matters stands near the failure.
const SEARCHED: usize = 4 << 20;

/// Plain words of the input.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cues {
    squeezed: String,
}

impl Cues {
    pub(crate) fn of(squeezed: &str) -> Self {
        let begin = squeezed.len().saturating_sub(SEARCHED);
        Self {
            squeezed: squeezed[begin..].to_owned(),
        }
    }

    /// Further settings, of a record.
    pub(crate) fn add(&mut self, squeezed: &str) {
        self.squeezed.push(' ');
        self.squeezed.push_str(squeezed);
    }

    fn has(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.squeezed.contains(word))
    }

    /// Expandable segments are already on.
    pub(crate) fn expandable_segments(&self) -> bool {
        // PyTorch's own hint has the same words, behind "try setting".
        let word = "expandable_segments:true";
        let hinted = |at: usize| {
            let begin = at.saturating_sub(48);
            let before = &self.squeezed[begin..at];
            before.contains("trysetting") || before.contains("setting")
        };
        self.has(&[
            "expandable_segmentsisenabled",
            "expandable_segments:memorymappingfailed",
        ]) || self.squeezed.match_indices(word).any(|(at, _)| !hinted(at))
    }

    /// The driver of Windows, by itself or below WSL.
    pub(crate) fn windows(&self) -> bool {
        self.has(&[
            "c:\\",
            "d:\\",
            "e:\\",
            "microsoft-standard-wsl",
            "wsl2",
            "wddm",
            "win32",
            "/mnt/c/",
        ])
    }

    /// A divided card.
    pub(crate) fn mig(&self) -> bool {
        self.has(&[
            "mig-",
            "mig1g.",
            "mig2g.",
            "mig3g.",
            "mig4g.",
            "mig7g.",
            "migdevice",
            "mig.mode",
        ])
    }

    /// Parameters or work are spread over several processes.
    pub(crate) fn sharded(&self) -> bool {
        self.has(&[
            "fsdp",
            "fully_shard",
            "deepspeed",
            "zero_stage",
            "zero3",
            "torchrun",
            "megatron",
            "distributeddataparallel",
            "tensor_parallel",
        ])
    }

    /// What should save memory is named.
    pub(crate) fn savers(&self) -> Option<&'static str> {
        let named = [
            ("peft/", "LoRA"),
            ("lora", "LoRA"),
            ("gradient_checkpointing", "gradient checkpointing"),
            ("torch/utils/checkpoint.py", "gradient checkpointing"),
            ("bitsandbytes", "quantization"),
            ("cpu_offload", "offloading"),
        ];
        named
            .iter()
            .find(|(word, _)| self.squeezed.contains(word))
            .map(|&(_, name)| name)
    }

    /// Work that is done several times in one process.
    pub(crate) fn trials(&self) -> bool {
        self.has(&[
            "optuna",
            "raytune",
            "ray.tune",
            "kfold",
            "fold2",
            "trial2",
            "trial1finished",
            "gridsearch",
        ])
    }

    /// A server for inference.
    pub(crate) fn server(&self) -> bool {
        self.has(&[
            "vllm",
            "sglang",
            "text-generation-inference",
            "tritonserver",
            "tensorrt_llm",
        ])
    }

    /// How far a progress bar or a counter of steps had come before the failure: `Some` after more than a few.
    pub(crate) fn steps_done(&self, before: &Failure) -> Option<u64> {
        let end = self
            .squeezed
            .find(before.squeezed.as_str())
            .unwrap_or(self.squeezed.len());
        let text = &self.squeezed[..end];
        ["step", "iter", "iteration", "batch"]
            .iter()
            .filter_map(|word| {
                let (at, _) = text.rmatch_indices(word).next()?;
                let rest = text[at + word.len()..].trim_start_matches([':', '=', '[', '#', '_']);
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                rest[..digits].parse::<u64>().ok()
            })
            .max()
    }
}
