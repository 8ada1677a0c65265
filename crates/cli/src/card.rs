//! The card to imitate: one of the catalog, one with another size, or a generic one.

use oomproof_gpus::{Gpu, UnknownGpu, context_bytes, context_bytes_all_kernels, find};
use oomproof_profile::{DeviceSettings, Range};
use oomproof_units::Bytes;

use crate::failure::Failure;

/// Whose architecture a card has of which only the size is known: the oldest one on which PyTorch picks the same
/// kernels as on its successors.
const GENERIC: &str = "a100-80gb";
/// The name CUDA reports for it.
const GENERIC_NAME: &str = "generic GPU";
/// The most GPUs that one machine can have.
const MOST: u32 = 16;
/// Less than any card has; a number without its unit is mostly below.
const SMALLEST: Bytes = Bytes::from_mib(16);
/// More than any single card has, and less than the arena of the virtual device.
const LARGEST: Bytes = Bytes::from_gib(4096);

/// More than what is run on one card takes, so that a script's need is seen where it does not fit.
const AMPLE: Bytes = Bytes::from_gib(1024);

/// What was typed about the card.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct CardArgs {
    /// The GPU to run on: a name from `oomproof gpus`, with how many of them before it, such as 8xh100
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// The memory of the GPU, such as 24GiB; without --gpu, of a generic card
    ///
    /// With --gpu this replaces the memory of that GPU. Without it, the card is a generic one of the Ampere
    /// architecture (compute capability 8.0).
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,

    /// Memory of the GPU that other processes hold
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub reserved_by_others: Bytes,
}

/// The card to imitate.
#[derive(Clone, Debug)]
pub(crate) struct Card {
    gpu: Gpu,
    name: String,
    /// What other processes hold.
    pub others: Bytes,
    /// What was assumed of it.
    pub assumption: Option<String>,
    /// How many of it the machine has, when that was said.
    pub count: Option<u32>,
}

impl Card {
    /// A card of the catalog as it is.
    pub(crate) fn of_gpu(gpu: &Gpu) -> Self {
        Self {
            gpu: gpu.clone(),
            name: gpu.name.to_owned(),
            others: Bytes::ZERO,
            assumption: None,
            count: None,
        }
    }

    /// The name CUDA will report.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its memory.
    pub(crate) fn total(&self) -> Bytes {
        self.gpu.total
    }

    /// The same card with so much memory that nothing runs out.
    pub(crate) fn ample(&self) -> Self {
        Self {
            gpu: self.gpu.with_memory(AMPLE),
            others: Bytes::ZERO,
            ..self.clone()
        }
    }

    /// What the virtual device answers.
    pub(crate) fn device_settings(&self) -> DeviceSettings {
        DeviceSettings {
            name: self.name.clone(),
            ..self.gpu.device_settings()
        }
    }

    /// What a CUDA context takes on it, in the environment that the script will have.
    pub(crate) fn context(&self, cuda_version: u32) -> Range {
        // PyTorch asks for loading on first use only where nothing else was asked for.
        if std::env::var_os("CUDA_MODULE_LOADING").is_some_and(|how| how == "EAGER") {
            context_bytes_all_kernels(&self.gpu)
        } else {
            context_bytes(&self.gpu, cuda_version)
        }
    }
}

/// The card that was asked for.
pub(crate) fn card(typed: &CardArgs) -> Result<Card, Failure> {
    if let Some(memory) = typed.memory {
        if memory == Bytes::ZERO {
            return Err(
                Failure::usage("no_memory", "a card with a memory of zero holds nothing")
                    .hint("give a size such as `--memory 24GiB`"),
            );
        }
        if memory < SMALLEST {
            return Err(Failure::usage(
                "too_little_memory",
                format!("{memory} is less than any card has"),
            )
            .hint("a size needs its unit: `--memory 24GiB`"));
        }
        if memory > LARGEST {
            return Err(Failure::usage(
                "too_much_memory",
                format!("{memory} is more than any card has"),
            )
            .hint("the largest that can be imitated is 4096 GiB"));
        }
    }
    let (count, gpu) = match typed.gpu.as_deref().map(counted) {
        Some((count, name)) => (count, Some(name)),
        None => (None, None),
    };
    if let Some(count) = count.filter(|count| !(1..=MOST).contains(count)) {
        return Err(Failure::usage(
            "gpu_count",
            format!("a machine with {count} GPUs cannot be imitated"),
        )
        .hint(format!(
            "`--gpu 8xh100` stands for 8 of them; the most are {MOST}"
        )));
    }
    let mut card = match (gpu, typed.memory) {
        (Some(name), memory) => {
            let gpu = find(name).map_err(|unknown| unknown_gpu(&unknown))?;
            Card::of_gpu(&memory.map_or_else(|| gpu.clone(), |total| gpu.with_memory(total)))
        }
        (None, Some(total)) => generic(total)?,
        (None, None) => {
            return Err(Failure::usage("no_gpu", "which GPU to run on was not said")
                .hint("name one with `--gpu NAME`, such as `--gpu rtx-4090`; `oomproof gpus` lists them")
                .hint("or give its memory with `--memory SIZE`"));
        }
    };
    card.count = count;
    card.others = typed.reserved_by_others;
    if card.others >= card.total() {
        return Err(Failure::usage(
            "no_memory_left",
            format!(
                "other processes cannot hold {}: {} has {}",
                card.others,
                card.name,
                card.total()
            ),
        )
        .hint(
            "`--reserved-by-others` takes what `nvidia-smi` shows as used before the script starts",
        ));
    }
    Ok(card)
}

