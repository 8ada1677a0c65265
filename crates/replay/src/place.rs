//! Places in a program's source, as stacks name them.

use oomproof_snapshot::{Snapshot, StackId};

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file as it was recorded.
    pub file: String,
    /// The line, from 1; 0 when it is not known.
    pub line: u32,
    /// The function.
    pub function: String,
}

impl Place {
    /// Whether the file belongs to an installed package or to compiled code, and not to the user.
    fn is_of_library(&self) -> bool {
        const MARKS: [&str; 5] = [
            "site-packages/",
            "dist-packages/",
            "/lib/python",
            "<frozen",
            "<__array_function__",
        ];
        !is_python(&self.file) || MARKS.iter().any(|mark| self.file.contains(mark))
    }
}

fn is_python(file: &str) -> bool {
    let ends = std::path::Path::new(file).extension();
    ends.is_some_and(|end| end.eq_ignore_ascii_case("py")) || file.starts_with('<')
}

/// The frames of a stack, innermost first; empty when none was recorded.
pub(crate) fn places(snapshot: &Snapshot, stack: StackId) -> Vec<Place> {
    let frames = snapshot.stacks().frames(stack);
    frames
        .map(|frame| Place {
            file: snapshot.text(frame.file).to_owned(),
            line: frame.line,
            function: snapshot.text(frame.function).to_owned(),
        })
        .collect()
}

/// The frame that the user would look at: the innermost of their own, or of Python, or any.
pub fn site(stack: &[Place]) -> Option<&Place> {
    stack
        .iter()
        .find(|place| !place.is_of_library())
        .or_else(|| stack.iter().find(|place| is_python(&place.file)))
        .or_else(|| stack.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[&str], expected: Option<&str>) {
        let stack: Vec<Place> = files
            .iter()
            .map(|file| Place {
                file: (*file).to_owned(),
                line: 1,
                function: "f".to_owned(),
            })
            .collect();
        assert_eq!(site(&stack).map(|place| place.file.as_str()), expected);
    }

    #[test]
    fn the_users_own_frame_is_preferred() {
        check(&[], None);
        check(&["??"], Some("??"));
        check(
            &["a.cpp", "/x/site-packages/torch/nn.py"],
            Some("/x/site-packages/torch/nn.py"),
        );
        check(
            &["/x/site-packages/torch/nn.py", "train.py", "other.py"],
            Some("train.py"),
        );
        check(
            &["/usr/lib/python3.11/runpy.py", "<stdin>"],
            Some("<stdin>"),
        );
    }
}
