//! Writes protocol 4 as Python's pickler would: texts once, containers in batches of a thousand, so that no reader needs a
//! deep stack. Every container ends with the plural instruction, because some readers know no other.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::opcode_table as op;

/// How many items Python puts into one batch.
const BATCH: usize = 1000;

/// Something that was written and can be referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference(u32);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dict,
    List,
}

struct Open {
    kind: Kind,
    /// Values since the last mark.
    in_batch: usize,
}

/// A pickle in the making. Values follow each other; those between a `begin` and its [`Writer::end`] are its items, in a
/// dictionary alternately keys and values.
pub struct Writer {
    out: Vec<u8>,
    open: Vec<Open>,
    texts: HashMap<Box<str>, Reference, FxBuildHasher>,
    n_memo: u32,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty pickle of protocol 4.
    pub fn new() -> Self {
        Self {
            out: vec![op::PROTO, 4],
            open: Vec::new(),
            texts: HashMap::default(),
            n_memo: 0,
        }
    }

    /// Begins a dictionary.
    pub fn begin_dict(&mut self) -> Reference {
        self.begin(Kind::Dict, op::EMPTY_DICT)
    }

    /// Begins a list.
    pub fn begin_list(&mut self) -> Reference {
        self.begin(Kind::List, op::EMPTY_LIST)
    }

    /// Ends the container that was begun last; without one it does nothing.
    pub fn end(&mut self) {
        if let Some(open) = self.open.pop() {
            if open.in_batch > 0 {
                self.out.push(end_of(open.kind));
            }
            self.close_value();
        }
    }

    /// A text, or the reference to it if it was written before.
    pub fn text(&mut self, text: &str) {
        if let Some(&reference) = self.texts.get(text) {
            return self.again(reference);
        }
        self.open_value();
        if let Ok(len) = u8::try_from(text.len()) {
            self.out.extend([op::SHORT_BINUNICODE, len]);
        } else if let Ok(len) = u32::try_from(text.len()) {
            self.out.push(op::BINUNICODE);
            self.out.extend(len.to_le_bytes());
        } else {
            self.out.push(op::BINUNICODE8);
            self.out.extend((text.len() as u64).to_le_bytes());
        }
        self.out.extend_from_slice(text.as_bytes());
        let reference = self.memoize();
        self.texts.insert(text.into(), reference);
        self.close_value();
    }

    /// Something that was written before.
    pub fn again(&mut self, reference: Reference) {
        self.open_value();
        if let Ok(index) = u8::try_from(reference.0) {
            self.out.extend([op::BINGET, index]);
        } else {
            self.out.push(op::LONG_BINGET);
            self.out.extend(reference.0.to_le_bytes());
        }
        self.close_value();
    }

    /// A whole number.
    pub fn int(&mut self, number: i64) {
        self.open_value();
        self.number(i128::from(number));
        self.close_value();
    }

    /// A whole number without a sign.
    pub fn unsigned(&mut self, number: u64) {
        self.open_value();
        self.number(i128::from(number));
        self.close_value();
    }

    /// A tuple of two whole numbers.
    pub fn pair(&mut self, first: u64, second: u64) -> Reference {
        self.open_value();
        self.number(i128::from(first));
        self.number(i128::from(second));
        self.out.push(op::TUPLE2);
        let reference = self.memoize();
        self.close_value();
        reference
    }

    /// A number with a fraction.
    pub fn float(&mut self, number: f64) {
        self.open_value();
        self.out.push(op::BINFLOAT);
        self.out.extend(number.to_be_bytes());
        self.close_value();
    }

    /// `True` or `False`.
    pub fn bool(&mut self, value: bool) {
        self.open_value();
        self.out
            .push(if value { op::NEWTRUE } else { op::NEWFALSE });
        self.close_value();
    }

    /// `None`.
    pub fn none(&mut self) {
        self.open_value();
        self.out.push(op::NONE);
        self.close_value();
    }

    /// The finished pickle; containers that are still open are ended.
    pub fn finish(mut self) -> Vec<u8> {
        while !self.open.is_empty() {
            self.end();
        }
        self.out.push(op::STOP);
        self.out
    }

    fn begin(&mut self, kind: Kind, opcode: u8) -> Reference {
        self.open_value();
        self.out.push(opcode);
        let reference = self.memoize();
        self.open.push(Open { kind, in_batch: 0 });
        reference
    }

    fn open_value(&mut self) {
        if let Some(open) = self.open.last()
            && open.in_batch == 0
        {
            self.out.push(op::MARK);
        }
    }

    fn close_value(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.in_batch += 1;
            let full = match open.kind {
                Kind::Dict => 2 * BATCH,
                Kind::List => BATCH,
            };
            if open.in_batch == full {
                open.in_batch = 0;
                self.out.push(end_of(open.kind));
            }
        }
    }

    fn memoize(&mut self) -> Reference {
        self.out.push(op::MEMOIZE);
        self.n_memo += 1;
        Reference(self.n_memo - 1)
    }

    fn number(&mut self, number: i128) {
        if let Ok(small) = u8::try_from(number) {
            self.out.extend([op::BININT1, small]);
        } else if let Ok(small) = u16::try_from(number) {
            self.out.push(op::BININT2);
            self.out.extend(small.to_le_bytes());
        } else if let Ok(small) = i32::try_from(number) {
            self.out.push(op::BININT);
            self.out.extend(small.to_le_bytes());
        } else {
            let bytes = number.to_le_bytes();
            let fill = if number < 0 { 0xff } else { 0 };
            let mut len = bytes.len();
            while len > 1 && bytes[len - 1] == fill && (bytes[len - 2] ^ fill) < 0x80 {
                len -= 1;
            }
            self.out.extend([op::LONG1, len as u8]);
            self.out.extend_from_slice(&bytes[..len]);
        }
    }
}

fn end_of(kind: Kind) -> u8 {
    match kind {
        Kind::Dict => op::SETITEMS,
        Kind::List => op::APPENDS,
    }
}
