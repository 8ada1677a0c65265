//! What is said of ordinary runs, one line a case.

use std::collections::BTreeSet;

use crate::notation::{bytes, profile, verdict};
use oomproof_analysis::{Answer, Circumstances, EndedBy, ReasonKind, Strictness, Verdict};
use oomproof_profile::Role;
use oomproof_units::Bytes;

/// A run that trains for two steps.
const TRAINS: &str = "alloc w 8MiB; label w parameter fc.weight; \
    phase forward 1; alloc a 4MiB m=fc; phase backward 1; alloc g 8MiB; free a; \
    phase optimizer 1; label g gradient fc.weight; alloc s 16MiB; label s optimizer-state fc.weight.exp_avg; free g; step; \
    phase forward 2; alloc a 4MiB m=fc; phase backward 2; alloc g 8MiB; free a; \
    phase optimizer 2; label g gradient fc.weight; free g; step";

fn roles(timeline: &str) -> String {
    let verdict = verdict(timeline);
    let shares = verdict.peak.roles.iter();
    let shares: Vec<_> = shares
        .map(|(role, bytes)| format!("{role} {}", bytes.as_mib()))
        .collect();
    let sum: Bytes = verdict.peak.roles.values().copied().sum();
    assert_eq!(sum, verdict.peak.allocated_bytes, "{timeline}");
    shares.join(", ")
}

fn check_roles(timeline: &str, expected: &str) {
    assert_eq!(roles(timeline), expected, "{timeline}");
}

#[test]
fn labels_hold_for_the_whole_life_of_a_block() {
    check_roles("alloc w 4MiB; label w parameter fc.weight", "parameter 4");
    check_roles(
        "phase backward 1; alloc g 4MiB; alloc t 1MiB; free t; phase optimizer 1; label g gradient; free g",
        "gradient 4, temporary 1",
    );
    check_roles(
        "alloc a 4MiB; label a parameter; free a; alloc b 8MiB; free b",
        "temporary 8",
    );
}

#[test]
fn what_the_device_saw_comes_next() {
    check_roles(
        "phase forward 1; alloc w 8MiB; touch w workspace; free w",
        "workspace 8",
    );
    check_roles(
        "phase idle; alloc x 3MiB; touch x input; phase forward 1",
        "input 3",
    );
    check_roles(
        "alloc w 8MiB; touch w input; label w parameter",
        "parameter 8",
    );
}

#[test]
fn times_of_life_tell_the_rest() {
    check_roles(
        "phase forward 1; alloc a 4MiB; phase backward 1; free a",
        "activation 4",
    );
    check_roles(
        "phase forward 1; alloc a 4MiB; free a; phase backward 1",
        "temporary 4",
    );
    check_roles(
        "phase forward 1; alloc a 4MiB; phase backward 1",
        "activation 4",
    );
    check_roles("phase forward 1; alloc a 4MiB", "activation 4");
    check_roles(
        "phase forward 1; alloc a 4MiB; phase backward 1; phase forward 3; step",
        "unknown 4",
    );
    check_roles(
        "phase forward 1; alloc logits 4MiB; phase backward 1; phase optimizer 1; phase forward 2; free logits",
        "activation 4",
    );
    check_roles(
        "phase forward 1; alloc a 4MiB; phase evaluation; free a",
        "temporary 4",
    );
    check_roles(
        "phase backward 1; alloc t 4MiB; free t; phase optimizer 1",
        "temporary 4",
    );
    check_roles(
        "phase backward 1; alloc g 4MiB; phase optimizer 1",
        "gradient 4",
    );
    check_roles(
        "phase optimizer 1; alloc t 4MiB; free t; phase idle",
        "temporary 4",
    );
    check_roles("phase optimizer 1; alloc s 4MiB; phase idle", "unknown 4");
    check_roles(
        "phase evaluation 1; alloc cache 4MiB; step; phase evaluation 2; free cache",
        "temporary 4",
    );
    check_roles(
        "phase evaluation; alloc x 4MiB; oom 1GiB; phase idle; free x",
        "temporary 4",
    );
    check_roles("alloc x 4MiB; oom 1GiB; free x", "unknown 4");
    check_roles("phase evaluation; alloc t 4MiB; free t", "temporary 4");
    check_roles(
        "phase evaluation; alloc cache 4MiB; phase idle",
        "unknown 4",
    );
    check_roles("alloc x 4MiB; phase forward 1", "unknown 4");
    check_roles("alloc x 4MiB; free x; phase forward 1", "temporary 4");
    check_roles(
        "phase forward 1; phase idle 1; alloc loss 4MiB; phase backward 1; free loss",
        "activation 4",
    );
    check_roles(
        "phase idle 1; alloc ema 4MiB; phase backward 1; free ema",
        "unknown 4",
    );
}

