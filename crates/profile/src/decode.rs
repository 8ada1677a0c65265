//! Bytes to records. A profile may come from anywhere, so every length is checked and nothing panics; a record of a
//! kind this version does not know is skipped, so that files of later versions stay readable as far as they can be.

use thiserror::Error;

use crate::encode::kind;
use crate::layout;
use crate::names::{Basis, DriverAction, Phase, Role, Touch};
use crate::record::{AllocatorEvent, OutOfMemory, Record, UnknownRead};

/// Why bytes are not a profile.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ReadError {
    /// The magic bytes are missing or the header is cut.
    #[error("this is not a profile of oomproof")]
    NotAProfile,
    /// The file was written by a version with another layout.
    #[error("the profile has version {0}, and this program reads version {current}", current = layout::VERSION)]
    Version(u32),
    /// A record is cut or holds a value out of range.
    #[error("the profile is damaged at byte {0}")]
    Damaged(usize),
}

/// A whole profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The process that wrote it.
    pub pid: u64,
    /// Records were lost because the disk was full.
    pub records_lost: bool,
    /// The counters as they stood at the end ([`layout::counter`]).
    pub counters: [u64; layout::N_COUNTERS],
    /// The records in the order they were written.
    pub records: Vec<Record>,
}

impl Profile {
    /// Reads the bytes of a file.
    pub fn read(file: &[u8]) -> Result<Self, ReadError> {
        if file.len() < layout::HEADER_LEN || file[..8] != layout::MAGIC {
            return Err(ReadError::NotAProfile);
        }
        let version = u32::from_le_bytes(fixed(file, layout::VERSION_AT)?);
        if version != layout::VERSION {
            return Err(ReadError::Version(version));
        }
        let committed = u64::from_le_bytes(fixed(file, layout::COMMITTED)?);
        let end = usize::try_from(committed)
            .unwrap_or(usize::MAX)
            .min(file.len());
        let mut counters = [0; layout::N_COUNTERS];
        for (index, counter) in counters.iter_mut().enumerate() {
            *counter = u64::from_le_bytes(fixed(file, layout::COUNTERS + 8 * index)?);
        }
        Ok(Self {
            pid: u64::from_le_bytes(fixed(file, layout::PID)?),
            records_lost: u64::from_le_bytes(fixed(file, layout::LOST)?) != 0,
            counters,
            records: records(&file[..end])?,
        })
    }
}

fn records(file: &[u8]) -> Result<Vec<Record>, ReadError> {
    let mut records = Vec::new();
    let mut at = layout::HEADER_LEN;
    while at < file.len() {
        let kind = u16::from_le_bytes(fixed(file, at)?);
        let len = u32::from_le_bytes(fixed(file, at + 4)?) as usize;
        let payload = file
            .get(at + 8..at + 8 + len)
            .ok_or(ReadError::Damaged(at))?;
        let mut fields = Fields { payload, at: 0 };
        if kind::ALL.contains(&kind) {
            records.push(fields.record(kind).ok_or(ReadError::Damaged(at))?);
        }
        at += 8 + len;
    }
    Ok(records)
}

fn fixed<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N], ReadError> {
    file.get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(ReadError::Damaged(at))
}

