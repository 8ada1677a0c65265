//! For each cause a text that shows it, and texts that look like it and are another.

use oomproof_explain::{CauseId, Input, causes, explain};

use crate::texts::{Card, FULL, raised};

/// The first cause, and whether it is sure.
fn check(text: &str, first: CauseId, sure: bool) {
    let found = explain(&Input {
        text,
        ..Input::default()
    });
    let named: Vec<_> = found
        .causes
        .iter()
        .map(|cause| (cause.id, cause.score))
        .collect();
    assert_eq!(
        found.causes.first().map(|cause| cause.id),
        Some(first),
        "{named:?} of {text}"
    );
    assert_eq!(found.causes[0].sure, sure, "{text}");
    assert_eq!(found.decide_with.is_none(), sure, "{text}");
    assert!(!found.causes[0].evidence.is_empty(), "{text}");
}

fn check_second(text: &str, second: CauseId) {
    let found = explain(&Input {
        text,
        ..Input::default()
    });
    assert_eq!(found.causes[1].id, second, "{:?}", found.causes);
}

#[test]
fn texts_that_lost_a_part_keep_what_is_left() {
    check(
        "... GiB is allocated by PyTorch, and 9.53 GiB is reserved by PyTorch but unallocated. If reserved but unallo",
        CauseId::Fragmentation,
        false,
    );
    check(
        "... GiB is allocated by PyTorch, and 90.00 MiB is reserved by PyTorch but unallocated. If reserved but unallo",
        CauseId::TooBig,
        false,
    );
    // Typed where a comma divides the decimals.
    check(
        "CUDA out of memory. Tried to allocate 512,00 MiB (GPU 0; 11,17 GiB total capacity; 10,62 GiB already \
         allocated; 23,81 MiB free; 10,66 GiB reserved in total by PyTorch)",
        CauseId::TooBig,
        false,
    );
}

#[test]
fn a_size_that_was_computed_wrongly_is_no_matter_of_the_batch() {
    let found = explain(&Input {
        text: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        ..Input::default()
    });
    assert_eq!(found.remedies[0].id, "right_size");
    let useless: Vec<_> = found.useless.iter().map(|each| each.id).collect();
    assert!(useless.contains(&"smaller_batch"), "{useless:?}");
    let ids: Vec<_> = found.remedies.iter().map(|each| each.id).collect();
    assert!(
        !ids.contains(&"smaller_batch") && !ids.contains(&"half_precision"),
        "{ids:?}"
    );
}

#[test]
fn figures_alone() {
    let both = |card: Card, first, sure| {
        check(&card.first_generation(), first, sure);
        check(&card.second_generation(""), first, sure);
    };
    both(FULL, CauseId::TooBig, false);
    both(
        Card {
            tried: 90_000,
            ..FULL
        },
        CauseId::SingleHuge,
        true,
    );
    both(
        Card {
            tried: 13_000,
            live: 9000,
            free: 11_000,
            ..FULL
        },
        CauseId::SingleHuge,
        false,
    );
    both(
        Card {
            live: 12_000,
            idle: 11_000,
            ..FULL
        },
        CauseId::Fragmentation,
        false,
    );
    both(
        Card {
            live: 2000,
            idle: 100,
            ..FULL
        },
        CauseId::OtherProcess,
        false,
    );
    both(
        Card {
            live: 25_000,
            idle: 0,
            free: 0,
            ..FULL
        },
        CauseId::WindowsWsl,
        true,
    );
    both(
        Card {
            live: 6000,
            free: 16_000,
            ..FULL
        },
        CauseId::FreeButFails,
        false,
    );
    // The very first request cannot be computed from anything.
    both(
        Card {
            tried: 26_000,
            live: 0,
            idle: 0,
            free: 23_600,
            ..FULL
        },
        CauseId::TooBig,
        false,
    );
}

#[test]
fn clauses_of_newer_texts() {
    let crowded = Card { live: 9000, ..FULL };
    check(
        &crowded.second_generation(
            "Process 4711 has 13.90 GiB memory in use. Including non-PyTorch memory, this process has 9.50 GiB memory in use. ",
        ),
        CauseId::OtherProcess,
        true,
    );
    check(
        &crowded.second_generation(&"Process 4711 has 1.19 GiB memory in use. ".repeat(9)),
        CauseId::Device0,
        false,
    );
    check(
        &crowded.second_generation(
            "Including non-PyTorch memory, this process has 23.40 GiB memory in use. ",
        ),
        CauseId::OutsideAllocator,
        false,
    );
    // In a container it is this very process.
    check(
        &FULL.second_generation("Process 4711 has 23.40 GiB memory in use. "),
        CauseId::TooBig,
        false,
    );
    let limited = Card {
        live: 5800,
        free: 16_000,
        ..FULL
    };
    check(
        &limited.with("6.00 GiB allowed; ", ""),
        CauseId::Limit,
        true,
    );
    check(
        &Card {
            live: 14_000,
            idle: 600,
            ..FULL
        }
        .with(
            "",
            "with 8.00 GiB allocated in private pools (e.g., CUDA Graphs), ",
        ),
        CauseId::CompileGraphs,
        false,
    );
}

