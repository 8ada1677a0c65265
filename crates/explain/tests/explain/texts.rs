//! Texts as releases of PyTorch write them, from figures that a test chooses.

/// Figures of one text, in MiB.
#[derive(Clone, Copy)]
pub(crate) struct Card {
    pub tried: u64,
    pub total: u64,
    pub free: u64,
    pub live: u64,
    pub idle: u64,
}

/// 24 GiB, full of live tensors.
pub(crate) const FULL: Card = Card {
    tried: 512,
    total: 24_090,
    free: 120,
    live: 22_900,
    idle: 300,
};

fn size(mib: u64) -> String {
    if mib > 1024 {
        format!("{:.2} GiB", mib as f64 / 1024.0)
    } else {
        format!("{mib}.00 MiB")
    }
}

impl Card {
    /// PyTorch 1.10 to 2.0.
    pub(crate) fn first_generation(self) -> String {
        let Self {
            tried,
            total,
            free,
            live,
            idle,
        } = self;
        format!(
            "RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; {} total capacity; {} already allocated; {} free; \
             {} reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid \
             fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
            size(tried),
            size(total),
            size(live),
            size(free),
            size(live + idle)
        )
    }

    /// PyTorch 2.4 and later; `processes` is the clause of the driver, and may be empty.
    pub(crate) fn second_generation(self, processes: &str) -> String {
        format!("{}{}", self.head(processes), self.tail(""))
    }

    /// The same with more clauses before the allocator's own figures and between them.
    pub(crate) fn with(self, allowed: &str, pools: &str) -> String {
        format!("{}{allowed}{}", self.head(""), self.tail(pools))
    }

    fn head(self, processes: &str) -> String {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}. GPU 0 has a total capacity of {} of which {} is free. \
             {processes}",
            size(self.tried),
            size(self.total),
            size(self.free)
        )
    }

    fn tail(self, pools: &str) -> String {
        format!(
            "Of the allocated memory {} is allocated by PyTorch, {pools}and {} is reserved by PyTorch but unallocated. If reserved \
             but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  \
             See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html)",
            size(self.live),
            size(self.idle)
        )
    }
}

/// A traceback above a text: frames of file, function and source line.
pub(crate) fn raised(frames: &[(&str, &str, &str)], text: &str) -> String {
    let mut lines = vec!["Traceback (most recent call last):".to_owned()];
    for (index, (file, function, code)) in frames.iter().enumerate() {
        lines.push(format!(
            "  File \"{file}\", line {}, in {function}",
            index + 10
        ));
        lines.push(format!("    {code}"));
    }
    lines.push(text.to_owned());
    lines.join("\n")
}
