//! Hand-made verdicts and how they read. The snapshots are plain text: color is stripped as for a file.

use oomproof_analysis::{
    Answer, AskedBy, Assumption, Device, Estimate, ModuleShare, Oom, Peak, PhasePeak, Reason,
    ReasonKind, Script, SiteShare, Unsupported, Verdict,
};
use oomproof_profile::{Phase, Role};
use oomproof_units::Bytes;

use super::*;

const fn mib(count: u64) -> Bytes {
    Bytes::from_mib(count)
}

/// A run that fits with room to spare.
pub(crate) fn sample() -> Verdict {
    let context = Estimate {
        low: mib(289),
        likely: mib(425),
        high: mib(681),
    };
    Verdict {
        schema: 1,
        verdict: Answer::Fits,
        reasons: vec![],
        device: Device {
            name: "NVIDIA GeForce RTX 4090".into(),
            total_bytes: mib(24_080),
            compute_capability: "8.9".into(),
            reserved_by_others_bytes: Bytes::ZERO,
            index: 0,
        },
        torch: "2.15.0+cu132".into(),
        cuda: "13.2".into(),
        conf: None,
        peak: Peak {
            allocated_bytes: mib(8236),
            reserved_bytes: mib(8980),
            process_bytes: Estimate::exact(mib(8980)) + context,
            headroom_bytes: i64::try_from(mib(24_080 - 8980 - 425).get()).unwrap(),
            phase: Phase::Backward,
            step: 2,
            roles: [
                (Role::Parameter, mib(475)),
                (Role::Gradient, mib(475)),
                (Role::OptimizerState, mib(950)),
                (Role::Activation, mib(6000)),
                (Role::Temporary, mib(300)),
                (Role::Unknown, mib(36)),
            ]
            .into(),
            modules: vec![
                ModuleShare {
                    path: "lm_head".into(),
                    bytes: mib(2400),
                },
                ModuleShare {
                    path: String::new(),
                    bytes: mib(1200),
                },
                ModuleShare {
                    path: "transformer.h.11.attention.projection.dropout".into(),
                    bytes: mib(96),
                },
            ],
            sites: vec![SiteShare {
                file: "/env/lib/python3.11/site-packages/torch/nn/functional.py".into(),
                line: 3462,
                function: "cross_entropy".into(),
                bytes: mib(1570),
            }],
        },
        context_bytes: context,
        library_bytes: Estimate::default(),
        beside_bytes: Estimate::default(),
        other_processes: vec![],
        phases: [
            (
                Phase::Forward,
                PhasePeak {
                    allocated_bytes: mib(7900),
                    reserved_bytes: mib(8500),
                },
            ),
            (
                Phase::Backward,
                PhasePeak {
                    allocated_bytes: mib(8236),
                    reserved_bytes: mib(8980),
                },
            ),
        ]
        .into(),
        not_reached: vec![Phase::Evaluation, Phase::Save],
        steps_measured: 3,
        step_device_ns: None,
        growth_bytes_per_step: Bytes::ZERO,
        assumptions: vec![Assumption {
            kind: "context_estimate".into(),
            text: "the CUDA context is estimated to take 425.00 MiB (289.00 MiB to 681.00 MiB)"
                .into(),
            r#where: None,
        }],
        unsupported: vec![],
        oom: None,
        script: Script {
            exit_code: Some(0),
            signal: None,
        },
        rank: None,
        ranks: None,
        profile: "profiles/train.oomprofile".into(),
    }
}

fn out_of_memory() -> Verdict {
    let mut verdict = sample();
    verdict.verdict = Answer::DoesNotFit;
    verdict.reasons = vec![Reason {
        kind: ReasonKind::OutOfMemory,
        text: "PyTorch ran out of memory in phase forward".into(),
    }];
    verdict.device.name = "NVIDIA GeForce RTX 4060".into();
    verdict.device.total_bytes = mib(7806);
    verdict.peak.allocated_bytes = mib(7100);
    verdict.peak.reserved_bytes = mib(7200);
    verdict.peak.roles = [(Role::Parameter, mib(475)), (Role::Activation, mib(6425))].into();
    verdict.oom = Some(Oom {
        asked_by: AskedBy::Pytorch,
        message: Some(
            "CUDA out of memory. Tried to allocate 1.54 GiB. GPU 0 has a total capacity of 7.62 GiB of which \
             341.00 MiB is free."
                .into(),
        ),
        phase: Phase::Forward,
        r#where: Some("train.py:87 forward".into()),
        tried_bytes: Some(mib(1577)),
        requested_bytes: Some(mib(1570)),
        free_bytes: Some(mib(341)),
        reserved_bytes: Some(mib(7200)),
        held_by: [(Role::Parameter, mib(475)), (Role::Activation, mib(6425))].into(),
        held_by_others: vec![],
        would_have_fitted_bytes: Some(mib(9042)),
        survived: false,
        step: 1,
        module: Some("lm_head".into()),
    });
    verdict.script.exit_code = Some(1);
    verdict
}

