//! The page that all processes of a run map: a row for each, with what it holds of each device and how far it is.
//!
//! A row is written by its own process alone. Whether the devices have room is decided by claiming first and adding up
//! afterwards, so two processes that claim at once may both step back, but can never both be given the last bytes.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::liveness::Process;

/// Devices that a row has room for.
pub(crate) const MAX_DEVICES: usize = 16;
/// Processes that a run may have at one time; those that ended give their rows to later ones.
const ROWS: usize = 256;
const WORDS: usize = 32;
const HEADER_WORDS: usize = 8;
const LEN: usize = 8 * (HEADER_WORDS + ROWS * WORDS);

/// Words of the header.
const POSTED: usize = 0;
/// For each topic the moment that was agreed on, and which of the agreements on the topic it is, from 1.
const AGREED: usize = 1;

/// Words of a row.
const PID: usize = 0;
const STARTED: usize = 1;
/// The number of the rank, plus one.
const RANK: usize = 2;
const WORLD: usize = 3;
const USED: usize = 8;
/// For each topic the last moment, whether the rank wants it then, and how many agreements it has carried out.
const TOPICS: usize = USED + MAX_DEVICES;
const N_TOPICS: usize = 2;
const MOMENT: usize = 0;
const WANTED: usize = 1;
const DONE: usize = 2;
const TOPIC_WORDS: usize = 3;
/// The topic on which ranks wait for each other, how often this rank has voted on it, and its last two votes.
const VOTE: usize = 2;
const VOTES: usize = TOPICS + N_TOPICS * TOPIC_WORDS;
const LAST_VOTES: usize = VOTES + 1;

/// No row: this process could not be entered.
const NOWHERE: usize = usize::MAX;
/// A row that is being taken over.
const BUSY: u64 = u64::MAX;

/// The mapped page.
#[derive(Debug)]
pub(crate) struct Board {
    words: *const AtomicU64,
    file: libc::c_int,
    row: AtomicUsize,
}

// SAFETY: the mapping lives as long as the board and is only accessed through atomics.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

impl Drop for Board {
    fn drop(&mut self) {
        // SAFETY: mapped and opened by `open`, and nothing else points there.
        unsafe {
            libc::munmap(self.words.cast_mut().cast(), LEN);
            libc::close(self.file);
        }
    }
}

