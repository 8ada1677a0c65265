//! Lines of a pasted text or a log, without what was put before them: quotes, boxes, colors, ranks. A launcher of
//! several processes mixes their lines, so each line keeps the rank it came from.

/// How far into a line the end of a prefix is looked for, in bytes.
const LONGEST_PREFIX: usize = 96;
/// Most prefixes that stand before one line.
const MOST_PREFIXES: usize = 4;
/// Words before the number in the brackets of a launcher.
const LAUNCHER_WORDS: &[&str] = &["rank", "default", "worker", "node", "1,", ""];

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// What is left of it; the indentation is kept.
    pub text: String,
    /// The rank it came from, when a prefix says so.
    pub rank: Option<u32>,
}

/// All lines of a text.
pub(crate) fn of(text: &str) -> Vec<Line> {
    text.lines().map(line).collect()
}

fn line(raw: &str) -> Line {
    let plain = without_color(raw);
    let mut rest = plain.trim_end();
    let mut rank = None;
    for _ in 0..MOST_PREFIXES {
        let begin = rest.trim_start();
        if let Some((found, after)) = rank_prefix(begin) {
            rank = found.or(rank);
            rest = after;
        } else if let Some(after) = begin.strip_prefix(['>', '│', '┃', '❱', '╭', '╰', '|'])
        {
            rest = after;
        } else {
            break;
        }
        // One column belongs to the prefix; what follows it is the line's own indentation.
        rest = rest.strip_prefix(' ').unwrap_or(rest);
    }
    let text = rest.trim_end_matches(['│', '┃', ' ']);
    Line {
        text: text.to_owned(),
        rank,
    }
}

/// What `[rank0]:`, `[default0]:`, `[1,0]<stderr>:`, `(Worker pid=12)` or `0: ` say, and what follows.
fn rank_prefix(text: &str) -> Option<(Option<u32>, &str)> {
    match text.bytes().next()? {
        b'[' => bracketed(text),
        b'(' => {
            let end = text
                .bytes()
                .take(LONGEST_PREFIX)
                .position(|byte| byte == b')')?;
            let of_process = text[..end].contains("pid=");
            of_process.then(|| (None, &text[end + 1..]))
        }
        b'0'..=b'9' => {
            let (number, after) = text.split_once(": ")?;
            let rank = number.parse().ok().filter(|rank| *rank < 10_000)?;
            Some((Some(rank), after))
        }
        _ => None,
    }
}

fn bracketed(text: &str) -> Option<(Option<u32>, &str)> {
    let end = text
        .bytes()
        .take(LONGEST_PREFIX)
        .position(|byte| byte == b']')?;
    let (inside, after) = (&text[1..end], &text[end + 1..]);
    let word = inside.trim_end_matches(|c: char| c.is_ascii_digit());
    let rank = inside[word.len()..].parse().ok()?;
    let after = ["<stderr>", "<stdout>"]
        .iter()
        .find_map(|stream| after.strip_prefix(stream))
        .unwrap_or(after);
    let after = after.strip_prefix(':')?;
    let known = LAUNCHER_WORDS.contains(&word.trim().to_ascii_lowercase().as_str());
    known.then_some((Some(rank), after))
}

/// The line without the sequences that color terminals.
fn without_color(raw: &str) -> String {
    let mut plain = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(each) = chars.next() {
        if each != '\u{1b}' {
            plain.push(each);
            continue;
        }
        if chars.next_if_eq(&'[').is_some() {
            // The parameters end with a letter.
            for parameter in chars.by_ref() {
                if parameter.is_ascii_alphabetic() {
                    break;
                }
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, text: &str, rank: Option<u32>) {
        let expected = Line {
            text: text.to_owned(),
            rank,
        };
        assert_eq!(line(raw), expected, "{raw}");
    }

    #[test]
    fn what_launchers_and_people_put_before_a_line_goes() {
        check("plain", "plain", None);
        check("  File \"a.py\"", "  File \"a.py\"", None);
        check("[rank3]:   File \"a.py\"", "  File \"a.py\"", Some(3));
        check(
            "[rank0]: torch.OutOfMemoryError: x",
            "torch.OutOfMemoryError: x",
            Some(0),
        );
        check("[default7]:x", "x", Some(7));
        check("[1,5]<stderr>:x", "x", Some(5));
        check("2: x", "x", Some(2));
        check("(Worker pid=77, ip=1.2.3.4) x", "x", None);
        check("> > quoted", "quoted", None);
        check("\u{1b}[31mred\u{1b}[0m", "red", None);
        check("│ boxed      │", "boxed", None);
    }

    #[test]
    fn other_brackets_stay() {
        check("[2024-05-01 10:00:00] x", "[2024-05-01 10:00:00] x", None);
        check(
            "[enforce fail at a.cpp:1] x",
            "[enforce fail at a.cpp:1] x",
            None,
        );
        check("(GPU 0; 1 GiB", "(GPU 0; 1 GiB", None);
        check("[", "[", None);
        check("\u{1b}[", "", None);
    }
}
