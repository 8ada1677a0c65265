//! Explains many texts in one process, for benches: reads a JSON string from each line of the standard input, and
//! writes the answer to it as one line. With `--causes` it writes the ids of all causes instead.

use std::io::{self, BufRead, Write};

use oomproof_explain::{Input, causes, explain};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    if std::env::args().any(|argument| argument == "--causes") {
        for cause in causes() {
            writeln!(out, "{}", cause.id.word())?;
        }
        return Ok(());
    }
    for line in io::stdin().lock().lines() {
        let text: String = serde_json::from_str(&line?)?;
        let found = explain(&Input {
            text: &text,
            ..Input::default()
        });
        serde_json::to_writer(&mut out, &found)?;
        writeln!(out)?;
    }
    Ok(())
}