impl Board {
    /// The board of the run whose files are in `folder`, with a row for this process.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        let name = CString::new(folder.join("processes.board").as_os_str().as_bytes())?;
        // SAFETY: a C string; the flags need the mode that follows them.
        let file = unsafe {
            libc::open(
                name.as_ptr(),
                libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC,
                0o600,
            )
        };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // Space is there before it is mapped: writing to a mapped hole on a full disk would end the process.
        // SAFETY: a plain system call on a descriptor that is ours.
        let code = unsafe { libc::posix_fallocate(file, 0, LEN as libc::off_t) };
        let failed = |error| {
            // SAFETY: the descriptor is ours and not used any more.
            unsafe { libc::close(file) };
            Err(error)
        };
        if code != 0 {
            return failed(io::Error::from_raw_os_error(code));
        }
        // SAFETY: a shared mapping of a file range that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return failed(io::Error::last_os_error());
        }
        let board = Self {
            words: base.cast_const().cast(),
            file,
            row: AtomicUsize::new(NOWHERE),
        };
        board.enter();
        Ok(board)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at < LEN / 8);
        // SAFETY: inside the mapping, which is aligned to pages.
        unsafe { &*self.words.add(at) }
    }

    fn of_row(&self, row: usize, word: usize) -> &AtomicU64 {
        self.word(HEADER_WORDS + row * WORDS + word)
    }

    /// Takes a row for this process, also for a forked child in place of its parent's.
    pub(crate) fn enter(&self) {
        let own = Process::own();
        let free = (0..ROWS).find(|row| self.take_row(*row, 0)).or_else(|| {
            (0..ROWS).find(|row| {
                let pid = self.of_row(*row, PID).load(Ordering::Acquire);
                !self.process(*row).is_some_and(Process::lives) && self.take_row(*row, pid)
            })
        });
        let Some(row) = free else {
            self.row.store(NOWHERE, Ordering::Relaxed);
            return;
        };
        for word in STARTED..WORDS {
            self.of_row(row, word).store(0, Ordering::Relaxed);
        }
        self.of_row(row, STARTED)
            .store(own.started, Ordering::Relaxed);
        self.of_row(row, PID)
            .store(u64::from(own.pid), Ordering::Release);
        self.row.store(row, Ordering::Relaxed);
    }

    fn take_row(&self, row: usize, pid: u64) -> bool {
        self.of_row(row, PID)
            .compare_exchange(pid, BUSY, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    fn process(&self, row: usize) -> Option<Process> {
        match self.of_row(row, PID).load(Ordering::Acquire) {
            0 | BUSY => None,
            pid => Some(Process {
                pid: pid as u32,
                started: self.of_row(row, STARTED).load(Ordering::Relaxed),
            }),
        }
    }

    fn own_row(&self) -> Option<usize> {
        Some(self.row.load(Ordering::Relaxed)).filter(|row| *row != NOWHERE)
    }

    fn other_rows(&self) -> impl Iterator<Item = usize> {
        let own = self.row.load(Ordering::Relaxed);
        (0..ROWS)
            .take_while(|row| self.of_row(*row, PID).load(Ordering::Acquire) != 0)
            .filter(move |row| *row != own)
    }

    /// Bytes that the other processes of the run hold on a device.
    pub(crate) fn others(&self, device: usize) -> u64 {
        self.holders(device).into_iter().map(|(_, used)| used).sum()
    }

    /// The other processes of the run that hold something of a device, and how much.
    pub(crate) fn holders(&self, device: usize) -> Vec<(u32, u64)> {
        if device >= MAX_DEVICES {
            return Vec::new();
        }
        self.other_rows()
            .filter_map(|row| {
                let used = self.of_row(row, USED + device).load(Ordering::SeqCst);
                let process = self.process(row).filter(|_| used > 0)?;
                if process.lives() {
                    return Some((process.pid, used));
                }
                // What a process held is gone with it.
                for device in 0..MAX_DEVICES {
                    self.of_row(row, USED + device).store(0, Ordering::SeqCst);
                }
                None
            })
            .collect()
    }

    /// This process now holds `used` bytes of a device.
    pub(crate) fn publish(&self, device: usize, used: u64) {
        if let Some(row) = self.own_row()
            && device < MAX_DEVICES
        {
            self.of_row(row, USED + device)
                .store(used, Ordering::SeqCst);
        }
    }

    /// Raises what this process holds from `before` to `after` if all processes together stay within `room`.
    pub(crate) fn claim(&self, device: usize, before: u64, after: u64, room: u64) -> bool {
        const TRIES: u32 = 3;
        for _ in 0..TRIES {
            self.publish(device, after);
            if after.saturating_add(self.others(device)) <= room {
                return true;
            }
            self.publish(device, before);
            // Another process may have claimed at the same moment and stepped back as well.
            std::thread::yield_now();
        }
        false
    }

    /// This process is a rank of so many.
    pub(crate) fn enlist(&self, rank: u32, world: u32) {
        if let Some(row) = self.own_row() {
            self.of_row(row, WORLD)
                .store(u64::from(world), Ordering::Relaxed);
            self.of_row(row, RANK)
                .store(u64::from(rank) + 1, Ordering::Release);
        }
    }

    /// Whether this rank does now what all ranks want of a topic. Moments rise from call to call and mean the same in
    /// all ranks.
    ///
    /// Nobody waits: when all want it, it is to be done at the first moment that none has come to yet.
    pub(crate) fn agree(&self, topic: usize, moment: u64, wanted: bool) -> bool {
        let (Some(row), true) = (self.own_row(), topic <= N_TOPICS) else {
            return wanted;
        };
        let world = self.of_row(row, WORLD).load(Ordering::Relaxed);
        if world <= 1 {
            return wanted;
        }
        if topic == VOTE {
            return self.vote(row, world, wanted);
        }
        let own = |word| self.of_topic(row, topic, word);
        own(WANTED).store(u64::from(wanted), Ordering::SeqCst);
        own(MOMENT).store(moment, Ordering::SeqCst);
        let next = own(DONE).load(Ordering::SeqCst) + 1;
        let at = self.word(AGREED + 2 * topic);
        let number = self.word(AGREED + 2 * topic + 1);
        self.alone(|| {
            if number.load(Ordering::SeqCst) == next {
                let is_due = moment >= at.load(Ordering::SeqCst);
                if is_due {
                    own(DONE).store(next, Ordering::SeqCst);
                    own(WANTED).store(0, Ordering::SeqCst);
                }
                return is_due;
            }
            if wanted && self.all_want(topic, world, next) {
                at.store(self.furthest(topic) + 1, Ordering::SeqCst);
                number.store(next, Ordering::SeqCst);
            }
            false
        })
    }

    /// Whether all ranks want something, each of which has come to the same question and waits for the others.
    fn vote(&self, row: usize, world: u64, wanted: bool) -> bool {
        const PATIENCE: Duration = Duration::from_secs(30);
        const LOOK: Duration = Duration::from_millis(2);
        let number = self.of_row(row, VOTES).load(Ordering::SeqCst) + 1;
        // No rank is more than one vote ahead of another, so two votes are enough to remember.
        let bit = 1 << (number % 2);
        let votes = self.of_row(row, LAST_VOTES);
        if wanted {
            votes.fetch_or(bit, Ordering::SeqCst);
        } else {
            votes.fetch_and(!bit, Ordering::SeqCst);
        }
        self.of_row(row, VOTES).store(number, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        let vote_of = |rank: u64| {
            loop {
                let voter = self.rank_rows().find(|row| {
                    self.of_row(*row, RANK).load(Ordering::Acquire) == rank
                        && self.of_row(*row, VOTES).load(Ordering::SeqCst) >= number
                });
                if let Some(voter) = voter {
                    break self.of_row(voter, LAST_VOTES).load(Ordering::SeqCst) & bit != 0;
                }
                let lives = self.rank_rows().any(|row| {
                    self.of_row(row, RANK).load(Ordering::Acquire) == rank && self.is_alive(row)
                });
                if !lives || Instant::now() >= until {
                    break true;
                }
                std::thread::sleep(LOOK);
            }
        };
        // Also after a refusal: whoever does not wait would be ahead.
        let votes: Vec<bool> = (1..=world).map(vote_of).collect();
        votes.into_iter().all(|wants| wants)
    }

    fn of_topic(&self, row: usize, topic: usize, word: usize) -> &AtomicU64 {
        self.of_row(row, TOPICS + topic * TOPIC_WORDS + word)
    }

    fn rank_rows(&self) -> impl Iterator<Item = usize> {
        (0..ROWS)
            .take_while(|row| self.of_row(*row, PID).load(Ordering::Acquire) != 0)
            .filter(|row| self.of_row(*row, RANK).load(Ordering::Acquire) != 0)
    }

    /// Whether every rank wants the next agreement on a topic, or has ended and wants nothing any more.
    fn all_want(&self, topic: usize, world: u64, next: u64) -> bool {
        (1..=world).all(|rank| {
            // Workers of a rank have its number too, and want nothing.
            let rows: Vec<usize> = self
                .rank_rows()
                .filter(|row| self.of_row(*row, RANK).load(Ordering::Acquire) == rank)
                .collect();
            let wants = |row: &usize| {
                let word = |word| self.of_topic(*row, topic, word).load(Ordering::SeqCst);
                word(WANTED) == 1 && word(DONE) + 1 == next
            };
            let is_seen = !rows.is_empty();
            is_seen && (rows.iter().any(wants) || rows.iter().all(|row| !self.is_alive(*row)))
        })
    }

    /// Whether a rank has ended.
    pub(crate) fn has_lost_a_rank(&self) -> bool {
        self.rank_rows().any(|row| !self.is_alive(row))
    }

    fn is_alive(&self, row: usize) -> bool {
        self.process(row).is_some_and(Process::lives)
    }

    fn furthest(&self, topic: usize) -> u64 {
        self.rank_rows()
            .map(|row| self.of_topic(row, topic, MOMENT).load(Ordering::SeqCst))
            .max()
            .unwrap_or(0)
    }

    /// Does something while no other process does; the kernel gives the turn back if this process dies.
    fn alone<R>(&self, body: impl FnOnce() -> R) -> R {
        // SAFETY: plain system calls on a descriptor that is ours.
        unsafe { libc::flock(self.file, libc::LOCK_EX) };
        let result = body();
        // SAFETY: as above.
        unsafe { libc::flock(self.file, libc::LOCK_UN) };
        result
    }

    /// A number that rises with every message; to be read before looking for one.
    pub(crate) fn posted(&self) -> u32 {
        self.bell().load(Ordering::SeqCst)
    }

    fn bell(&self) -> &AtomicU32 {
        // SAFETY: the first half of a word inside the mapping.
        unsafe { AtomicU32::from_ptr(self.words.add(POSTED).cast_mut().cast()) }
    }

    /// There is a new message: whoever waits looks again.
    pub(crate) fn ring(&self) {
        self.bell().fetch_add(1, Ordering::SeqCst);
        // SAFETY: wakes waiters of an address inside the mapping.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.bell().as_ptr(),
                libc::FUTEX_WAKE,
                i32::MAX,
            );
        }
    }

    /// Waits until the number is no longer `seen`, or for `at_most`.
    pub(crate) fn wait(&self, seen: u32, at_most: Duration) {
        let time = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
        };
        // SAFETY: sleeps on an address inside the mapping, for a time that outlives the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.bell().as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &raw const time,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boards(count: usize) -> (tempfile::TempDir, Vec<Board>) {
        let folder = tempfile::tempdir().unwrap();
        let boards = (0..count)
            .map(|_| Board::open(folder.path()).unwrap())
            .collect();
        (folder, boards)
    }

    #[test]
    fn processes_on_one_device_share_its_room() {
        let (_folder, boards) = boards(2);
        let [first, second] = &boards[..] else {
            unreachable!()
        };
        assert!(first.claim(0, 0, 60, 100));
        assert!(!second.claim(0, 0, 50, 100));
        assert!(second.claim(0, 0, 40, 100));
        assert!(second.claim(1, 0, 100, 100), "another device");
        assert_eq!((first.others(0), second.others(0)), (40, 60));
        first.publish(0, 10);
        assert!(second.claim(0, 40, 90, 100));
        assert_eq!(first.holders(1), [(std::process::id(), 100)]);
    }

    #[test]
    fn the_last_bytes_are_given_once() {
        let (_folder, boards) = boards(4);
        let given: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = boards
                .iter()
                .map(|board| {
                    scope.spawn(move || {
                        let mut held = 0;
                        for _ in 0..1000 {
                            if board.claim(0, held, held + 1, 1000) {
                                held += 1;
                            }
                        }
                        held
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert!((900..=1000).contains(&given), "{given}");
    }

    #[test]
    fn what_the_dead_held_is_free() {
        let (_folder, boards) = boards(2);
        let [dead, own] = &boards[..] else {
            unreachable!()
        };
        dead.publish(0, 70);
        assert_eq!(own.others(0), 70);
        let row = dead.own_row().unwrap();
        dead.of_row(row, STARTED).fetch_add(1, Ordering::Relaxed);
        assert_eq!(own.others(0), 0);
        assert!(own.claim(0, 0, 100, 100));
    }

    fn enlisted(count: usize) -> (tempfile::TempDir, Vec<Board>) {
        let (folder, boards) = boards(count);
        for (rank, board) in boards.iter().enumerate() {
            board.enlist(rank as u32, count as u32);
        }
        (folder, boards)
    }

    #[test]
    fn ranks_do_together_what_all_want() {
        let (_folder, boards) = enlisted(3);
        let [first, second, third] = &boards[..] else {
            unreachable!()
        };
        assert!(!first.agree(0, 3, true) && !second.agree(0, 3, true));
        assert!(!third.agree(0, 3, false));
        assert!(!first.agree(0, 4, true) && !second.agree(0, 4, true));
        assert!(!third.agree(0, 4, true), "nobody has come to 5 yet");
        assert!(third.agree(0, 5, true) && first.agree(0, 5, true));
        assert!(!first.agree(0, 6, false), "the next one is another matter");
        assert!(second.agree(0, 5, false), "it was agreed on");
        assert!(!second.agree(1, 5, true), "another topic");
    }

    #[test]
    fn ranks_agree_again() {
        let (_folder, boards) = enlisted(2);
        let [first, second] = &boards[..] else {
            unreachable!()
        };
        for moment in [10, 20] {
            assert!(!first.agree(1, moment, true));
            assert!(!second.agree(1, moment, true));
            assert!(first.agree(1, moment + 1, true));
            assert!(
                !first.agree(1, moment + 2, true),
                "the other has not done it yet"
            );
            assert!(second.agree(1, moment + 1, true));
        }
    }

    #[test]
    fn voters_wait_for_each_other() {
        let (_folder, boards) = enlisted(3);
        let largest = [2_u32, 5, 3];
        let found: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = boards
                .iter()
                .zip(largest)
                .map(|(board, own)| {
                    scope.spawn(move || (0..=9).find(|most| board.agree(VOTE, 0, own <= *most)))
                })
                .collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results.flatten().collect()
        });
        assert_eq!(found, [5, 5, 5]);
    }

    #[test]
    fn a_rank_that_ended_keeps_nobody() {
        let (_folder, boards) = enlisted(2);
        let [gone, left] = &boards[..] else {
            unreachable!()
        };
        assert!(!left.agree(0, 3, true));
        let row = gone.own_row().unwrap();
        gone.of_row(row, STARTED).fetch_add(1, Ordering::Relaxed);
        assert!(!left.agree(0, 4, true));
        assert!(left.agree(0, 5, true));
    }

    #[test]
    fn a_single_process_asks_nobody() {
        let (_folder, boards) = boards(2);
        assert!(boards[0].agree(0, 3, true) && !boards[0].agree(0, 3, false));
        boards[1].enlist(0, 1);
        assert!(boards[1].agree(0, 3, true));
    }
}
