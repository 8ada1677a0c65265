//! What is said of several processes of one script on one card of 1 GiB, whose contexts take 100 to 200 MiB, likely 150.

use crate::notation::{MIB, profile};
use oomproof_analysis::{Answer, Circumstances, Verdict};
use oomproof_profile::{Profile, Record};
use oomproof_units::Bytes;

const STARTED: u64 = 7;

/// A process that lived from second to second.
fn process(pid: u64, [from, to]: [u64; 2], timeline: &str) -> Profile {
    const SECOND: u64 = 1_000_000_000;
    let started = from * SECOND;
    let begin = format!(r#"note {{"kind":"process","parent":1,"started_unix_nanos":{started}}}; "#);
    let mut profile = profile(&(begin + timeline));
    profile.pid = pid;
    profile.records.push(Record::Note {
        nanos: (to - from) * SECOND,
        json: r#"{"kind":"end"}"#.to_owned(),
    });
    profile
}

/// A process that trains with this much reserved.
fn trains(pid: u64, life: [u64; 2], reserved: &str) -> Profile {
    let step = "phase forward 1; alloc a 4MiB; phase backward 1; free a; step; ";
    process(pid, life, &format!("reserved {reserved}; {step}"))
}

fn judge(profiles: &[Profile]) -> (u64, Verdict) {
    let whole = Circumstances {
        exit_code: Some(0),
        ..Circumstances::default()
    };
    let judged = Verdict::of_processes(profiles, STARTED, &whole).expect("settings are there");
    let (at, verdict) = judged.expect("there are profiles");
    (profiles[at].pid, verdict)
}

fn check(what: &str, profiles: &[Profile], shown: u64, answer: Answer) -> Verdict {
    let (pid, verdict) = judge(profiles);
    assert_eq!(
        (pid, verdict.verdict),
        (shown, answer),
        "{what}: {:?}",
        verdict.reasons
    );
    verdict
}

const GAVE_UP: &str = r#"reserved 40MiB; phase forward 1; alloc a 4MiB;
    note {"kind":"holders","device":0,"processes":[{"pid":7,"bytes":629145600}]}; oom 400MiB free=200MiB refused=400MiB"#;

#[test]
fn one_process_is_judged_alone() {
    let profiles = [trains(STARTED, [0, 9], "40MiB")];
    let verdict = check("alone", &profiles, STARTED, Answer::Fits);
    assert_eq!(
        (verdict.other_processes.len(), verdict.beside_bytes.high),
        (0, Bytes::ZERO)
    );
    check(
        "a child alone",
        &[trains(8, [0, 9], "40MiB")],
        8,
        Answer::Fits,
    );
}

#[test]
fn a_child_that_ran_out_of_memory_decides() {
    let child = |life| process(8, life, GAVE_UP);
    let parent = trains(STARTED, [0, 9], "450MiB");
    let profiles = [parent.clone(), child([2, 3])];
    let verdict = check("because of its parent", &profiles, 8, Answer::DoesNotFit);
    assert_eq!(
        verdict.reasons[0].text,
        "PyTorch ran out of memory in process 8, which the script started, in phase forward of step 1, while \
         process 7 of the script held 600.00 MiB of the card"
    );
    let oom = verdict.oom.expect("memory ran out");
    assert_eq!(oom.held_by_others[0].bytes, Bytes::new(600 * MIB));

    // A process that was started later and trained is a second try; one beside it is none.
    let again = trains(9, [5, 6], "40MiB");
    let profiles = [
        process(STARTED, [0, 9], "reserved 2MiB"),
        child([2, 3]),
        again,
    ];
    check("tried again", &profiles, 9, Answer::Fits);
    let beside = trains(9, [1, 6], "40MiB");
    let profiles = [
        process(STARTED, [0, 9], "reserved 2MiB"),
        child([2, 3]),
        beside,
    ];
    check("another one beside it", &profiles, 8, Answer::DoesNotFit);
}

#[test]
fn the_process_that_trains_is_shown() {
    let idle = process(STARTED, [0, 9], "alloc a 30MiB");
    check(
        "a child trains",
        &[idle, trains(8, [1, 5], "20MiB")],
        8,
        Answer::Fits,
    );
    let both = [trains(STARTED, [0, 9], "20MiB"), trains(8, [1, 5], "60MiB")];
    check("both train", &both, STARTED, Answer::Fits);
}

#[test]
fn together_they_need_the_card() {
    let seen = |mib: u64| {
        let bytes = mib * MIB;
        format!(r#"note {{"kind":"beside","device":0,"together":{bytes}}}"#)
    };
    let with = |seen: &str| {
        let step = "phase forward 1; alloc a 4MiB; phase backward 1; free a; step; ";
        process(8, [1, 5], &format!("reserved 300MiB; {step}{seen}"))
    };
    let held = |together, answer, beside: [u64; 3]| {
        let profiles = [trains(STARTED, [0, 9], "300MiB"), with(&seen(together))];
        let verdict = check("together", &profiles, STARTED, answer);
        let [low, likely, high] = beside.map(|mib| Bytes::new(mib * MIB));
        let found = verdict.beside_bytes;
        assert_eq!((found.low, found.likely, found.high), (low, likely, high));
        let left = 1024 - 450 - beside[1];
        assert_eq!(
            verdict.peak.headroom_bytes,
            i64::try_from(left * MIB).unwrap()
        );
        let other = &verdict.other_processes[0];
        assert_eq!(
            (other.pid, other.reserved_bytes),
            (8, Bytes::new(300 * MIB))
        );
    };
    // Each likely takes 450 MiB and at most 500, and the card has 1024.
    held(900, Answer::Fits, [400, 450, 500]);
    held(600, Answer::Fits, [100, 150, 500]);
    // More than the peak of the other one is not its.
    held(1000, Answer::Fits, [400, 450, 500]);
    // One that had ended before this one began holds nothing beside it.
    let gone = [
        trains(STARTED, [5, 9], "300MiB"),
        trains(8, [1, 2], "300MiB"),
    ];
    let (_, verdict) = judge(&gone);
    assert_eq!(verdict.beside_bytes.high, Bytes::ZERO);
    // Two at once do not fit at their upper ends, two in turn do.
    let children = |second: [u64; 2]| {
        [
            trains(STARTED, [0, 9], "100MiB"),
            trains(8, [1, 3], "250MiB"),
            trains(9, second, "250MiB"),
        ]
    };
    check("in turn", &children([4, 5]), STARTED, Answer::Fits);
    check("at once", &children([2, 5]), STARTED, Answer::Tight);
}
