//! Which figures are read out of which text, in every disguise that pasting gives it.

use oomproof_explain::{Format, Input, Moment, explain};
use serde_json::{Value, json};

use crate::texts::{FULL, raised};

/// Compares the format and the figures that are there.
fn check(text: &str, format: &str, expected: &Value) {
    let found = explain(&Input {
        text,
        ..Input::default()
    });
    let failure = serde_json::to_value(&found.failures[found.explained.unwrap()]).unwrap();
    assert_eq!(failure["format"], format, "{text}");
    let figures = failure["figures"].as_object().unwrap();
    let present: serde_json::Map<String, Value> = figures
        .iter()
        .filter(|(_, value)| !value.is_null() && **value != json!([]))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    assert_eq!(Value::Object(present), *expected, "{text}");
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[test]
fn generations_of_pytorch() {
    check(
        "RuntimeError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 2; 8.00 GiB total capacity; 6.00 GiB already allocated; 25.00 MiB free; 1.00 GiB cached)",
        "v1_cached",
        &json!({"tried_bytes": 50 * MIB, "total_bytes": 8 * GIB, "free_bytes": 25 * MIB, "allocated_bytes": 6 * GIB,
            "unallocated_bytes": GIB, "reserved_bytes": 7 * GIB}),
    );
    check(
        "CUDA out of memory. Tried to allocate 2.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated; 0 bytes free; 7.00 GiB allowed; 6.50 GiB reserved in total by PyTorch)",
        "v1_reserved",
        &json!({"tried_bytes": 2 * MIB, "total_bytes": 8 * GIB, "free_bytes": 0, "allocated_bytes": 6 * GIB,
            "allowed_bytes": 7 * GIB, "reserved_bytes": 13 * GIB / 2, "unallocated_bytes": GIB / 2}),
    );
    check(
        "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacty of 8.00 GiB of which 1024 bytes is free. Process 12 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 6.75 GiB memory in use. Process 13 has 512.00 MiB memory in use. Of the allocated memory 6.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
        "v2_capacty",
        &json!({"tried_bytes": 2 * MIB, "total_bytes": 8 * GIB, "free_bytes": 1024, "allocated_bytes": 6 * GIB,
            "reserved_bytes": 13 * GIB / 2, "unallocated_bytes": GIB / 2, "this_process_bytes": 27 * GIB / 4,
            "processes": [{"pid": 12, "bytes": GIB}, {"pid": 13, "bytes": 512 * MIB}]}),
    );
    check(
        &FULL.with(
            "6.00 GiB allowed; ",
            "with 64.00 MiB allocated in private pools (e.g., CUDA Graphs), ",
        ),
        "v2_pools",
        &json!({"tried_bytes": 512 * MIB, "total_bytes": 25_265_145_119_u64, "free_bytes": 120 * MIB,
            "allocated_bytes": 24_008_867_185_u64, "reserved_bytes": 24_008_867_185_u64 + 300 * MIB,
            "unallocated_bytes": 300 * MIB, "allowed_bytes": 6 * GIB, "private_pools_bytes": 64 * MIB}),
    );
    check(
        "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 3.00 GiB\nRequested               : 512.00 MiB\nDevice limit            : 4.00 GiB\nFree (according to CUDA): 0 bytes\nPyTorch limit (set by user-supplied memory fraction)\n                        : 17179869184.00 GiB",
        "async_multiline",
        &json!({"tried_bytes": 512 * MIB, "total_bytes": 4 * GIB, "free_bytes": 0, "allocated_bytes": 3 * GIB}),
    );
}

#[test]
fn other_devices_and_main_memory() {
    check(
        "RuntimeError: MPS backend out of memory (MPS allocated: 6.00 GB, other allocations: 1.00 GB, max allowed: 9.00 GB). Tried to allocate 256.00 MB on private pool.",
        "mps",
        &json!({"tried_bytes": 256 * MIB, "allocated_bytes": 6 * GIB, "other_allocations_bytes": GIB, "allowed_bytes": 9 * GIB}),
    );
    check(
        "NPU out of memory. Tried to allocate 22.00 MiB (NPU 3; 32.00 GiB total capacity; 10.00 GiB already allocated; 10.00 GiB current active; 20.00 MiB free; 11.00 GiB reserved in total by PyTorch).If reserved memory",
        "npu_v1",
        &json!({"tried_bytes": 22 * MIB, "total_bytes": 32 * GIB, "free_bytes": 20 * MIB, "allocated_bytes": 10 * GIB,
            "active_bytes": 10 * GIB, "reserved_bytes": 11 * GIB, "unallocated_bytes": GIB}),
    );
    check(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 123456 bytes. Error code 12 (Cannot allocate memory)",
        "cpu_allocator",
        &json!({"tried_bytes": 123_456}),
    );
    check(
        "out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes",
        "triton_resources",
        &json!({"required_on_chip_bytes": 131_072, "on_chip_limit_bytes": 101_376}),
    );
    check(
        "RuntimeError: CUDA error: out of memory",
        "bare_cuda_error",
        &json!({}),
    );
    check(
        "RuntimeError: cuda runtime error (2) : out of memory at /a/THCStorage.cu:58",
        "thc_runtime",
        &json!({}),
    );
}

#[test]
fn pasting_changes_nothing() {
    let plain = FULL.second_generation("Process 4711 has 12.50 GiB memory in use. ");
    let figures = |text: &str| {
        let found = explain(&Input {
            text,
            ..Input::default()
        });
        assert_eq!(found.failures.len(), 1, "{text}");
        found.figures
    };
    let expected = figures(&plain);
    assert_eq!(expected.processes.len(), 1);
    let wrapped: Vec<String> = plain
        .as_bytes()
        .chunks(37)
        .map(|piece| String::from_utf8_lossy(piece).into_owned())
        .collect();
    assert_eq!(figures(&wrapped.join("\n")), expected);
    assert_eq!(figures(&format!("> {}", wrapped.join("\n> "))), expected);
    assert_eq!(
        figures(&format!("[rank3]: {}", wrapped.join("\n[rank3]: "))),
        expected
    );
    assert_eq!(
        figures(&format!("│ {} │", wrapped.join(" │\n│ "))),
        expected
    );
    assert_eq!(figures(&plain.to_uppercase()), expected);
    assert_eq!(figures(&format!("\u{1b}[31m{plain}\u{1b}[0m")), expected);
}

#[test]
fn cut_texts_keep_what_they_have() {
    check(
        "CUDA out of memory. Tried to allocate 40.00 MiB. GPU",
        "cut",
        &json!({"tried_bytes": 40 * MIB}),
    );
    check(
        "Tried to allocate 40.00 MiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already",
        "v1_reserved",
        &json!({"tried_bytes": 40 * MIB, "total_bytes": 8 * GIB}),
    );
    check(
        "capacity; 6.00 GiB already allocated; 1.00 GiB free; 6.50 GiB reserved in total by PyTorch)",
        "v1_reserved",
        &json!({"free_bytes": GIB, "allocated_bytes": 6 * GIB, "reserved_bytes": 13 * GIB / 2, "unallocated_bytes": GIB / 2}),
    );
    check(
        "torch.OutOfMemoryError: Allocation on device ",
        "async_stub",
        &json!({}),
    );
}

#[test]
fn a_log_with_several_failures() {
    let first = raised(
        &[
            ("/u/train.py", "main", "out = model(batch)"),
            ("/u/net.py", "forward", "x = self.mlp(x)"),
        ],
        &FULL.second_generation(""),
    );
    let text = format!(
        "step 3\n{first}\n\nDuring handling of the above exception, another exception occurred:\n\n{}\nncclUnhandledCudaError: Call to CUDA function failed.",
        raised(
            &[("/u/train.py", "retry", "out = model(batch[:1])")],
            &crate::texts::Card { tried: 64, ..FULL }.second_generation("")
        )
    );
    let found = explain(&Input {
        text: &text,
        ..Input::default()
    });
    let formats: Vec<Format> = found
        .failures
        .iter()
        .map(|failure| failure.format)
        .collect();
    assert_eq!(
        formats,
        [Format::V2Capacity, Format::V2Capacity, Format::Nccl]
    );
    assert_eq!(found.explained, Some(0));
    assert_eq!(found.phase, Some(Moment::Forward));
    let place = found.failures[0].r#where.as_ref().unwrap();
    assert_eq!(
        (place.file.as_str(), place.line, place.function.as_str()),
        ("/u/net.py", 11, "forward")
    );
    assert_eq!(found.failures[0].line, 7);
}

#[test]
fn a_log_line_before_the_message_is_not_what_is_explained() {
    let text = format!(
        "memory allocation failed with OOM on device 0 while trying to allocate 536870912 bytes (free: 125829120, total: 25260195840).\n{}",
        FULL.second_generation("")
    );
    let found = explain(&Input {
        text: &text,
        ..Input::default()
    });
    assert_eq!(
        found.failures[0].figures.free_bytes.unwrap().get(),
        120 * MIB
    );
    assert_eq!(
        found.failures[0].figures.total_bytes.unwrap().get(),
        25_260_195_840
    );
    assert_eq!(found.explained, Some(1));
}

#[test]
fn the_same_text_logged_and_raised_is_one_failure() {
    let message = FULL.second_generation("");
    let text = format!(
        "ERROR {message}\n{}",
        raised(&[("t.py", "main", "loss.backward()")], &message)
    );
    let found = explain(&Input {
        text: &text,
        ..Input::default()
    });
    assert_eq!(found.failures.len(), 1);
    assert_eq!(found.failures[0].times, 2);
    assert_eq!(found.phase, Some(Moment::Backward));
}

#[test]
fn a_worker_of_its_library_is_not_the_cause_of_what_ran_out() {
    let text = format!(
        "NCCL WARN Cuda failure 2 'out of memory'\n{}",
        FULL.second_generation("")
    );
    let found = explain(&Input {
        text: &text,
        ..Input::default()
    });
    assert_eq!(found.explained, Some(1));
}