#[test]
fn what_unwinding_releases_is_not_temporary() {
    check_roles(
        "phase forward 1; alloc a 4MiB; oom 1GiB; free a",
        "activation 4",
    );
    check_roles(
        r#"phase forward 1; alloc a 4MiB; note {"kind":"exit","how":"sys.exit","code":0}; free a"#,
        "activation 4",
    );
    check_roles(
        "alloc w 2MiB; label w parameter; phase backward 1; alloc g 2MiB; alloc t 4MiB; oom 1GiB; phase idle; free t; free g",
        "parameter 2, gradient 2, temporary 4",
    );
}

#[test]
fn the_sum_is_pytorchs_own_even_when_records_are_missing() {
    check_roles(
        "base 3MiB; alloc w 4MiB; label w parameter",
        "unknown 3, parameter 4",
    );
    check_roles(
        TRAINS,
        "parameter 8, gradient 8, optimizer state 16, activation 4",
    );
}

#[test]
fn missing_records_are_named() {
    let kinds = |timeline| -> Vec<String> {
        let assumptions = verdict(timeline).assumptions;
        assumptions.into_iter().map(|found| found.kind).collect()
    };
    assert_eq!(kinds("alloc w 4MiB"), ["context_estimate"]);
    assert_eq!(
        kinds("base 3MiB; alloc w 4MiB"),
        ["allocation_not_recorded", "context_estimate"]
    );
}

#[test]
fn the_peak_is_the_first_highest_moment() {
    let peak =
        verdict("phase forward 1; alloc a 4MiB; phase backward 2; free a; alloc b 4MiB; free b")
            .peak;
    assert_eq!((peak.phase.word(), peak.step), ("forward", 1));
    let peak =
        verdict("phase forward 1; alloc a 4MiB; phase backward 2; alloc b 1MiB; free b").peak;
    assert_eq!((peak.phase.word(), peak.step), ("backward", 2));
    assert_eq!(verdict("").peak.allocated_bytes, Bytes::ZERO);
}

fn shares(timeline: &str) -> [String; 2] {
    let peak = verdict(timeline).peak;
    let modules = peak.modules.iter();
    let modules: Vec<_> = modules
        .map(|m| format!("{} {}", m.path, m.bytes.as_mib()))
        .collect();
    let sites = peak.sites.iter();
    let sites: Vec<_> = sites
        .map(|s| format!("{}:{} {} {}", s.file, s.line, s.function, s.bytes.as_mib()))
        .collect();
    [modules.join(", "), sites.join(", ")]
}

#[test]
fn modules_and_lines_come_largest_first_then_by_name() {
    let [modules, sites] = shares(
        "phase forward 1; alloc a 4MiB m=b s=t.py:9; alloc b 4MiB m=a s=t.py:10; alloc c 5MiB m=c s=s.py:1; alloc d 1MiB",
    );
    assert_eq!(modules, "c 5, a 4, b 4");
    assert_eq!(sites, "s.py:1 main 5, t.py:9 main 4, t.py:10 main 4");
}

#[test]
fn what_hangs_on_a_parameter_belongs_to_its_module() {
    let [modules, _] = shares(
        "alloc w 4MiB; label w parameter h.0.fc.weight; alloc n 1MiB; label n parameter scale; \
         phase backward 1; alloc g 8MiB m=other; label g gradient h.1.fc.weight; \
         alloc s 2MiB; label s optimizer-state h.0.fc.weight.exp_avg; alloc q 3MiB; label q optimizer-state h.0.fc.weight.q.0",
    );
    assert_eq!(modules, "h.0.fc 9, h.1.fc 8,  1");
}