fn shown(verdict: &Verdict, glyphs: Glyphs) -> String {
    anstream::adapter::strip_str(&render(verdict, glyphs)).to_string()
}

fn check_first(change: impl FnOnce(&mut Verdict), expected: &str) {
    let mut verdict = sample();
    change(&mut verdict);
    let line = first_line(&verdict);
    assert_eq!(anstream::adapter::strip_str(&line).to_string(), expected);
}

fn assumed(kind: &str) -> Assumption {
    Assumption {
        kind: kind.into(),
        text: "read 1 byte of unknown device memory, 1 was assumed".into(),
        r#where: Some("train.py:12".into()),
    }
}

#[test]
fn fits() {
    insta::assert_snapshot!(shown(&sample(), Glyphs::Unicode));
}

#[test]
fn fits_in_ascii() {
    let text = shown(&sample(), Glyphs::Ascii);
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn does_not_fit() {
    insta::assert_snapshot!(shown(&out_of_memory(), Glyphs::Ascii));
}

#[test]
fn does_not_fit_and_python_never_saw_it() {
    let mut verdict = out_of_memory();
    let oom = verdict.oom.as_mut().unwrap();
    oom.message = None;
    oom.r#where = None;
    oom.module = None;
    oom.requested_bytes = None;
    oom.would_have_fitted_bytes = None;
    insta::assert_snapshot!(shown(&verdict, Glyphs::Ascii));
}

#[test]
fn survived() {
    let mut verdict = out_of_memory();
    verdict.verdict = Answer::Fits;
    verdict.reasons = vec![];
    verdict.oom.as_mut().unwrap().survived = true;
    verdict.script.exit_code = Some(0);
    insta::assert_snapshot!(shown(&verdict, Glyphs::Ascii));
}

#[test]
fn above_the_card_by_estimate() {
    let mut verdict = sample();
    verdict.verdict = Answer::DoesNotFit;
    verdict.device.total_bytes = mib(9200);
    verdict.device.reserved_by_others_bytes = mib(512);
    verdict.peak.headroom_bytes = -i64::try_from(mib(717).get()).unwrap();
    verdict.library_bytes = Estimate {
        low: mib(0),
        likely: mib(10),
        high: mib(64),
    };
    verdict.growth_bytes_per_step = mib(3);
    insta::assert_snapshot!(shown(&verdict, Glyphs::Ascii));
}

#[test]
fn a_figure_is_exact_only_where_nothing_in_it_is_an_estimate() {
    let check = |verdict: &Verdict, allocated: &str, reserved: &str| {
        let text = shown(verdict, Glyphs::Ascii);
        for (name, expected) in [("peak allocated", allocated), ("peak reserved", reserved)] {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            assert!(line.contains(expected), "{line}");
        }
    };
    check(&sample(), " exact, in", " exact");
    let mut scratch = sample();
    scratch.assumptions[0].kind = "library_scratch".into();
    check(&scratch, " exact, in", " exact");
    scratch.peak.process_bytes.low = scratch.peak.process_bytes.low.saturating_sub(mib(100));
    check(
        &scratch,
        " with likely scratch memory of libraries, in",
        " estimate, 8.67 GiB to 8.77 GiB",
    );
    let mut pool = sample();
    pool.assumptions[0].kind = "driver_pool".into();
    check(&pool, " exact, in", " estimate, as the driver's own pool");
}

#[test]
fn nothing_was_used() {
    let mut verdict = sample();
    verdict.verdict = Answer::Unknown;
    verdict.reasons = vec![Reason {
        kind: ReasonKind::DeviceUnused,
        text: "the script allocated no device memory".into(),
    }];
    verdict.peak.reserved_bytes = Bytes::ZERO;
    verdict.peak.allocated_bytes = Bytes::ZERO;
    verdict.script = Script {
        exit_code: None,
        signal: Some(9),
    };
    insta::assert_snapshot!(shown(&verdict, Glyphs::Ascii));
}

#[test]
fn long_lists_end_with_the_rest() {
    let mut verdict = sample();
    verdict.peak.modules = (0..12)
        .map(|layer| ModuleShare {
            path: format!("h.{layer}"),
            bytes: mib(100),
        })
        .collect();
    verdict.assumptions = (0..11).map(|_| assumed("unknown_value")).collect();
    verdict.unsupported = vec![
        Unsupported {
            function: "cusolverDnXsyevd".into(),
            count: 4,
            r#where: Some("train.py:9".into()),
            library: "libcusolver.so.12".into(),
        },
        Unsupported {
            function: "cufftExecC2C".into(),
            count: 1,
            r#where: None,
            library: "libcufft.so.12".into(),
        },
    ];
    insta::assert_snapshot!(shown(&verdict, Glyphs::Ascii));
}

#[test]
fn first_lines() {
    let about = "about 9.18 GiB with context (9.05 GiB to 9.43 GiB)";
    check_first(
        |_| {},
        &format!(
            "fits: peak 8.04 GiB of 23.52 GiB on NVIDIA GeForce RTX 4090 (allocated), {about}"
        ),
    );
    check_first(
        |verdict| verdict.verdict = Answer::Tight,
        &format!(
            "tight: peak 8.04 GiB of 23.52 GiB on NVIDIA GeForce RTX 4090 (allocated), {about}"
        ),
    );
    check_first(
        |verdict| verdict.verdict = Answer::DoesNotFit,
        &format!(
            "does not fit: {about} is above the 23.52 GiB on NVIDIA GeForce RTX 4090; peak 8.04 GiB allocated"
        ),
    );
    check_first(
        |verdict| verdict.verdict = Answer::Unknown,
        &format!(
            "unknown: at least 8.04 GiB of 23.52 GiB on NVIDIA GeForce RTX 4090 (allocated), {about}"
        ),
    );
    check_first(
        |verdict| *verdict = out_of_memory(),
        "does not fit: out of memory in step 1, forward, with 6.74 GiB allocated of 7.62 GiB on NVIDIA GeForce RTX 4060",
    );
}

#[test]
fn first_lines_say_how_far_the_run_went() {
    let rest = "peak 8.04 GiB of 23.52 GiB on NVIDIA GeForce RTX 4090 (allocated), \
                about 9.18 GiB with context (9.05 GiB to 9.43 GiB)";
    let stopped = |answer: Answer, not_reached: &[Phase]| {
        let not_reached = not_reached.to_vec();
        move |verdict: &mut Verdict| {
            verdict.verdict = answer;
            verdict.not_reached = not_reached;
            verdict.assumptions = vec![assumed("rest_not_run")];
        }
    };
    check_first(
        stopped(Answer::Fits, &[Phase::Evaluation]),
        &format!("training fits: {rest}"),
    );
    check_first(
        stopped(Answer::Tight, &[Phase::Evaluation]),
        &format!("training is tight: {rest}"),
    );
    check_first(
        stopped(Answer::Fits, &[Phase::Save]),
        &format!("so far it fits: {rest}"),
    );
}

#[test]
fn a_first_line_warns_of_growth() {
    check_first(
        |verdict| verdict.growth_bytes_per_step = Bytes::from_kib(512),
        "fits: peak 8.04 GiB of 23.52 GiB on NVIDIA GeForce RTX 4090 (allocated), \
         about 9.18 GiB with context (9.05 GiB to 9.43 GiB), and grows by 512.00 KiB a step",
    );
}

#[test]
fn first_lines_name_only_assumptions_that_matter_to_the_figure() {
    let rest = "peak 8.04 GiB of 23.52 GiB on NVIDIA GeForce RTX 4090 (allocated), \
                about 9.18 GiB with context (9.05 GiB to 9.43 GiB)";
    check_first(
        |verdict| verdict.assumptions.push(assumed("unknown_value")),
        &format!("fits, if the assumption below holds: {rest}"),
    );
    check_first(
        |verdict| {
            verdict
                .assumptions
                .extend([assumed("generic_card"), assumed("unknown_value")]);
        },
        &format!("fits, if the 2 assumptions below hold: {rest}"),
    );
    check_first(
        |verdict| verdict.assumptions.push(assumed("writes_redirected")),
        &format!("fits: {rest}"),
    );
}
