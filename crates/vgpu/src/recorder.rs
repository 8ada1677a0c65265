//! Writes the profile through a shared mapping, so that a killed process loses nothing.
//!
//! The file grows by whole windows that are allocated on disk before they are mapped: writing to a mapped hole on a
//! full disk would kill the process with SIGBUS. Only the header and one window are mapped at a time, so that a small
//! `ulimit -v` is enough for any length of run.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use oomproof_profile::{Record, encode, layout};

const WINDOW_LEN: usize = 4 << 20;

/// The mapped header: words the agent stores into and counters it reads, shared without a lock.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    base: *mut u8,
}

// SAFETY: the mapping lives as long as the process and is only accessed through atomics.
unsafe impl Send for Header {}
// SAFETY: as above.
unsafe impl Sync for Header {}

impl Header {
    /// Address of the mapping, for the agent.
    pub(crate) fn address(self) -> *mut u8 {
        self.base
    }

    /// One of the counters of `layout::counter`.
    pub(crate) fn counter(&self, index: usize) -> &AtomicU64 {
        debug_assert!(index < layout::N_COUNTERS);
        // SAFETY: the offset lies inside the mapped page and is 8-byte aligned.
        unsafe { AtomicU64::from_ptr(self.base.add(layout::COUNTERS + 8 * index).cast()) }
    }

    /// One of the four words site, module, phase, step.
    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the offset lies inside the mapped page and is 4-byte aligned.
        unsafe { AtomicU32::from_ptr(self.base.add(layout::STATE + 4 * index).cast()) }
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        // SAFETY: `at` is one of the 8-byte aligned offsets of `layout`, inside the mapped page.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Site, module, phase and step as the agent last said.
    pub(crate) fn state(self) -> [u32; 4] {
        [0, 1, 2, 3].map(|index| self.word(index).load(Ordering::Relaxed))
    }

    /// Stores phase and step.
    pub(crate) fn set_phase(self, phase: u32, step: u32) {
        self.word(2).store(phase, Ordering::Relaxed);
        self.word(3).store(step, Ordering::Relaxed);
    }

    /// Takes over what goes on, and all counters, from a file that begins with another header.
    pub(crate) fn go_on_from(self, file: &[u8]) {
        let words = file[layout::STATE..].chunks_exact(4).take(4);
        for (index, word) in words.enumerate() {
            let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
            self.word(index).store(value, Ordering::Relaxed);
        }
        let counters = file[layout::COUNTERS..].chunks_exact(8);
        for (index, bytes) in counters.take(layout::N_COUNTERS).enumerate() {
            let mut value = [0; 8];
            value.copy_from_slice(bytes);
            let value = u64::from_le_bytes(value);
            self.counter(index).store(value, Ordering::Relaxed);
        }
    }

    /// Replaces the shared page by a private copy: a forked child must not disturb its parent's profile.
    pub(crate) fn make_private(self) {
        // SAFETY: the page is ours; mapping anonymous memory over it in the child leaves the parent's untouched.
        unsafe {
            libc::mmap(
                self.base.cast(),
                layout::HEADER_LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            );
        }
    }
}

/// Appends records to one file.
pub(crate) struct Recorder {
    file: libc::c_int,
    header: Header,
    window: *mut u8,
    /// Offset in the file of the mapped window; meaningless while `window` is null.
    window_at: usize,
    /// Where the next record goes.
    end: usize,
    scratch: Vec<u8>,
    /// Recording has ended: the disk is full, or this is a forked child.
    stopped: bool,
}

// SAFETY: the raw pointers are mappings that only this value uses.
unsafe impl Send for Recorder {}