#[test]
fn phases_carry_levels_in() {
    let verdict = verdict(
        "alloc w 4MiB; phase forward 1; alloc a 2MiB; phase backward 1; free a; phase idle; phase save",
    );
    let phases: Vec<_> = verdict
        .phases
        .iter()
        .map(|(phase, peak)| format!("{phase} {}", peak.allocated_bytes.as_mib()))
        .collect();
    assert_eq!(
        phases.join(", "),
        "load 4, forward 6, backward 6, save 4, idle 4"
    );
    let missing: Vec<_> = verdict
        .not_reached
        .iter()
        .map(|phase| phase.word())
        .collect();
    assert_eq!(missing, ["optimizer", "evaluation"]);
}

fn check_process(timeline: &str, expected: [u64; 3], library: u64) {
    let verdict = verdict(timeline);
    let process = verdict.peak.process_bytes;
    let found = [process.low, process.likely, process.high].map(|b| b.get() >> 20);
    assert_eq!(found, expected, "{timeline}");
    assert_eq!(
        verdict.library_bytes.likely.get() >> 20,
        library,
        "{timeline}"
    );
}

#[test]
fn the_process_takes_context_and_libraries_too() {
    check_process("alloc w 40MiB", [140, 190, 240], 0);
    check_process("reserved 60MiB; alloc w 40MiB", [160, 210, 260], 0);
    check_process(
        "used 190MiB; alloc w 40MiB; alloc b 1KiB",
        [142, 192, 242],
        0,
    );
    check_process(
        "used 222MiB; alloc w 40MiB; free w; alloc w 40MiB",
        [172, 222, 272],
        32,
    );
    check_process("used 222MiB; alloc w 40MiB", [140, 190, 240], 0);
}

struct Case<'a> {
    timeline: &'a str,
    exit_code: Option<i32>,
    ended_by: EndedBy,
}

fn script(timeline: &str) -> Case<'_> {
    Case {
        timeline,
        exit_code: Some(0),
        ended_by: EndedBy::Script,
    }
}

fn check_answer(case: &Case<'_>, expected: (Answer, &[ReasonKind], u8)) {
    let circumstances = Circumstances {
        exit_code: case.exit_code,
        signal: case.exit_code.is_none().then_some(9),
        ended_by: case.ended_by,
        ..Circumstances::default()
    };
    let verdict = Verdict::from_profile(&profile(case.timeline), &circumstances).unwrap();
    let kinds: Vec<_> = verdict.reasons.iter().map(|reason| reason.kind).collect();
    let found = (
        verdict.verdict,
        &kinds[..],
        verdict.exit_code(&circumstances),
    );
    assert_eq!(found, expected, "{}", case.timeline);
}

#[test]
fn answers() {
    use Answer::{DoesNotFit, Fits, Tight, Unknown};
    use ReasonKind as R;
    let then = |more: &str| format!("{TRAINS}; {more}");
    check_answer(&script(TRAINS), (Fits, &[], 0));
    check_answer(&script(&then("alloc x 780MiB; free x")), (Fits, &[], 0));
    check_answer(
        &script(&then("alloc x 820MiB; free x")),
        (Tight, &[R::UpperEndAboveCard], 0),
    );
    check_answer(
        &script(&then("alloc x 840MiB; free x")),
        (Tight, &[R::UpperEndAboveCard, R::LittleHeadroom], 0),
    );
    check_answer(
        &script(&then("alloc x 870MiB; free x")),
        (DoesNotFit, &[R::AboveCard], 10),
    );
    check_answer(
        &script(&then("oom 1GiB")),
        (DoesNotFit, &[R::OutOfMemory], 10),
    );
    check_answer(&script(&then("oom 1GiB; step")), (Fits, &[], 0));
    check_answer(&script(&then("lost")), (Unknown, &[R::RecordsLost], 11));
    check_answer(&script(""), (Unknown, &[R::DeviceUnused], 11));
    check_answer(
        &script("alloc w 4MiB"),
        (Unknown, &[R::NothingMeasured], 11),
    );
    check_answer(&script("phase evaluation; alloc w 4MiB"), (Fits, &[], 0));
    check_answer(
        &script("phase evaluation; alloc w 4MiB m=fc; oom 1GiB; alloc w 2MiB m=fc"),
        (Fits, &[], 0),
    );
    check_answer(
        &script("phase evaluation; alloc w 4MiB m=fc; oom 1GiB"),
        (DoesNotFit, &[R::OutOfMemory], 10),
    );
    check_answer(
        &script(&then(
            r#"note {"kind":"stop","reason":"timeout","waiting_for":"a save"}"#,
        )),
        (Unknown, &[R::TimedOut], 11),
    );
}

