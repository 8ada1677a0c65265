//! The rules in `specs/` hold: each block of code there is a program, and what stands behind `#` is what must come out.

#[path = "specs/session.rs"]
mod session;

use std::fs;
use std::path::PathBuf;

use session::Session;

/// Runs a block of a page once for each release that it names; what differs, with the line of the page.
fn differences(page: &str, first_line: usize, block: &[&str]) -> Vec<String> {
    let (head, rest) = block.split_first().expect("a block has a first line");
    let releases = head
        .strip_prefix("release ")
        .expect("a block begins with `release`");
    let mut found = Vec::new();
    for release in releases.split_whitespace() {
        let mut session = Session::new(release);
        for (at, line) in rest.iter().enumerate() {
            let (step, expected) = line.split_once('#').unwrap_or((line, ""));
            let (step, expected) = (step.trim(), expected.trim());
            if step.is_empty() {
                continue;
            }
            let outcome = session.run(step);
            if outcome != expected {
                let line = first_line + at + 1;
                found.push(format!(
                    "{page}:{line}: torch {release}: `{step}`\n  page: {expected}\n  runs: {outcome}"
                ));
            }
        }
    }
    found
}

#[test]
fn every_page_is_true() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let mut pages: Vec<PathBuf> = fs::read_dir(folder)
        .expect("specs/ exists")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect();
    pages.sort();
    let mut n_blocks = 0;
    let mut wrong = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page is text");
        let name = page
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut block: Option<(usize, Vec<&str>)> = None;
        for (at, line) in text.lines().enumerate() {
            match &mut block {
                None if line == "```allocator" => block = Some((at + 2, Vec::new())),
                Some((first, lines)) if line == "```" => {
                    wrong.extend(differences(&name, *first, lines));
                    n_blocks += 1;
                    block = None;
                }
                Some((_, lines)) => lines.push(line),
                None => {}
            }
        }
        assert!(block.is_none(), "{name} ends inside a block");
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(n_blocks >= 20, "only {n_blocks} blocks ran");
}
