//! What one rank tells another of some bytes of its device memory: which of them are known, what they are, and what
//! made the rest.

/// Bytes of device memory, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parcel {
    /// What the sender was doing; ranks that do different things do not understand each other.
    pub(super) what: String,
    /// The text that names what made the bytes that are not known.
    pub(super) origin: String,
    /// What the known bytes hang on, if some of them are assumed.
    pub(super) assumption: String,
    /// The code of what that stands on.
    pub(super) basis: u8,
    /// Known runs, each with its offset.
    pub(super) runs: Vec<(u64, Vec<u8>)>,
}

impl Parcel {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| {
            out.extend((bytes.len() as u64).to_le_bytes());
            out.extend(bytes);
        };
        put(self.what.as_bytes());
        put(self.origin.as_bytes());
        put(self.assumption.as_bytes());
        put(&[self.basis]);
        for (offset, bytes) in &self.runs {
            put(&offset.to_le_bytes());
            put(bytes);
        }
        out
    }

    /// `None` for what `encode` did not make.
    pub(super) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let (len, rest) = bytes.split_first_chunk()?;
            let (field, rest) =
                rest.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
            fields.push(field);
            bytes = rest;
        }
        let (texts, runs) = fields.split_at_checked(4)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let (pairs, []) = runs.as_chunks::<2>() else {
            return None;
        };
        let runs = pairs
            .iter()
            .map(|[offset, bytes]| {
                let offset = u64::from_le_bytes((*offset).try_into().ok()?);
                Some((offset, bytes.to_vec()))
            })
            .collect::<Option<_>>()?;
        Some(Self {
            what: text(texts[0])?,
            origin: text(texts[1])?,
            assumption: text(texts[2])?,
            basis: *texts[3].first()?,
            runs,
        })
    }

    /// The bytes and a mark for each whether it is known, `len` of them from `offset` on.
    pub(super) fn spread(&self, offset: usize, len: usize) -> (Vec<u8>, Vec<bool>) {
        let (mut bytes, mut known) = (vec![0; len], vec![false; len]);
        for (at, run) in &self.runs {
            let at = usize::try_from(*at).unwrap_or(usize::MAX);
            let first = at.max(offset);
            let last = at.saturating_add(run.len()).min(offset + len);
            if first < last {
                let inside = first - offset..last - offset;
                bytes[inside.clone()].copy_from_slice(&run[first - at..last - at]);
                known[inside].fill(true);
            }
        }
        (bytes, known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrives_as_it_was_sent() {
        let check = |parcel: Parcel| assert_eq!(Parcel::decode(&parcel.encode()), Some(parcel));
        check(Parcel::default());
        check(Parcel {
            what: "AllReduce".to_owned(),
            origin: "a kernel".to_owned(),
            assumption: "a guess".to_owned(),
            basis: 3,
            runs: vec![(0, vec![1, 2]), (7, vec![]), (9, vec![3; 1000])],
        });
        assert_eq!(Parcel::decode(&[1, 2, 3]), None);
        assert_eq!(Parcel::decode(&u64::MAX.to_le_bytes()), None);
    }

    #[test]
    fn parts_that_are_not_known_are_marked() {
        let parcel = Parcel {
            runs: vec![(1, vec![1, 2]), (5, vec![3, 4, 5])],
            ..Parcel::default()
        };
        let (bytes, known) = parcel.spread(2, 4);
        assert_eq!(bytes, [2, 0, 0, 3]);
        assert_eq!(known, [true, false, false, true]);
        assert_eq!(parcel.spread(100, 1), (vec![0], vec![false]));
    }
}