/// The number before a name, as in `8xh100`, and the name.
fn counted(typed: &str) -> (Option<u32>, &str) {
    let split = typed
        .split_once(['x', 'X'])
        .and_then(|(count, name)| Some((count.parse().ok()?, name)));
    match split {
        Some((count, name)) if !name.is_empty() => (Some(count), name),
        _ => (None, typed),
    }
}

/// A card of which only the memory is known.
pub(crate) fn generic(total: Bytes) -> Result<Card, Failure> {
    let gpu = find(GENERIC).map_err(|unknown| unknown_gpu(&unknown))?;
    let mut card = Card::of_gpu(&gpu.with_memory(total));
    GENERIC_NAME.clone_into(&mut card.name);
    let (major, minor) = gpu.device_settings().compute_capability;
    card.assumption = Some(format!(
        "the card has the {} architecture, compute capability {major}.{minor}, because only its memory was given",
        gpu.architecture.word()
    ));
    Ok(card)
}

/// The sentence about a name that is not in the catalog.
pub(crate) fn unknown_gpu(unknown: &UnknownGpu) -> Failure {
    let failure = Failure::usage("unknown_gpu", unknown.to_string());
    let near = unknown.suggestions();
    let failure = if near.is_empty() {
        failure
    } else {
        let which = match unknown {
            UnknownGpu::Ambiguous { .. } => "name one of them",
            UnknownGpu::NotFound { .. } => "similar names",
        };
        failure.hint(format!("{which}: {}", near.join(", ")))
    };
    failure.hint(
        "`oomproof gpus` lists all; `--memory SIZE` alone stands for a card that is not among them",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_its_unit_is_refused() {
        let refused = card(&typed(None, Some(Bytes::new(24)), Bytes::ZERO)).unwrap_err();
        assert_eq!(refused.text, "24 bytes is less than any card has");
        assert!(card(&typed(None, Some(Bytes::from_mib(16)), Bytes::ZERO)).is_ok());
    }

    fn typed(gpu: Option<&str>, memory: Option<Bytes>, others: Bytes) -> CardArgs {
        CardArgs {
            gpu: gpu.map(Into::into),
            memory,
            reserved_by_others: others,
        }
    }

    fn check(gpu: Option<&str>, memory: Option<u64>, name: &str, total: Option<u64>) {
        let card = card(&typed(gpu, memory.map(Bytes::from_gib), Bytes::ZERO)).unwrap();
        assert_eq!(card.name(), name);
        assert_eq!(card.device_settings().name, name);
        if let Some(total) = total {
            assert_eq!(card.total(), Bytes::from_gib(total));
        }
        assert_eq!(card.assumption.is_some(), gpu.is_none());
    }

    fn check_refused(args: &CardArgs, id: &str) {
        let failure = card(args).unwrap_err();
        assert_eq!(
            (failure.id, failure.hints.is_empty()),
            (id, false),
            "{args:?}"
        );
    }

    #[test]
    fn cards_are_named_sized_or_both() {
        check(Some("rtx-4090"), None, "NVIDIA GeForce RTX 4090", None);
        check(
            Some("rtx-4090"),
            Some(8),
            "NVIDIA GeForce RTX 4090",
            Some(8),
        );
        check(None, Some(16), "generic GPU", Some(16));
    }

    #[test]
    fn a_name_of_several_cards_lists_them() {
        let failure = card(&typed(Some("colab"), None, Bytes::ZERO)).unwrap_err();
        assert_eq!(failure.hints[0], "name one of them: t4, l4, a100-40gb");
    }

    #[test]
    fn a_number_before_the_name_counts() {
        let check = |typed: &str, expected| assert_eq!(counted(typed), expected, "{typed}");
        check("8xh100", (Some(8), "h100"));
        check("2Xrtx-4090", (Some(2), "rtx-4090"));
        check("rtx-4090", (None, "rtx-4090"));
        check("8x", (None, "8x"));
        check("titan-xp", (None, "titan-xp"));
        check("0xh100", (Some(0), "h100"));
    }

    #[test]
    fn impossible_cards_are_refused() {
        let gib = Bytes::from_gib;
        check_refused(&typed(None, None, Bytes::ZERO), "no_gpu");
        check_refused(&typed(None, Some(Bytes::ZERO), Bytes::ZERO), "no_memory");
        check_refused(
            &typed(Some("rtx-4090"), Some(Bytes::ZERO), Bytes::ZERO),
            "no_memory",
        );
        check_refused(
            &typed(None, Some(gib(5000)), Bytes::ZERO),
            "too_much_memory",
        );
        check_refused(&typed(None, Some(gib(8)), gib(8)), "no_memory_left");
        check_refused(&typed(Some("rtx-409"), None, Bytes::ZERO), "unknown_gpu");
        check_refused(&typed(Some("a100"), None, Bytes::ZERO), "unknown_gpu");
        check_refused(&typed(Some("0xh100"), None, Bytes::ZERO), "gpu_count");
        check_refused(&typed(Some("17xh100"), None, Bytes::ZERO), "gpu_count");
    }
}
