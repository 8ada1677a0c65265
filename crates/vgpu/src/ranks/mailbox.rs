//! Small messages between ranks: a file for each reader, which appears whole under a name that both sides can work out
//! and is removed by its reader. A sender never waits, so a message may well be read after its sender has ended.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::board::Board;
use super::liveness::Process;

/// How long to sleep before looking whether the sender still lives.
const LOOK: Duration = Duration::from_millis(50);

/// How long an unknown sender is waited for although a rank has ended.
const GRACE: Duration = Duration::from_secs(3);

/// Why a message did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Its sender has ended and will never send it.
    SenderEnded,
    /// Time is up.
    TimedOut,
}

/// The messages of a run.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    folder: PathBuf,
}

impl Mailbox {
    /// The messages of the run whose files are in `folder`.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.join("messages"),
        }
    }

    /// Leaves `bytes` under each of `names`.
    pub(crate) fn post(&self, board: &Board, names: &[String], bytes: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Some((last, others)) = names.split_last() else {
            return Ok(());
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let draft = self
            .folder
            .join(format!("draft-{}-{number}", std::process::id()));
        if fs::write(&draft, bytes).is_err() {
            fs::create_dir_all(&self.folder)?;
            fs::write(&draft, bytes)?;
        }
        for name in others {
            fs::hard_link(&draft, self.folder.join(name))?;
        }
        fs::rename(&draft, self.folder.join(last))?;
        board.ring();
        Ok(())
    }

    /// Takes the message called `name`, if it is there.
    pub(crate) fn take(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        let bytes = fs::read(&path).ok()?;
        // Left behind at worst: the folder vanishes with the run.
        let _ = fs::remove_file(&path);
        Some(bytes)
    }

    /// Takes the message called `name`, and waits for it as long as its sender, if that is known, may send it.
    pub(crate) fn wait_for(
        &self,
        board: &Board,
        name: &str,
        sender: Option<Process>,
        patience: Duration,
    ) -> Result<Vec<u8>, Missing> {
        let begun = Instant::now();
        let until = begun + patience;
        loop {
            let posted = board.posted();
            if let Some(bytes) = self.take(name) {
                return Ok(bytes);
            }
            let is_lost = match sender {
                Some(sender) => !sender.lives(),
                // Whoever it is may be the one that ended, and then all others are about to be.
                None => begun.elapsed() > GRACE && board.has_lost_a_rank(),
            };
            if is_lost {
                // It may have been the last thing the sender did.
                return self.take(name).ok_or(Missing::SenderEnded);
            }
            if Instant::now() >= until {
                return Err(Missing::TimedOut);
            }
            board.wait(posted, LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn place() -> (tempfile::TempDir, Board, Mailbox) {
        let folder = tempfile::tempdir().unwrap();
        let board = Board::open(folder.path()).unwrap();
        let mailbox = Mailbox::in_folder(folder.path());
        (folder, board, mailbox)
    }

    #[test]
    fn each_reader_gets_its_own() {
        let (_folder, board, mailbox) = place();
        let names = ["a", "b"].map(str::to_owned);
        mailbox.post(&board, &names, &[1, 2, 3]).unwrap();
        for name in &names {
            assert_eq!(mailbox.take(name), Some(vec![1, 2, 3]));
            assert_eq!(mailbox.take(name), None, "taken");
        }
    }

    #[test]
    fn a_reader_waits_for_the_sender() {
        let (_folder, board, mailbox) = place();
        let sender = Some(Process::own());
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| mailbox.wait_for(&board, "late", sender, PATIENCE));
            std::thread::sleep(Duration::from_millis(20));
            mailbox.post(&board, &["late".to_owned()], b"here").unwrap();
            assert_eq!(reader.join().unwrap(), Ok(b"here".to_vec()));
        });
    }

    #[test]
    fn nobody_waits_for_the_dead() {
        let (_folder, board, mailbox) = place();
        let mut dead = Process::own();
        dead.started += 1;
        mailbox.post(&board, &["last".to_owned()], b"bye").unwrap();
        let wait = |name| mailbox.wait_for(&board, name, Some(dead), PATIENCE);
        assert_eq!(wait("last"), Ok(b"bye".to_vec()));
        assert_eq!(wait("never"), Err(Missing::SenderEnded));
        let brief = Duration::from_millis(60);
        let timed_out = mailbox.wait_for(&board, "never", Some(Process::own()), brief);
        assert_eq!(timed_out, Err(Missing::TimedOut));
    }
}
