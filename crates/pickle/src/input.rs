//! Takes numbers and slices off the front of the input; what is not there is an answer, not a panic.

/// The part of the input that was not read yet.
pub(crate) struct Input<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Input<'a> {
    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    pub(crate) fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.bytes.get(self.at..)?.first_chunk::<N>()?;
        self.at += N;
        Some(*bytes)
    }

    #[inline]
    pub(crate) fn slice(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    /// A length of eight bytes; one that no slice can have is as good as too long.
    pub(crate) fn long_length(&mut self) -> Option<usize> {
        let len = u64::from_le_bytes(self.fixed()?);
        Some(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// A line of text without its end.
    pub(crate) fn line(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += len + 1;
        Some(&rest[..len])
    }
}
