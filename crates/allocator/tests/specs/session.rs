//! The words of a page in `specs/`, carried out. `specs/README.md` lists them.

use std::collections::BTreeMap;

use oomproof_allocator::{
    Accepts, AllocateError, Allocator, BlockState, Card, Configuration, Driver, Filling, PoolId,
    PoolOptions, Progress, Release, Request, Segment, Settings, Stream, TraceEntry, UseError,
};
use oomproof_units::{Bytes, DeviceAddress};

const FIRST: u64 = 1 << 40;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// One allocator on one card, and names for what it handed out.
pub(crate) struct Session {
    release: Release,
    settings: String,
    card: Bytes,
    /// Made at the first step that needs it.
    allocator: Option<Allocator<Card, Vec<TraceEntry>>>,
    held: BTreeMap<String, DeviceAddress>,
    n_told: usize,
}

impl Session {
    pub(crate) fn new(release: &str) -> Self {
        Self {
            release: release.parse().expect("a release"),
            settings: String::new(),
            card: Bytes::from_gib(1),
            allocator: None,
            held: BTreeMap::new(),
            n_told: 0,
        }
    }

    /// What a step says, empty when it has nothing to say.
    pub(crate) fn run(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split_whitespace().collect();
        match words.as_slice() {
            ["card", size] => {
                self.card = Bytes::new(size_of(size));
                String::new()
            }
            ["settings", text @ ..] => self.settings(&text.join(" ")),
            [name, "=", "alloc", rest @ ..] => self.alloc(name, rest),
            ["alloc", rest @ ..] => self.alloc("", rest),
            ["free", name] => {
                let address = self.held.remove(*name).expect("a name that is held");
                told(self.allocator().free(address))
            }
            ["record_stream", name, stream] => {
                let address = self.held[*name];
                let stream = stream_of(stream);
                told(self.allocator().record_stream(address, stream))
            }
            ["finish", stream] => {
                let stream = stream_of(stream);
                self.allocator().driver_mut().finish(stream);
                String::new()
            }
            ["empty_cache"] => match self.allocator().empty_cache() {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            },
            ["fraction", fraction] => {
                let fraction = fraction.parse().expect("a number");
                self.allocator().set_memory_fraction(fraction);
                String::new()
            }
            ["begin", filling @ ("pool" | "capture"), pool] => {
                let filling = match *filling {
                    "pool" => Filling::Context,
                    _ => Filling::Capture,
                };
                let id = pool_of(pool);
                told(self.allocator().begin_pool(id, Accepts::All, filling))
            }
            ["end", pool] => {
                let id = pool_of(pool);
                told(self.allocator().end_pool(id))
            }
            ["release_pool", pool] => {
                let id = pool_of(pool);
                told(self.allocator().release_pool(id))
            }
            ["pool", pool, options @ ..] => {
                let options = PoolOptions {
                    use_on_oom: options.contains(&"use_on_oom"),
                    no_split: options.contains(&"no_split"),
                    has_own_allocator: false,
                };
                let id = pool_of(pool);
                told(self.allocator().hold_pool(id, options))
            }
            ["segments"] => self.segments(),
            ["trace"] => self.trace(),
            ["stat", key] => self.statistic(key),
            ["reset_peaks"] => {
                self.allocator().reset_peaks();
                String::new()
            }
            ["device_free"] => shown(self.allocator().driver().memory_info().free.get()),
            _ => panic!("`{step}` is no step"),
        }
    }

    fn allocator(&mut self) -> &mut Allocator<Card, Vec<TraceEntry>> {
        let (release, card) = (self.release, self.card);
        let text = &self.settings;
        self.allocator.get_or_insert_with(|| {
            let settings = Settings::parse(text, release).expect("settings that the release has");
            let card = Card::new(card, Bytes::ZERO)
                .starting_at(DeviceAddress::new(FIRST))
                .with_progress(Progress::OnRequest);
            let configuration = Configuration::new(release).with_settings(settings);
            Allocator::with_trace(configuration, card, Vec::new())
        })
    }

