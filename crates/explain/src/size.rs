//! Sizes inside squeezed text. A printed size is rounded to two decimals of its unit, and one figure that PyTorch
//! prints, 17179869184.00 GiB, is 2^64 bytes: more than a size in bytes holds. It means "no limit", so a size has
//! that as a second form.

use oomproof_units::Bytes;

/// Longest number that is read; longer runs of digits are no figure.
const LONGEST_NUMBER: usize = 24;

/// One printed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// A number of bytes, of the two decimals that were printed.
    Known(Bytes),
    /// 2^63 bytes or more: no limit, or not known.
    Unlimited,
}

impl Size {
    /// The bytes, when they are a size.
    pub(crate) fn known(self) -> Option<Bytes> {
        match self {
            Self::Known(bytes) => Some(bytes),
            Self::Unlimited => None,
        }
    }
}

/// Units as they stand in squeezed text; the longer ones first, because `b` ends all of them.
const UNITS: &[(&str, u32)] = &[
    ("bytes", 0),
    ("byte", 0),
    ("tib", 40),
    ("gib", 30),
    ("mib", 20),
    ("kib", 10),
    ("tb", 40),
    ("gb", 30),
    ("mb", 20),
    ("kb", 10),
];

/// The size that `text` begins with, and its length.
pub(crate) fn at_start(text: &str) -> Option<(Size, usize)> {
    let digits = number_length(text);
    let rest = text.get(digits..)?;
    let &(unit, power) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
    Some((size(text.get(..digits)?, power)?, digits + unit.len()))
}

/// The plain number of bytes that `text` begins with, and its length.
pub(crate) fn plain_at_start(text: &str) -> Option<(Size, usize)> {
    let digits = number_length(text);
    Some((size(text.get(..digits)?, 0)?, digits))
}

/// The size that `text` ends with.
pub(crate) fn at_end(text: &str) -> Option<Size> {
    let &(unit, power) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = &text[..text.len() - unit.len()];
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.' || *byte == b',';
    let digits = number.bytes().rev().take_while(is_number).count();
    // "of which 0 bytes": nothing but figures belongs to the number, and a full stop before it ends a sentence.
    let number = number[number.len() - digits..].trim_start_matches(['.', ',']);
    size(number, power)
}

fn number_length(text: &str) -> usize {
    let mut points = 0;
    let length = text
        .bytes()
        .take_while(|byte| {
            points += usize::from(*byte == b'.');
            byte.is_ascii_digit() || (*byte == b'.' && points == 1)
        })
        .count();
    match text.get(length..).and_then(|rest| rest.strip_prefix(',')) {
        Some(rest) if points == 0 && length > 0 && has_two_digits(rest) => length + 3,
        _ => length,
    }
}

/// Whether exactly two digits come first: the decimals of a text that was typed where the comma divides them.
fn has_two_digits(text: &str) -> bool {
    text.bytes().take_while(u8::is_ascii_digit).count() == 2
}

fn size(number: &str, power: u32) -> Option<Size> {
    let number: String = match number.split_once(',') {
        // PyTorch prints two decimals and groups no digits.
        Some((whole, decimals)) if decimals.len() == 2 && has_two_digits(decimals) => {
            format!("{whole}.{decimals}")
        }
        _ => number.chars().filter(|each| *each != ',').collect(),
    };
    if number.is_empty() || number.len() > LONGEST_NUMBER || !number.as_bytes()[0].is_ascii_digit()
    {
        return None;
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(9)];
    let scale = 10_u128.pow(fraction.len() as u32);
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    // The nearest byte to what was printed.
    let bytes = digits.checked_mul(1 << power)?.checked_add(scale / 2)? / scale;
    if bytes >= 1 << 63 {
        return Some(Size::Unlimited);
    }
    u64::try_from(bytes)
        .ok()
        .map(|bytes| Size::Known(Bytes::new(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        let known = |size: Size| size.known().map(Bytes::get);
        assert_eq!(
            at_start(text).and_then(|(size, _)| known(size)),
            expected,
            "{text}"
        );
        assert_eq!(at_end(text).and_then(known), expected, "{text}");
    }

    #[test]
    fn two_decimals_become_the_nearest_byte() {
        check("20.00mib", Some(20 << 20));
        check("1.54gib", Some(1_653_562_409));
        check("1024.00mib", Some(1 << 30));
        check("0bytes", Some(0));
        check("512bytes", Some(512));
        check("3725.29gib", Some(3_999_999_679_529));
        check("9.07gb", Some(9_738_838_344));
        check("1,54gib", Some(1_653_562_409));
        check("gib", None);
        check("", None);
        check(".gib", None);
    }

    #[test]
    fn what_no_size_holds_is_no_limit() {
        assert_eq!(at_start("17179869184.00gib"), Some((Size::Unlimited, 17)));
        assert_eq!(at_end("17179869184.00gib"), Some(Size::Unlimited));
        assert_eq!(at_start("99999999999999999999999999gib"), None);
    }

    #[test]
    fn a_sentence_before_a_number_is_no_part_of_it() {
        assert_eq!(
            at_end("memory.2.00gib"),
            Some(Size::Known(Bytes::from_gib(2)))
        );
        assert_eq!(
            at_end("capacityof4.00gibofwhich0bytes"),
            Some(Size::Known(Bytes::ZERO))
        );
    }
}