/// Takes the fields of one payload from the front.
struct Fields<'a> {
    payload: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    /// The record of a known kind; `None` is damage.
    fn record(&mut self, kind: u16) -> Option<Record> {
        Some(match kind {
            kind::TEXT => Record::Text(self.rest()?),
            kind::SITE => Record::Site {
                file: self.word()?,
                line: self.word()?,
                function: self.word()?,
            },
            kind::MODULE => Record::Module {
                path: self.word()?,
                class: self.word()?,
            },
            kind::ALLOC => Record::Alloc(self.allocator_event()?),
            kind::FREE => Record::Free(self.allocator_event()?),
            kind::DRIVER => {
                let [nanos, address, size, used] = self.longs()?;
                let action = DriverAction::from_code(self.byte()?)?;
                Record::Driver {
                    nanos,
                    action,
                    device: self.byte()?,
                    address,
                    size,
                    used,
                }
            }
            kind::PHASE => {
                let [nanos] = self.longs()?;
                let step = self.word()?;
                Record::Phase {
                    nanos,
                    phase: self.phase()?,
                    step,
                }
            }
            kind::LABEL => {
                let [nanos, address] = self.longs()?;
                let name = self.word()?;
                Record::Label {
                    nanos,
                    address,
                    role: Role::from_code(self.byte()?)?,
                    name,
                }
            }
            kind::TOUCH => {
                let [nanos, address] = self.longs()?;
                Record::Touch {
                    nanos,
                    address,
                    touch: Touch::from_code(self.byte()?)?,
                }
            }
            kind::UNKNOWN_READ => Record::UnknownRead(self.unknown_read()?),
            kind::UNSUPPORTED => {
                let [nanos] = self.longs()?;
                Record::Unsupported {
                    nanos,
                    function: self.word()?,
                    library: self.word()?,
                    site: self.word()?,
                }
            }
            kind::OUT_OF_MEMORY => Record::OutOfMemory(self.out_of_memory()?),
            kind::STEP => {
                let [nanos, peak_allocated, peak_reserved] = self.longs()?;
                Record::Step {
                    nanos,
                    step: self.word()?,
                    peak_allocated,
                    peak_reserved,
                    // Profiles of earlier releases end before it.
                    device_nanos: self.longs().map_or(0, |[nanos]| nanos),
                }
            }
            kind::NOTE => {
                let [nanos] = self.longs()?;
                Record::Note {
                    nanos,
                    json: self.rest()?,
                }
            }
            _ => return None,
        })
    }

    fn allocator_event(&mut self) -> Option<AllocatorEvent> {
        let [nanos, address, size, allocated, reserved] = self.longs()?;
        let [step, site, module] = self.words()?;
        let phase = self.phase()?;
        let device = self.byte()?;
        Some(AllocatorEvent {
            nanos,
            address,
            size,
            allocated,
            reserved,
            device,
            phase,
            step,
            site,
            module,
        })
    }

    fn unknown_read(&mut self) -> Option<UnknownRead> {
        let [nanos, address, size, given] = self.longs()?;
        let [origin, step, site, module] = self.words()?;
        let [assumption, assumed_at] = self.words()?;
        let phase = self.phase()?;
        let basis = Basis::from_code(self.byte()?)?;
        Some(UnknownRead {
            nanos,
            address,
            size,
            given,
            origin,
            basis,
            assumption,
            assumed_at,
            phase,
            step,
            site,
            module,
        })
    }

    fn out_of_memory(&mut self) -> Option<OutOfMemory> {
        let [nanos, requested, allocated, reserved, free, total] = self.longs()?;
        let [step, site, module] = self.words()?;
        let phase = self.phase()?;
        let device = self.byte()?;
        Some(OutOfMemory {
            nanos,
            requested,
            allocated,
            reserved,
            free,
            total,
            device,
            phase,
            step,
            site,
            module,
        })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.payload.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn phase(&mut self) -> Option<Phase> {
        Phase::from_code(self.byte()?)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn words<const N: usize>(&mut self) -> Option<[u32; N]> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.word()?;
        }
        Some(values)
    }

    fn longs<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut values = [0; N];
        for value in &mut values {
            *value = u64::from_le_bytes(self.take()?);
        }
        Some(values)
    }

    fn rest(&mut self) -> Option<String> {
        let bytes = self.payload.get(self.at..)?;
        self.at = self.payload.len();
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encode;

    fn file_with(records: &[Record]) -> Vec<u8> {
        let mut file = layout::new_header(1);
        for record in records {
            encode(record, &mut file);
        }
        layout::set_committed(&mut file);
        file
    }

    fn check_round_trip(record: &Record) {
        let profile = Profile::read(&file_with(std::slice::from_ref(record))).unwrap();
        assert_eq!(profile.records, std::slice::from_ref(record));
    }

    const EVENT: AllocatorEvent = AllocatorEvent {
        nanos: 1,
        address: 2,
        size: 3,
        allocated: 4,
        reserved: 5,
        device: 6,
        phase: Phase::Backward,
        step: 7,
        site: 8,
        module: 9,
    };

    #[test]
    fn every_kind_comes_back_as_it_was() {
        check_round_trip(&Record::Text("modèle".to_owned()));
        check_round_trip(&Record::Site {
            file: 1,
            line: 2,
            function: 3,
        });
        check_round_trip(&Record::Module { path: 1, class: 2 });
        check_round_trip(&Record::Alloc(EVENT));
        check_round_trip(&Record::Free(EVENT));
        check_round_trip(&Record::Driver {
            nanos: 1,
            action: DriverAction::Refused,
            device: 2,
            address: 3,
            size: 4,
            used: 5,
        });
        check_round_trip(&Record::Phase {
            nanos: 1,
            phase: Phase::Save,
            step: 2,
        });
        check_round_trip(&Record::Label {
            nanos: 1,
            address: 2,
            role: Role::Gradient,
            name: 3,
        });
        check_round_trip(&Record::Touch {
            nanos: 1,
            address: 2,
            touch: Touch::Workspace,
        });
        check_round_trip(&Record::UnknownRead(UnknownRead {
            nanos: 1,
            address: 2,
            size: 3,
            given: 4,
            origin: 5,
            basis: Basis::Policy,
            assumption: 9,
            assumed_at: 10,
            phase: Phase::Idle,
            step: 6,
            site: 7,
            module: 8,
        }));
        check_round_trip(&Record::Unsupported {
            nanos: 1,
            function: 2,
            library: 3,
            site: 4,
        });
        check_round_trip(&Record::OutOfMemory(OutOfMemory {
            nanos: 1,
            requested: 2,
            allocated: 3,
            reserved: 4,
            free: 5,
            total: 6,
            device: 7,
            phase: Phase::Optimizer,
            step: 8,
            site: 9,
            module: 10,
        }));
        check_round_trip(&Record::Step {
            nanos: 1,
            step: 2,
            peak_allocated: 3,
            peak_reserved: 4,
            device_nanos: 5,
        });
        check_round_trip(&Record::Note {
            nanos: 1,
            json: r#"{"kind":"stop"}"#.to_owned(),
        });
    }

    #[test]
    fn refuses_what_it_cannot_read() {
        assert_eq!(Profile::read(b"oomproof"), Err(ReadError::NotAProfile));
        assert_eq!(Profile::read(&[0; 5000]), Err(ReadError::NotAProfile));
        let mut other = file_with(&[]);
        other[layout::VERSION_AT] = 9;
        assert_eq!(Profile::read(&other), Err(ReadError::Version(9)));
        let mut cut = file_with(&[Record::Alloc(EVENT)]);
        cut.truncate(cut.len() - 1);
        assert_eq!(
            Profile::read(&cut),
            Err(ReadError::Damaged(layout::HEADER_LEN))
        );
    }

    #[test]
    fn skips_kinds_of_later_versions_and_bytes_not_committed() {
        let mut file = file_with(&[Record::Site {
            file: 1,
            line: 2,
            function: 3,
        }]);
        file[layout::HEADER_LEN] = 200;
        encode(&Record::Text("after".to_owned()), &mut file);
        layout::set_committed(&mut file);
        encode(&Record::Text("unfinished".to_owned()), &mut file);
        assert_eq!(
            Profile::read(&file).unwrap().records,
            [Record::Text("after".to_owned())]
        );
    }

    proptest! {
        #[test]
        fn never_panics_on_damage(tail in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut file = layout::new_header(1);
            file.extend_from_slice(&tail);
            layout::set_committed(&mut file);
            let _ = Profile::read(&file);
        }
    }
}