#[test]
fn nvidia_smi_beside_a_message() {
    let smi = "|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |\n\
        | 30%   45C    P2            110W /  350W |   23480MiB /  24576MiB |     98%      Default |\n\
        |    0   N/A  N/A     12345      C   python                                20000MiB |\n";
    check(
        &format!("RuntimeError: CUDA error: out of memory\n{smi}"),
        CauseId::OtherProcess,
        false,
    );
    let own = smi.replace("20000MiB", "23400MiB");
    check(
        &format!("{}\n{own}", FULL.second_generation("")),
        CauseId::TooBig,
        false,
    );
}

#[test]
fn a_process_that_may_be_this_one_is_not_surely_another() {
    let text =
        Card { live: 5000, ..FULL }.second_generation("Process 4711 has 13.90 GiB memory in use. ");
    check(&text, CauseId::OtherProcess, false);
}

#[test]
fn texts_that_name_what_failed() {
    check(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.",
        CauseId::HostMemory,
        true,
    );
    check(
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        CauseId::HostMemory,
        true,
    );
    check(
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
        CauseId::HostMemory,
        false,
    );
    check(
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 140000, Hardware limit: 101376.",
        CauseId::NotMemory,
        true,
    );
    check(
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        CauseId::NotMemory,
        false,
    );
    check(
        "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.",
        CauseId::SingleHuge,
        true,
    );
    check(
        "RuntimeError: Invalid buffer size: 12.00 GB",
        CauseId::SingleHuge,
        true,
    );
    check(
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 2.00 GiB",
        CauseId::Limit,
        true,
    );
    check(
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        CauseId::Cudnn,
        false,
    );
    check(
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        CauseId::OutsideAllocator,
        false,
    );
    check(
        "NCCL WARN Cuda failure 2 'out of memory'",
        CauseId::OutsideAllocator,
        false,
    );
    check(
        "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at \"../c10/cuda/CUDACachingAllocator.cpp\":1, please report a bug to PyTorch.",
        CauseId::Mig,
        false,
    );
    check(
        "RuntimeError: !block->expandable_segment_ INTERNAL ASSERT FAILED at \"x.cpp\":1",
        CauseId::Fragmentation,
        false,
    );
    check(
        "Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.00 GiB (GPU  0; 15.00 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)",
        CauseId::FreeButFails,
        false,
    );
    check_second(
        "RuntimeError: CUDA error: out of memory",
        CauseId::OtherProcess,
    );
}

#[test]
fn the_moment_outweighs_a_full_card() {
    let text = FULL.second_generation("");
    let optimizer = "/env/site-packages/torch/optim/adamw.py";
    check(
        &raised(
            &[
                ("train.py", "main", "optimizer.step()"),
                (
                    optimizer,
                    "_init_group",
                    "state['exp_avg_sq'] = torch.zeros_like(p)",
                ),
            ],
            &text,
        ),
        CauseId::OptimizerFirstStep,
        true,
    );
    check(
        &raised(
            &[
                ("train.py", "main", "optimizer.step()"),
                (
                    optimizer,
                    "_multi_tensor_adamw",
                    "exp_avg_sq_sqrt = torch._foreach_sqrt(s)",
                ),
            ],
            &text,
        ),
        CauseId::OptimizerFirstStep,
        false,
    );
    check(
        &raised(
            &[
                ("train.py", "validate", "out = model(x)"),
                ("net.py", "forward", "return self.a(x)"),
            ],
            &text,
        ),
        CauseId::EvalPhase,
        false,
    );
    check(
        &raised(
            &[("train.py", "main", "torch.save(fsdp.state_dict(), path)")],
            &text,
        ),
        CauseId::LoadSaveResume,
        false,
    );
    check(
        &raised(&[("train.py", "main", "ckpt = torch.load(path)")], &text),
        CauseId::LoadSaveResume,
        false,
    );
    check(
        &raised(
            &[("train.py", "main", "loss.backward(retain_graph=True)")],
            &text,
        ),
        CauseId::AutogradRetention,
        false,
    );
    check(
        &raised(
            &[("train.py", "capture", "with torch.cuda.graph(g):")],
            &text,
        ),
        CauseId::CompileGraphs,
        false,
    );
    check(
        &raised(&[("train.py", "main", "loss.backward()")], &text),
        CauseId::TooBig,
        false,
    );
}

#[test]
fn a_script_points_at_the_line() {
    let text = raised(
        &[("train.py", "main", "loss.backward()")],
        &FULL.second_generation(""),
    );
    let script = "for x in loader:\n    loss = model(x)\n    total_loss += loss\n";
    let found = explain(&Input {
        text: &text,
        script: Some(script),
        ..Input::default()
    });
    assert_eq!(found.causes[0].id, CauseId::AutogradRetention);
    assert_eq!(found.suspects[0].line, 3);
    assert!(found.causes[0].evidence[0].contains("line 3"));
}

#[test]
fn every_cause_describes_itself_once() {
    let mut seen = Vec::new();
    for cause in causes() {
        assert!(!seen.contains(&cause.id), "{}", cause.id.word());
        seen.push(cause.id);
        for text in [cause.title, cause.meaning, cause.apart, cause.check] {
            assert!(!text.is_empty(), "{}", cause.id.word());
        }
        let json = serde_json::to_value(cause.id).unwrap();
        assert_eq!(json, cause.id.word());
    }
    assert_eq!(seen.len(), 22);
}
