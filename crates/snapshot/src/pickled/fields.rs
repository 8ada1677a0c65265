//! Reads the fields of one dictionary. What a dictionary is, its keys tell; a mask of those it has is enough.

use oomproof_pickle::Value;
use oomproof_units::{Bytes, DeviceAddress};

use crate::pickled::misfit::Misfit;
use crate::pickled::slots::Kind;
use crate::pickled::words_table as words;

/// The items of a dictionary, and which known keys are among them.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    items: &'a [Value],
    mask: u64,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(super) fn new(items: &'a [Value]) -> Self {
        let mut mask = 0;
        for item in items.iter().step_by(2) {
            if let Some(key) = key(*item)
                && key < 64
            {
                mask |= 1 << key;
            }
        }
        Self { items, mask }
    }

    #[inline]
    pub(super) fn has(self, key: u32) -> bool {
        self.mask & (1 << key) != 0
    }

    #[inline]
    fn has_all(self, keys: &[u32]) -> bool {
        keys.iter().all(|&key| self.has(key))
    }

    /// What kind of row it is; `None` if it is none, or its telling keys are not there yet.
    #[inline]
    pub(super) fn kind(self) -> Option<Kind> {
        if self.has_all(&[words::ACTION, words::SIZE])
            && (self.has(words::ADDR) || self.has(words::DEVICE_FREE))
        {
            Some(Kind::Entry)
        } else if self.has_all(&[words::FILENAME, words::LINE, words::NAME]) {
            Some(Kind::Frame)
        } else if self.has_all(&[words::STATE, words::SIZE]) {
            Some(Kind::Block)
        } else if self.has_all(&[words::TOTAL_SIZE, words::ADDRESS, words::BLOCKS]) {
            Some(Kind::Segment)
        } else if self.has_all(&[words::STAGE, words::NAME]) {
            Some(Kind::Annotation)
        } else if self.has(words::REAL_SIZE) {
            Some(Kind::History)
        } else {
            None
        }
    }

    /// Keys and values, in the order of the file. A key that is no text has the number of no word.
    #[inline]
    pub(super) fn iter(self) -> impl Iterator<Item = (u32, Value)> + 'a {
        self.items
            .chunks_exact(2)
            .map(|pair| (key(pair[0]).unwrap_or(u32::MAX), pair[1]))
    }

    /// The value of a key.
    pub(super) fn get(self, wanted: u32) -> Option<Value> {
        self.iter()
            .filter(|&(key, _)| key == wanted)
            .map(|(_, value)| value)
            .last()
    }
}

#[inline]
fn key(value: Value) -> Option<u32> {
    match value {
        Value::Text(text) => Some(text.0),
        _ => None,
    }
}

/// A value and where it stands, for messages.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) value: Value,
    pub(super) key: u32,
    pub(super) whose: &'static str,
}

impl Field {
    #[inline]
    pub(super) fn whole(self) -> Result<u64, Misfit> {
        self.value
            .as_u64()
            .ok_or_else(|| self.wrong("a whole number from 0 on"))
    }

    #[inline]
    pub(super) fn bytes(self) -> Result<Bytes, Misfit> {
        self.whole().map(Bytes::new)
    }

    #[inline]
    pub(super) fn address(self) -> Result<DeviceAddress, Misfit> {
        self.whole().map(DeviceAddress::new)
    }

    /// A small number, such as the index of a device.
    pub(super) fn index(self) -> Result<u32, Misfit> {
        u32::try_from(self.whole()?).map_err(|_| self.wrong("a number below 2^32"))
    }

    pub(super) fn flag(self) -> Result<bool, Misfit> {
        match self.value {
            Value::Bool(flag) => Ok(flag),
            Value::Int(number @ 0..=1) => Ok(number == 1),
            _ => Err(self.wrong("`True` or `False`")),
        }
    }

    #[inline]
    pub(super) fn text(self) -> Result<u32, Misfit> {
        match self.value {
            Value::Text(text) => Ok(text.0),
            _ => Err(self.wrong("a text")),
        }
    }

    pub(super) fn wrong(self, expected: &'static str) -> Misfit {
        Misfit::WrongValue {
            key: words::word(self.key),
            whose: self.whose,
            expected,
        }
    }
}
