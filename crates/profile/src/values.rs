//! What the user may say about values that cannot be known on a device that computes little.

use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is done about the values of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Small work is really done, and what cannot be known is assumed so that training goes on.
    #[default]
    On,
    /// No kernel is carried out and nothing is assumed: what is not known reads as zero.
    Off,
}

/// How choices among unknown scores fall, such as a token's experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Routing {
    /// On all candidates alike.
    #[default]
    Balanced,
    /// On the same candidates every time.
    Worst,
}

/// A value that is read instead of one that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AssumedValue {
    /// True or false.
    Truth(bool),
    /// A whole number.
    Whole(i64),
    /// A number with a fraction.
    Real(f64),
}

impl FromStr for AssumedValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "true" => return Ok(Self::Truth(true)),
            "false" => return Ok(Self::Truth(false)),
            _ => {}
        }
        let whole = text.parse().map(Self::Whole).ok();
        whole
            .or_else(|| text.parse().map(Self::Real).ok())
            .ok_or_else(|| format!("`{text}` is neither a number nor `true` nor `false`"))
    }
}

/// What is read at one source line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssumedRead {
    /// The file, or the end of its path.
    pub file: String,
    /// The line, from 1 on.
    pub line: u32,
    /// What is read there.
    pub value: AssumedValue,
}

impl AssumedRead {
    /// Whether this is about that source line.
    pub fn is_at(&self, file: &str, line: u32) -> bool {
        self.line == line && Path::new(file).ends_with(&self.file)
    }
}

impl FromStr for AssumedRead {
    type Err = String;

    /// Reads `FILE:LINE=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}` is not of the form FILE:LINE=VALUE");
        let (place, value) = text.rsplit_once('=').ok_or_else(form)?;
        let (file, line) = place.rsplit_once(':').ok_or_else(form)?;
        let line = line.parse().ok().filter(|line| *line > 0);
        match line {
            Some(line) if !file.is_empty() => Ok(Self {
                file: file.to_owned(),
                line,
                value: value.parse()?,
            }),
            _ => Err(form()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(&str, u32, AssumedValue)>) {
        let read = text.parse::<AssumedRead>().ok();
        let found = read
            .as_ref()
            .map(|read| (read.file.as_str(), read.line, read.value));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn are_read_as_people_type_them() {
        check(
            "train.py:12=3",
            Some(("train.py", 12, AssumedValue::Whole(3))),
        );
        check(
            "a=b/x.py:1=-0.5",
            Some(("a=b/x.py", 1, AssumedValue::Real(-0.5))),
        );
        check("t.py:7=True", Some(("t.py", 7, AssumedValue::Truth(true))));
        check("t.py:7=1e-3", Some(("t.py", 7, AssumedValue::Real(1e-3))));
        for wrong in ["t.py:7", "t.py=3", "t.py:0=3", ":7=3", "t.py:7=many", ""] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_place_is_the_end_of_a_path() {
        let at = |file: &str| AssumedRead {
            file: file.to_owned(),
            line: 3,
            value: AssumedValue::Whole(0),
        };
        assert!(at("train.py").is_at("/home/me/train.py", 3));
        assert!(at("me/train.py").is_at("/home/me/train.py", 3));
        assert!(at("/home/me/train.py").is_at("/home/me/train.py", 3));
        assert!(!at("rain.py").is_at("/home/me/train.py", 3));
        assert!(!at("train.py").is_at("/home/me/train.py", 4));
    }

    #[test]
    fn values_keep_their_kind_in_json() {
        for value in [
            AssumedValue::Truth(true),
            AssumedValue::Whole(1),
            AssumedValue::Real(1.0),
        ] {
            let json = serde_json::to_string(&value).unwrap();
            assert_eq!(serde_json::from_str::<AssumedValue>(&json).unwrap(), value);
        }
    }
}