#[test]
fn answers_by_how_the_run_ended() {
    use Answer::{DoesNotFit, Fits, Unknown};
    use ReasonKind as R;
    let failed = |timeline| Case {
        exit_code: Some(1),
        ..script(timeline)
    };
    let killed = |timeline| Case {
        exit_code: None,
        ..script(timeline)
    };
    let ended_by = |ended_by| Case {
        ended_by,
        ..killed(TRAINS)
    };
    let steady = format!(r#"{TRAINS}; note {{"kind":"stop","reason":"steady"}}"#);
    let keeps = |growth: u64| {
        format!(r#"{TRAINS}; note {{"kind":"cut","batches":10,"of":20,"growth":{growth}}}"#)
    };
    check_answer(&script(&keeps(1 << 40)), (DoesNotFit, &[R::Growing], 10));
    check_answer(&script(&keeps(1)), (Fits, &[], 0));
    check_answer(&failed(TRAINS), (Unknown, &[R::ScriptFailed], 3));
    check_answer(&failed(&steady), (Fits, &[], 0));
    check_answer(
        &Case {
            ended_by: EndedBy::Timeout,
            ..script(&format!(
                r#"{steady}; note {{"kind":"stop","reason":"timeout"}}"#
            ))
        },
        (Fits, &[], 0),
    );
    check_answer(
        &failed("alloc w 4MiB; oom 1GiB"),
        (DoesNotFit, &[R::OutOfMemory], 10),
    );
    check_answer(
        &failed("phase evaluation; alloc w 4MiB"),
        (Unknown, &[R::ScriptFailed, R::NothingMeasured], 3),
    );
    check_answer(&killed(TRAINS), (Unknown, &[R::Signal], 3));
    check_answer(&ended_by(EndedBy::Timeout), (Unknown, &[R::TimedOut], 11));
    check_answer(
        &ended_by(EndedBy::Interrupt),
        (Unknown, &[R::Interrupted], 130),
    );
}

#[test]
fn strict_takes_tight_for_no_fit() {
    let circumstances = Circumstances {
        exit_code: Some(0),
        strictness: Strictness::Strict,
        ..Circumstances::default()
    };
    let check = |timeline: &str, expected| {
        let verdict = Verdict::from_profile(&profile(timeline), &circumstances).unwrap();
        assert_eq!(verdict.exit_code(&circumstances), expected);
    };
    check(TRAINS, 0);
    check(&format!("{TRAINS}; alloc x 820MiB"), 10);
}

#[test]
fn growth_that_fills_the_card_is_tight() {
    let leaking = |size: &str| {
        let steps = (1..=6).map(|step| {
            format!("phase forward {step}; alloc x{step} {size}; phase optimizer; step;")
        });
        verdict(&steps.collect::<String>())
    };
    let large = leaking("2MiB");
    assert_eq!(large.growth_bytes_per_step, Bytes::from_mib(2));
    assert_eq!(large.verdict, Answer::Tight);
    assert_eq!(
        large.reasons[0].text,
        "each step holds 2.00 MiB more than the one before, and the card is full after about 431 more"
    );
    let small = leaking("512");
    assert_eq!(small.growth_bytes_per_step, Bytes::new(512));
    assert_eq!(small.verdict, Answer::Fits);
}

#[test]
fn a_failure_is_told_in_the_words_of_the_exception() {
    let circumstances = Circumstances {
        exit_code: Some(1),
        ..Circumstances::default()
    };
    let check = |calls: &str, fields: &str, expected: &str| {
        let timeline = format!(
            r#"{TRAINS}; {calls}note {{"kind":"exit","how":"exception","exception":{{"type":"ValueError","text":"math domain error","file":"train.py","line":33{fields}}}}}"#
        );
        let verdict = Verdict::from_profile(&profile(&timeline), &circumstances).unwrap();
        assert_eq!(verdict.reasons[0].text, expected);
    };
    check(
        "",
        "",
        "the script failed with ValueError: math domain error (train.py:33)",
    );
    check(
        "",
        r#","missing":"the data set `imdb` is not on this machine""#,
        "the script failed with ValueError, because the data set `imdb` is not on this machine (train.py:33)",
    );
    check(
        "unsupported cufftPlan s=train.py:2; unsupported nppiSet s=train.py:5; ",
        "",
        "the script failed with ValueError: math domain error (train.py:33), after calling `nppiSet`, which is not supported",
    );
}

#[test]
fn out_of_memory_in_full() {
    let oom = verdict(
        r#"alloc w 700MiB; label w parameter; phase forward 1; alloc a 100MiB; oom 61MiB free=60MiB refused=62MiB m=fc s=t.py:7;
        note {"kind":"oom","message":"CUDA out of memory. Tried to allocate 62.00 MiB. GPU 0","file":"train.py","line":12,"function":"forward","phase":"forward","step":1}"#,
    )
    .oom
    .unwrap();
    assert_eq!(oom.r#where.as_deref(), Some("train.py:12 forward"));
    assert_eq!(oom.tried_bytes, Some(Bytes::from_mib(62)));
    assert_eq!(oom.requested_bytes, Some(Bytes::from_mib(61)));
    assert_eq!(oom.free_bytes, Some(Bytes::from_mib(60)));
    assert_eq!(
        oom.would_have_fitted_bytes,
        Some(Bytes::from_mib(1024 - 60 + 62))
    );
    assert_eq!(oom.module.as_deref(), Some("fc"));
    let held: Vec<_> = oom
        .held_by
        .iter()
        .map(|(role, bytes)| format!("{role} {}", bytes.as_mib()))
        .collect();
    assert_eq!(held, ["parameter 700", "activation 100"]);
    assert!(!oom.survived);
}

#[test]
fn out_of_memory_without_its_message() {
    let check = |timeline: &str, sufficient: &str| {
        let oom = verdict(timeline).oom.unwrap();
        assert_eq!(oom.message, None);
        assert_eq!(
            oom.would_have_fitted_bytes,
            Some(Bytes::new(bytes(sufficient))),
            "{timeline}"
        );
    };
    check("oom 61MiB free=60MiB refused=62MiB", "1026MiB");
    check("oom 61MiB free=60MiB", "1026MiB");
    check("oom 61MiB free=60MiB refused=2MiB", "1025MiB");
}

#[test]
fn what_would_have_sufficed_has_room_for_the_context() {
    // The context of 150 MiB did not fit beside what others hold, so that nothing more counted as in use.
    let check = |timeline: &str, mib: u64| {
        let oom = verdict(timeline).oom.unwrap();
        assert_eq!(oom.would_have_fitted_bytes, Some(Bytes::from_mib(mib)));
    };
    check("oom 1MiB free=0MiB refused=2MiB", 1026);
    check("alloc w 900MiB; oom 1MiB free=0MiB refused=2MiB", 1052);
}

#[test]
fn a_limit_of_the_script_is_not_the_card_s() {
    let oom = verdict("oom 61MiB free=300MiB refused=62MiB").oom.unwrap();
    assert_eq!(oom.free_bytes, Some(Bytes::from_mib(300)));
    assert_eq!(oom.would_have_fitted_bytes, None);
}

fn check_assumption(timeline: &str, expected: &str) {
    let found = verdict(timeline).assumptions.remove(0);
    let place = found.r#where.unwrap_or_default();
    assert_eq!(
        format!("{} {} [{place}]", found.kind, found.text),
        expected,
        "{timeline}"
    );
}

#[test]
fn assumptions() {
    check_assumption(
        "unknown-read 4 reduce_kernel s=t.py:3; unknown-read 4 reduce_kernel s=t.py:3",
        "unknown_value read 4 bytes of unknown device memory (last written by reduce_kernel), 0 was assumed; 2 times [t.py:3]",
    );
    check_assumption(
        "unknown-read 1 k given=1 s=t.py:3; unknown-read 8 k s=t.py:3",
        "unknown_value read 1 to 8 bytes of unknown device memory (last written by k), various values were assumed; 2 times [t.py:3]",
    );
    check_assumption(
        "unknown-read 4 k given=1065353216 basis=number",
        "unknown_number read 4 bytes of unknown numbers (last written by k), 1.0 was given []",
    );
    check_assumption(
        "unknown-read 4 k given=1065353216 basis=number; unknown-read 4 k given=1065017672 basis=number",
        "unknown_number read 4 bytes of unknown numbers (last written by k), numbers that fall slowly from 1.0 were given; 2 times []",
    );
    check_assumption(
        "unknown-read 8 k s=t.py:3 basis=policy hangs-on=it_was_so assumed-at=t.py:2; unknown-read 8 l s=t.py:3 basis=policy hangs-on=it_was_so assumed-at=t.py:2",
        "assumed_value it was so at t.py:2, which the value that was read hangs on (8 bytes); 2 times [t.py:3]",
    );
    check_assumption(
        "unknown-read 1 k s=t.py:3 basis=health hangs-on=all_is_well assumed-at=t.py:3",
        "assumed_health all is well, which the value that was read hangs on (1 byte) [t.py:3]",
    );
    check_assumption(
        "unknown-read 9 k s=t.py:3 basis=data; unknown-read 8 l s=t.py:3 basis=data",
        "unknown_data 8 to 9 bytes of unknown data were copied to the host; 2 times [t.py:3]",
    );
    check_assumption(
        "unknown-read 9 k s=t.py:3@offload basis=data; unknown-read 8 l s=t.py:4@offload",
        "plan_reads the plan's `offload` read device memory whose values are not known 2 times; the script itself does not []",
    );
    check_assumption(
        "unknown-read 9 k s=t.py:3@offload; unknown-read 8 l s=t.py:3",
        "unknown_value read 8 bytes of unknown device memory (last written by l), 0 was assumed [t.py:3]",
    );
    check_assumption(
        "unknown-read 8 k s=t.py:3 given=5 basis=user",
        "given_value read 8 bytes of unknown device memory (last written by k), and was given what `--assume` says [t.py:3]",
    );
    check_assumption(
        r#"note {"kind":"skipped_init","tensors":8,"bytes":3145728}; note {"kind":"skipped_init","tensors":4,"bytes":1048576}"#,
        "skipped_init the initialization of 12 parameters (4.00 MiB) was skipped []",
    );
    check_assumption(
        r#"note {"kind":"redirected","path":"a.pt","operation":"write"}; note {"kind":"redirected","path":"a.pt","operation":"rename"}"#,
        "writes_redirected what the script wrote to a.pt went to a scratch folder []",
    );
    check_assumption(
        r#"note {"kind":"redirected","path":"b.pt","operation":"write"}; note {"kind":"redirected","path":"a.pt","operation":"write"}"#,
        "writes_redirected what the script wrote to 2 paths, such as a.pt, went to a scratch folder []",
    );
    check_assumption(
        r#"note {"kind":"assumption","assumption":"library_workspace","text":"a workspace of 0 was assumed","where":"t.py:1"}"#,
        "library_workspace a workspace of 0 was assumed [t.py:1]",
    );
    check_assumption(
        "alloc w 1MiB; device 1; alloc v 1MiB",
        "one_device_shown the process used 2 devices; the figures are those of the fullest []",
    );
    check_assumption(
        r#"alloc a 4MiB; step; alloc b 4MiB; step; free b; step; step; note {"kind":"stop","reason":"varying"}"#,
        "peak_varies the peak of a step varied between 4.00 MiB and 8.00 MiB and the run was stopped after 4 steps; a later step may be higher []",
    );
    check_assumption(
        r#"alloc w 1MiB; step; step; step; note {"kind":"stop","reason":"steady"}"#,
        "rest_not_run the run was stopped after 3 steps; what the script does after them (longer inputs, evaluation, saving) is not in the figures, and --full runs it []",
    );
    check_assumption(
        r#"note {"kind":"cut","where":"t.py:7","batches":4,"of":100}"#,
        "loops_cut a loop over data was ended after 4 of 100 batches, when its peak was known; --full runs it whole [t.py:7]",
    );
    check_assumption(
        r#"note {"kind":"cut","where":"t.py:7","batches":4}; note {"kind":"cut","where":"t.py:9","batches":3,"of":5}"#,
        "loops_cut 2 loops over data were ended when their peak was known, the first after 4 batches; --full runs them whole [t.py:7]",
    );
    check_assumption(
        r#"note {"kind":"missing_functions","library":"fast.so","functions":["cudaFancy","cuOther"],"where":"t.py:3"}"#,
        "missing_functions fast.so needs functions that are not modeled: cudaFancy, cuOther; it does not work here, and what the script does without it may take other memory [t.py:3]",
    );
    check_assumption(
        r#"note {"kind":"missing_functions","library":"fast.so","functions":[],"libraries":["libnppitc.so.12"]}"#,
        "missing_functions fast.so needs libraries that are not modeled: libnppitc.so.12; it does not work here, and what the script does without it may take other memory []",
    );
    let epoch =
        |name: &str| format!(r#"alloc {name} 2MiB; step; note {{"kind":"cut","training":true}}"#);
    check_assumption(
        &["a", "b", "c", "d", "e"].map(epoch).join("; "),
        "epochs_grow each epoch held 2.00 MiB more than the one before; later ones were not run []",
    );
    check_assumption(
        "",
        "context_estimate the CUDA context is estimated to take 150.00 MiB (100.00 MiB to 200.00 MiB) []",
    );
}

#[test]
fn what_was_not_seen() {
    let check = |timeline: &str, kinds: &[&str]| {
        let assumptions = verdict(timeline).assumptions;
        let found: Vec<_> = assumptions.iter().map(|each| each.kind.as_str()).collect();
        assert_eq!(found, kinds, "{timeline}");
    };
    check(
        "alloc w 1MiB; unknown-read 4 k; step",
        &["unknown_value", "single_step", "context_estimate"],
    );
    check(
        "alloc w 1MiB; unknown-read 4 k; step; step",
        &["unknown_value", "context_estimate"],
    );
    check(
        "alloc w 1MiB; unknown-read 4 k; step; oom 8MiB free=2MiB refused=10MiB",
        &["unknown_value", "context_estimate"],
    );
    check("alloc w 1MiB; step", &["context_estimate"]);
    check(
        r#"alloc w 1MiB; unknown-read 4 k; step; note {"kind":"stop","reason":"steps"}"#,
        &["unknown_value", "rest_not_run", "context_estimate"],
    );
    check(
        r#"alloc w 1MiB; step; note {"kind":"stop","reason":"timeout"}"#,
        &["context_estimate"],
    );
}

/// A run whose verdict has something in every field.
fn eventful() -> Verdict {
    let timeline = format!(
        r#"note {{"kind":"python","version":"3.11.9","torch":"2.15.0+cu132","cuda":"13.2"}}; {TRAINS};
        unsupported cufftPlan s=train.py:5; unsupported cufftPlan s=train.py:6; unknown-read 4 reduce_kernel s=train.py:9;
        phase forward 3; alloc x 16MiB m=fc s=train.py:4; oom 1GiB free=700MiB refused=1GiB s=train.py:4;
        note {{"kind":"oom","message":"CUDA out of memory. Tried to allocate 1.00 GiB.","file":"train.py","line":4,"function":"main"}}"#
    );
    verdict(&timeline)
}

#[test]
fn the_json_of_a_small_run() {
    insta::assert_json_snapshot!(eventful());
}

#[test]
fn every_field_is_documented() {
    fn keys(value: &serde_json::Value, into: &mut BTreeSet<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    into.insert(key.clone());
                    keys(value, into);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| keys(value, into)),
            _ => {}
        }
    }
    let page = include_str!("../../../../docs/verdict.md");
    let words: BTreeSet<&str> = page
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .collect();
    let mut names = BTreeSet::new();
    keys(&serde_json::to_value(eventful()).unwrap(), &mut names);
    let known = |name: &String| Role::ALL.iter().any(|role| role.word() == name);
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !known(name) && !words.contains(name.as_str()))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
    assert!(names.len() > 40, "{names:?}");
}

#[test]
fn json_comes_back_as_it_was() {
    let verdict = verdict(TRAINS);
    let json = serde_json::to_string(&verdict).unwrap();
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
}

#[test]
fn a_profile_without_settings_has_no_verdict() {
    let mut profile = profile("alloc a 4MiB");
    profile.records.remove(0);
    let error = Verdict::from_profile(&profile, &Circumstances::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the profile does not say which device it is of"
    );
}
