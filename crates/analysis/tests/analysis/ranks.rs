//! What is said of several ranks: one line a case.

use crate::notation::profile;
use oomproof_analysis::{Answer, Circumstances, RankOf, Verdict, rank_of};
use oomproof_units::Bytes;

/// A step with this much memory.
fn step(size: &str) -> String {
    format!("reserved 40MiB; phase forward 1; alloc a {size}; phase backward 1; free a; step; ")
}

/// The verdict of ranks with these timelines, of a run whose starter ended with `code`.
fn judge(code: i32, timelines: &[String]) -> Verdict {
    let whole = Circumstances {
        exit_code: Some(code),
        ..Circumstances::default()
    };
    let verdicts = timelines.iter().enumerate().map(|(rank, timeline)| {
        let verdict = Verdict::from_rank(&profile(timeline), &whole).expect("settings are there");
        (rank as u32, verdict)
    });
    Verdict::of_ranks(verdicts.collect(), timelines.len() as u32).expect("there are ranks")
}

fn check(what: &str, code: i32, timelines: &[String], worst: u32, answer: Answer) {
    let verdict = judge(code, timelines);
    assert_eq!(
        (verdict.rank, verdict.verdict),
        (Some(worst), answer),
        "{what}: {:?}",
        verdict.reasons
    );
    let ranks = verdict.ranks.expect("all ranks are there");
    assert_eq!(ranks.len(), timelines.len());
}

const RETURNED: &str = r#"note {"kind":"exit","how":"return","code":0}"#;
const FAILED: &str =
    r#"note {"kind":"exit","how":"exception","exception":{"type":"ValueError","text":"no"}}"#;
const LEFT_ALONE: &str = r#"note {"kind":"exit","how":"exception","exception":{"type":"DistBackendError","text":"remote process exited"}}"#;
const ENDED: &str = r#"note {"kind":"exit","how":"signal","signal":15}"#;

#[test]
fn the_worst_rank_is_shown() {
    let fine = |size: &str| format!("{}{RETURNED}", step(size));
    let after = |size: &str, end: &str| format!("{}{end}", step(size));
    check(
        "the largest",
        0,
        &[fine("4MiB"), fine("9MiB").replace("40MiB", "50MiB")],
        1,
        Answer::Fits,
    );
    check(
        "of equals the first",
        0,
        &[fine("4MiB"), fine("4MiB")],
        0,
        Answer::Fits,
    );
    let oom = format!("phase forward 1; {}", "oom 8MiB free=2MiB refused=10MiB");
    check(
        "out of memory",
        1,
        &[after("9MiB", FAILED), oom, after("4MiB", ENDED)],
        1,
        Answer::DoesNotFit,
    );
    check(
        "what failed first",
        1,
        &[after("9MiB", ENDED), after("4MiB", FAILED)],
        1,
        Answer::Unknown,
    );
    check(
        "what failed because of it",
        1,
        &[after("9MiB", LEFT_ALONE), after("4MiB", FAILED)],
        1,
        Answer::Unknown,
    );
    check(
        "killed",
        1,
        &[after("9MiB", ""), after("4MiB", FAILED)],
        1,
        Answer::Unknown,
    );
    check(
        "a stop is no failure",
        1,
        &[
            after("4MiB", r#"note {"kind":"stop","reason":"steady"}"#),
            after("4MiB", FAILED),
        ],
        1,
        Answer::Unknown,
    );
}

#[test]
fn a_rank_without_a_last_word_was_killed() {
    let verdict = judge(1, &[step("4MiB"), step("4MiB")]);
    let text = &verdict.reasons[0].text;
    assert!(text.contains("ended without a word"), "{text}");
    let fine = judge(0, &[step("4MiB"), step("4MiB")]);
    assert_eq!(fine.verdict, Answer::Fits, "nobody says that it failed");
}

#[test]
fn ranks_on_one_device_must_fit_together() {
    let half = step("4MiB").replace("40MiB", "400MiB");
    let verdict = judge(0, &[half.clone(), half]);
    assert_eq!(verdict.verdict, Answer::Tight);
    let text = &verdict.reasons[0].text;
    assert!(text.contains("2 ranks on device 0"), "{text}");
}

#[test]
fn ranks_of_which_nothing_was_seen_are_named() {
    let whole = Circumstances::default();
    let verdict = Verdict::from_rank(&profile(&step("4MiB")), &whole).unwrap();
    let verdict = Verdict::of_ranks(vec![(1, verdict)], 4).unwrap();
    let missing = verdict
        .assumptions
        .iter()
        .find(|a| a.kind == "rank_missing");
    assert!(missing.unwrap().text.contains("0, 2, 3"));
    assert_eq!(Verdict::of_ranks(Vec::new(), 4), None);
}

#[test]
fn estimates_of_libraries_widen_the_range() {
    let timeline = format!(
        "used 650MiB; {}{}",
        r#"note {"kind":"library","device":0,"low":104857600,"likely":209715200,"high":419430400}; "#,
        step("4MiB")
    );
    let library = judge(0, &[timeline]).library_bytes;
    assert_eq!(library.likely - library.low, Bytes::from_mib(100));
    assert_eq!(library.high - library.likely, Bytes::from_mib(200));
}

#[test]
fn the_last_word_on_the_rank_counts() {
    let check = |timeline: &str, expected: Option<(u32, u32)>| {
        let found = rank_of(&profile(timeline)).map(|RankOf { rank, world }| (rank, world));
        assert_eq!(found, expected, "{timeline}");
    };
    check("", None);
    check(
        r#"note {"kind":"rank","rank":1,"world_size":2}"#,
        Some((1, 2)),
    );
    check(
        r#"note {"kind":"rank","rank":1,"world_size":2}; note {"kind":"rank","rank":0,"world_size":4}"#,
        Some((0, 4)),
    );
    check(r#"note {"kind":"rank","rank":5,"world_size":2}"#, None);
    check(r#"note {"kind":"rank","rank":"x","world_size":2}"#, None);
}
