//! Whether a process of the run still lives. Its id alone does not tell: ids are used again, and a process that ended
//! keeps its id until its parent asks.

/// A process, told from a later one with the same id by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// In clock ticks since the machine started.
    pub(crate) started: u64,
}

impl Process {
    /// This process.
    pub(crate) fn own() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            started: stat(pid).map_or(0, |(_, started)| started),
        }
    }

    /// Whether it has not ended yet.
    pub(crate) fn lives(self) -> bool {
        stat(self.pid).is_some_and(|(state, started)| {
            started == self.started && !matches!(state, b'Z' | b'X' | b'x')
        })
    }
}

/// State and time of start of a process.
fn stat(pid: u32) -> Option<(u8, u64)> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name of a process may hold spaces and brackets, so fields count from its last bracket on.
fn parse(stat: &str) -> Option<(u8, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_anything() {
        let line = "12 (a b) c) S 1 12 12 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 2";
        assert_eq!(parse(line), Some((b'S', 777)));
        assert_eq!(parse("12 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_ended_does_not_live() {
        assert!(Process::own().lives());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process {
            pid: child.id(),
            started: stat(child.id()).map_or(0, |(_, started)| started),
        };
        child.wait().unwrap();
        assert!(!process.lives());
        let later = Process {
            started: Process::own().started + 1,
            ..Process::own()
        };
        assert!(!later.lives(), "another process with the same id");
    }
}
