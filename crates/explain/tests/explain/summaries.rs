use oomproof_explain::{Explanation, Input, MemorySummary, explain};

use crate::texts::FULL;

fn explained(text: &str) -> Explanation {
    explain(&Input {
        text,
        ..Input::default()
    })
}

/// A table as PyTorch prints it, its sizes in one unit.
fn table(allocated: &str, reserved: &str, pieces: &str) -> String {
    format!(
        "|===========================================================================|\n\
         |                  PyTorch CUDA memory summary, device ID 1                 |\n\
         |---------------------------------------------------------------------------|\n\
         |            CUDA OOMs: 1            |        cudaMalloc retries: 2         |\n\
         |===========================================================================|\n\
         |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n\
         | Allocated memory      | {allocated} |  14500 MiB |  90000 MiB |  75790 MiB |\n\
         |       from large pool |      1 MiB |      1 MiB |      1 MiB |      1 MiB |\n\
         | GPU reserved memory   | {reserved} |  22600 MiB |  22600 MiB |      0 B   |\n\
         | Non-releasable memory | {pieces} |   8390 MiB |  50000 MiB |  41610 MiB |\n\
         |===========================================================================|\n"
    )
}

fn check(text: &str, expected: &[&str]) {
    let found = explained(text);
    let read: Vec<String> = found
        .memory_summaries
        .iter()
        .flat_map(MemorySummary::reading)
        .collect();
    assert_eq!(read, expected, "{text}");
}

#[test]
fn a_table_is_read() {
    let counts = "Since the process began 1 request failed, and 2 times the cache was given back to find room.";
    let peak = "At the peak live tensors held 14.16 GiB: 290.00 MiB were gone again when the table was printed.";
    let held = "Live tensors held 13.88 GiB, and PyTorch 22.07 GiB with its cache.";
    let pieces = "Of the 8.19 GiB without a tensor 8.00 GiB lie between live tensors, which empty_cache() cannot release, and at most 198.00 MiB would go back.";
    let whole = [held, peak, pieces, counts];
    check(&table("14210 MiB", "22600 MiB", "8192 MiB"), &whole);
    check(&table("14210 MB", "22600 MB", "8192 MB"), &whole);
    check(
        &table("?", "22600 MiB", "8192 MiB"),
        &["The table is cut: allocated or reserved memory is not in it."],
    );
    check(
        &table("99999999999999 PiB", "1 MiB", "0 B"),
        &["The table is cut: allocated or reserved memory is not in it."],
    );
    check("no table", &[]);
}

#[test]
fn a_count_of_failures_is_no_failure() {
    let alone = explained(&table("14210 MiB", "22600 MiB", "8192 MiB"));
    assert_eq!(alone.explained, None);
    assert_eq!(alone.memory_summaries[0].device, Some(1));
    assert_eq!(alone.memory_summaries[0].ooms, Some(1));
}

#[test]
fn a_table_changes_nothing_of_the_message_beside_it() {
    let message = FULL.second_generation("");
    let both = explained(&format!(
        "{message}\n{}",
        table("14210 MiB", "22600 MiB", "8192 MiB")
    ));
    let alone = explained(&message);
    assert_eq!(both.figures, alone.figures);
    assert_eq!(both.failures.len(), alone.failures.len());
    assert_eq!(both.causes[0].id, alone.causes[0].id);
}

#[test]
fn the_command_that_decides_is_of_the_device() {
    for (text, command) in [
        ("hello", "oomproof run"),
        (
            "RuntimeError: MPS backend out of memory (MPS allocated: 17.98 GB, other allocations: 1.20 MB, max allowed: \
             18.13 GB). Tried to allocate 256.00 MB on private pool.",
            "print(torch.mps.",
        ),
        (
            "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 15.91 \
             GiB. Of the allocated memory 12.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but \
             unallocated.",
            "print(torch.xpu.",
        ),
        (&FULL.second_generation(""), "oomproof run"),
    ] {
        let found = explained(text).decide_with.unwrap();
        assert!(found.starts_with(command), "{text}: {found}");
    }
}