impl Recorder {
    /// Creates the file and maps its header.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::create_at(path, std::ptr::null_mut())
    }

    /// Records into another file from now on, in a forked child that has abandoned its parent's; the header stays at
    /// its address, which the agent has.
    pub(crate) fn restart(&mut self, path: &Path) -> io::Result<()> {
        let fresh = Self::create_at(path, self.header.base)?;
        self.drop_window();
        // SAFETY: the child's copy of the descriptor, which nothing uses any more.
        unsafe { libc::close(self.file) };
        *self = fresh;
        Ok(())
    }

    /// As `create`, with the header over the page at `place`, or anywhere when that is null.
    fn create_at(path: &Path, place: *mut u8) -> io::Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: `name` is a C string; the flags need the mode that follows them.
        let file = unsafe {
            libc::open(
                name.as_ptr(),
                libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC,
                0o600,
            )
        };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        allocate(file, 0, layout::HEADER_LEN)?;
        let base = map(file, 0, layout::HEADER_LEN, place)?;
        let first = layout::new_header(u64::from(std::process::id()));
        // SAFETY: the mapping is `HEADER_LEN` bytes long, as is `first`.
        unsafe { std::ptr::copy_nonoverlapping(first.as_ptr(), base, first.len()) };
        let mut recorder = Self {
            file,
            header: Header { base },
            window: std::ptr::null_mut(),
            window_at: 0,
            end: layout::HEADER_LEN,
            scratch: Vec::with_capacity(256),
            stopped: false,
        };
        // A disk that is full already is an error to be told at once, not a profile with nothing in it.
        recorder.move_window()?;
        Ok(recorder)
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// Appends one record; when the disk is full the header says so and later records are dropped.
    pub(crate) fn append(&mut self, record: &Record) {
        if self.stopped {
            return;
        }
        self.scratch.clear();
        encode(record, &mut self.scratch);
        let mut rest = std::mem::take(&mut self.scratch);
        let mut written = 0;
        while written < rest.len() {
            if self.move_window().is_err() {
                self.stopped = true;
                self.header.long(layout::LOST).store(1, Ordering::Release);
                return;
            }
            let inside = self.end - self.window_at;
            let count = (WINDOW_LEN - inside).min(rest.len() - written);
            // SAFETY: `inside + count` is at most the window's length, and `count` bytes remain in `rest`.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    rest.as_ptr().add(written),
                    self.window.add(inside),
                    count,
                );
            }
            written += count;
            self.end += count;
        }
        rest.clear();
        self.scratch = rest;
        self.header
            .long(layout::COMMITTED)
            .store(self.end as u64, Ordering::Release);
    }

    /// Makes the window hold `end`.
    fn move_window(&mut self) -> io::Result<()> {
        if !self.window.is_null() && self.end < self.window_at + WINDOW_LEN {
            return Ok(());
        }
        self.drop_window();
        // Windows are aligned to their length, so the header's page is also part of the first one.
        let at = self.end / WINDOW_LEN * WINDOW_LEN;
        allocate(self.file, at, WINDOW_LEN)?;
        self.window = map(self.file, at, WINDOW_LEN, std::ptr::null_mut())?;
        self.window_at = at;
        Ok(())
    }

    fn drop_window(&mut self) {
        if !self.window.is_null() {
            // SAFETY: the window was mapped with this length and nothing else points into it.
            unsafe { libc::munmap(self.window.cast(), WINDOW_LEN) };
            self.window = std::ptr::null_mut();
        }
    }

    /// Gives back what the file holds beyond its last record; a later record allocates again.
    pub(crate) fn trim(&mut self) {
        if self.stopped {
            return;
        }
        self.drop_window();
        // SAFETY: the descriptor is ours.
        unsafe { libc::ftruncate(self.file, self.end as libc::off_t) };
    }

    /// What was recorded until the fork, in a child that has abandoned the file.
    pub(crate) fn recorded(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.end];
        let mut done = 0;
        while done < bytes.len() {
            let rest = &mut bytes[done..];
            // SAFETY: `rest` is as long as is said; the descriptor is the child's copy, which is still open.
            let count = unsafe {
                libc::pread(
                    self.file,
                    rest.as_mut_ptr().cast(),
                    rest.len(),
                    done as libc::off_t,
                )
            };
            match usize::try_from(count) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => done += count,
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
        Ok(bytes)
    }

    /// The recorder itself; what stays in its place records nothing.
    pub(crate) fn take(&mut self) -> Self {
        let stopped = Self {
            file: -1,
            header: self.header,
            window: std::ptr::null_mut(),
            window_at: 0,
            end: self.end,
            scratch: Vec::new(),
            stopped: true,
        };
        std::mem::replace(self, stopped)
    }

    /// Ends recording in a forked child without touching the file.
    pub(crate) fn abandon(&mut self) {
        self.stopped = true;
        self.header.make_private();
    }
}

fn allocate(file: libc::c_int, at: usize, len: usize) -> io::Result<()> {
    // SAFETY: a plain system call on a descriptor we own.
    let code = unsafe { libc::posix_fallocate(file, at as libc::off_t, len as libc::off_t) };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

fn map(file: libc::c_int, at: usize, len: usize, place: *mut u8) -> io::Result<*mut u8> {
    let fixed = if place.is_null() { 0 } else { libc::MAP_FIXED };
    // SAFETY: a shared mapping of a file range that `allocate` has put on disk; where a place is given, it is a page
    // that the caller owns.
    let base = unsafe {
        libc::mmap(
            place.cast(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | fixed,
            file,
            at as libc::off_t,
        )
    };
    if base == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(base.cast())
    }
}

#[cfg(test)]
mod tests {
    use oomproof_profile::Profile;

    use super::*;

    #[test]
    fn what_was_appended_is_there_without_closing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.oomprofile");
        let mut recorder = Recorder::create(&path).unwrap();
        // Long enough that records straddle two borders of windows.
        let long = "x".repeat(3 << 20);
        for _ in 0..4 {
            recorder.append(&Record::Text(long.clone()));
        }
        let read = Profile::read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.records.len(), 4);
        assert!(
            read.records
                .iter()
                .all(|record| *record == Record::Text(long.clone()))
        );
    }

    #[test]
    fn restarted_into_another_file_with_the_header_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
        let mut recorder = Recorder::create(&first).unwrap();
        recorder.append(&Record::Text("one".to_owned()));
        let header = recorder.header();
        recorder.abandon();
        recorder.append(&Record::Text("unheard".to_owned()));
        recorder.restart(&second).unwrap();
        assert_eq!(recorder.header().address(), header.address());
        header.counter(0).store(7, Ordering::Relaxed);
        recorder.append(&Record::Text("two".to_owned()));
        for (path, text) in [(&first, "one"), (&second, "two")] {
            let read = Profile::read(&std::fs::read(path).unwrap()).unwrap();
            assert_eq!(read.records, [Record::Text(text.to_owned())]);
        }
        assert_eq!(std::fs::read(&second).unwrap()[layout::COUNTERS], 7);
    }

    #[test]
    fn trimming_leaves_no_slack_and_does_not_end_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.oomprofile");
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.append(&Record::Text("one".to_owned()));
        recorder.trim();
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            layout::HEADER_LEN as u64 + 11
        );
        recorder.append(&Record::Text("two".to_owned()));
        let read = Profile::read(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.records.len(), 2);
    }
}
