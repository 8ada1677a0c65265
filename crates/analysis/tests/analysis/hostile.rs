//! Profiles that no run wrote: nothing panics, and the roles still add up.

use crate::notation::profile;
use oomproof_analysis::{Circumstances, Verdict};
use oomproof_profile::{
    AllocatorEvent, Basis, DriverAction, OutOfMemory, Phase, Record, Role, Touch, UnknownRead,
};
use oomproof_units::Bytes;
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..40_u64, Just(u64::MAX), Just(1 << 63), any::<u64>()]
}

fn id() -> impl Strategy<Value = u32> {
    prop_oneof![0..4_u32, Just(u32::MAX)]
}

fn phase() -> impl Strategy<Value = Phase> {
    prop::sample::select(Phase::ALL)
}

prop_compose! {
    fn event()(
        [address, size, allocated, reserved] in [number(), number(), number(), number()],
        [step, site, module] in [id(), id(), id()],
        phase in phase(),
        device in 0..3_u8,
    ) -> AllocatorEvent {
        AllocatorEvent { nanos: 0, address, size, allocated, reserved, device, phase, step, site, module }
    }
}

prop_compose! {
    fn out_of_memory()(
        event in event(),
        [requested, free, total] in [number(), number(), number()],
    ) -> OutOfMemory {
        let AllocatorEvent { allocated, reserved, device, phase, step, site, module, .. } = event;
        OutOfMemory { nanos: 0, requested, allocated, reserved, free, total, device, phase, step, site, module }
    }
}

fn record() -> impl Strategy<Value = Record> {
    let notes = prop::sample::select(vec![
        r#"{"kind":"oom","message":"Tried to allocate 99999999999999999999 GiB","line":-1}"#,
        r#"{"kind":"oom","phase":7}"#,
        r#"{"kind":"exit","exception":[]}"#,
        r#"{"kind":"skipped_init","bytes":18446744073709551615,"tensors":1}"#,
        r#"{"kind":"stop","reason":"varying"}"#,
        r#"{"kind":"settings"}"#,
        "[]",
        "{",
    ]);
    prop_oneof![
        event().prop_map(Record::Alloc),
        event().prop_map(Record::Free),
        "[a-z. ]{0,6}".prop_map(Record::Text),
        [id(), id(), id()].prop_map(|[file, line, function]| Record::Site {
            file,
            line,
            function
        }),
        [id(), id()].prop_map(|[path, class]| Record::Module { path, class }),
        (
            number(),
            number(),
            prop::sample::select(DriverAction::ALL),
            0..3_u8
        )
            .prop_map(|(size, used, action, device)| Record::Driver {
                nanos: 0,
                action,
                device,
                address: 0,
                size,
                used
            }),
        (phase(), id()).prop_map(|(phase, step)| Record::Phase {
            nanos: 0,
            phase,
            step
        }),
        (number(), prop::sample::select(Role::ALL), id()).prop_map(|(address, role, name)| {
            Record::Label {
                nanos: 0,
                address,
                role,
                name,
            }
        }),
        (number(), prop::sample::select(Touch::ALL)).prop_map(|(address, touch)| Record::Touch {
            nanos: 0,
            address,
            touch
        }),
        (event(), number(), prop::sample::select(Basis::ALL)).prop_map(|(event, given, basis)| {
            Record::UnknownRead(UnknownRead {
                basis,
                assumption: event.module,
                assumed_at: event.step,
                nanos: 0,
                address: 0,
                size: event.size,
                given,
                origin: event.step,
                phase: event.phase,
                step: 0,
                site: event.site,
                module: event.module,
            })
        }),
        [id(), id(), id()].prop_map(|[function, library, site]| Record::Unsupported {
            nanos: 0,
            function,
            library,
            site
        }),
        out_of_memory().prop_map(Record::OutOfMemory),
        [number(), number(), number()].prop_map(|[peak_allocated, peak_reserved, device_nanos]| {
            Record::Step {
                nanos: 0,
                step: 1,
                peak_allocated,
                peak_reserved,
                device_nanos,
            }
        }),
        notes.prop_map(|json| Record::Note {
            nanos: 0,
            json: json.to_owned()
        }),
    ]
}

proptest! {
    #[test]
    fn every_profile_has_a_verdict_whose_roles_add_up(
        records in prop::collection::vec(record(), 0..120),
        exit_code in prop::option::of(-1..3_i32),
    ) {
        let mut profile = profile("");
        profile.records.extend(records);
        let circumstances = Circumstances { exit_code, ..Circumstances::default() };
        let verdict = Verdict::from_profile(&profile, &circumstances).unwrap();
        let sum: Bytes = verdict.peak.roles.values().copied().sum();
        prop_assert_eq!(sum, verdict.peak.allocated_bytes);
        let json = serde_json::to_string(&verdict).unwrap();
        prop_assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    }
}