    /// Before anything else settings are those of the start, afterwards they are changed.
    fn settings(&mut self, text: &str) -> String {
        if let Some(allocator) = &mut self.allocator {
            return match allocator.apply_settings(text) {
                Ok(()) => String::new(),
                Err(error) => error.to_string(),
            };
        }
        match Settings::parse(text, self.release) {
            Ok(_) => {
                text.clone_into(&mut self.settings);
                String::new()
            }
            Err(error) => error.to_string(),
        }
    }

    fn alloc(&mut self, name: &str, rest: &[&str]) -> String {
        let (size, stream) = match rest {
            [size] => (size, Stream::DEFAULT),
            [size, "on", stream] => (size, stream_of(stream)),
            _ => panic!("`alloc SIZE` or `alloc SIZE on STREAM`, not {rest:?}"),
        };
        let request = Request::new(Bytes::new(size_of(size))).on(stream);
        match self.allocator().allocate(request) {
            Ok(address) => {
                if !name.is_empty() {
                    self.held.insert(name.to_owned(), address);
                }
                format!("at {}", shown(address.get().saturating_sub(FIRST)))
            }
            Err(AllocateError::OutOfMemory(figures)) => {
                format!("out of memory, tried {}", shown(figures.tried.get()))
            }
            Err(error) => error.to_string(),
        }
    }

    fn segments(&mut self) -> String {
        let names: BTreeMap<DeviceAddress, String> = self
            .held
            .iter()
            .map(|(name, address)| (*address, name.clone()))
            .collect();
        let all = self.allocator().segments();
        let shown: Vec<String> = all.iter().map(|segment| picture(segment, &names)).collect();
        if shown.is_empty() {
            "none".to_owned()
        } else {
            shown.join(" ")
        }
    }

    fn trace(&mut self) -> String {
        let n_told = self.n_told;
        let entries = self.allocator().sink();
        let told: Vec<String> = entries[n_told..]
            .iter()
            .map(|entry| {
                let at = entry.address.get().saturating_sub(FIRST);
                let size = shown(entry.size.get());
                match entry.action.name() {
                    "oom" => format!("oom {size}"),
                    action => format!("{action} {size} at {}", shown(at)),
                }
            })
            .collect();
        self.n_told = entries.len();
        told.join(", ")
    }

    fn statistic(&mut self, key: &str) -> String {
        let release = self.release;
        let flat = self.allocator().statistics().flat(release);
        let found = flat.into_iter().find(|(name, _)| name == key);
        found.map_or("absent".to_owned(), |(_, value)| {
            let is_size = key.contains("bytes") && value >= 0;
            if is_size {
                shown(value.unsigned_abs())
            } else {
                value.to_string()
            }
        })
    }
}

fn picture(segment: &Segment, names: &BTreeMap<DeviceAddress, String>) -> String {
    let blocks: Vec<String> = segment
        .blocks
        .iter()
        .map(|block| {
            let name = match block.state {
                BlockState::Allocated => names.get(&block.address).map_or("held", String::as_str),
                BlockState::PendingFree => "pending",
                BlockState::Inactive => "free",
            };
            format!("{name} {}", shown(block.size.get()))
        })
        .collect();
    format!("[{}]", blocks.join(", "))
}

fn told(outcome: Result<(), UseError>) -> String {
    outcome.map_or_else(|error| error.to_string(), |()| String::new())
}

fn stream_of(number: &str) -> Stream {
    let number: u64 = number.parse().expect("the number of a stream");
    match number {
        0 => Stream::DEFAULT,
        number => Stream::from_pool(4096 * number, number - 1),
    }
}

fn pool_of(number: &str) -> PoolId {
    PoolId(0, number.parse().expect("the number of a pool"))
}

/// `3MiB`, `1.5MiB`, `512`, and sums such as `1MiB+1`.
fn size_of(text: &str) -> u64 {
    text.split('+')
        .map(|part| part.parse::<Bytes>().expect("a size").get())
        .sum()
}

fn shown(size: u64) -> String {
    match size {
        0 => "0".to_owned(),
        size if size.is_multiple_of(GIB) => format!("{}GiB", size / GIB),
        size if size.is_multiple_of(MIB) => format!("{}MiB", size / MIB),
        size if size.is_multiple_of(KIB) => format!("{}KiB", size / KIB),
        size => size.to_string(),
    }
}
