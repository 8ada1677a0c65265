//! The standard alphabet, with padding or without; blanks and line ends are skipped.

/// The bytes, or the offset of the first letter that has no business there.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut buffer = 0_u32;
    let mut n_bits = 0;
    let mut ended = false;
    for (offset, &letter) in text.iter().enumerate() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                ended = true;
                continue;
            }
            _ if letter.is_ascii_whitespace() => continue,
            _ => return Err(offset),
        };
        if ended {
            return Err(offset);
        }
        buffer = buffer << 6 | u32::from(value);
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push((buffer >> n_bits) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[u8], usize>) {
        assert_eq!(
            decode(text.as_bytes()).as_deref().map_err(|offset| *offset),
            expected,
            "{text}"
        );
    }

    #[test]
    fn decodes() {
        check("", Ok(b""));
        check("Zg==", Ok(b"f"));
        check("Zm8=", Ok(b"fo"));
        check("Zm9v\nYmFy", Ok(b"foobar"));
        check("Zm9vYg", Ok(b"foob"));
        check("+/+/", Ok(&[0xfb, 0xff, 0xbf]));
        check("Zm9v!", Err(4));
        check("Zg==Zg", Err(4));
    }
}
