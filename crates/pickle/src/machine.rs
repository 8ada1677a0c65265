//! The stack machine. It runs over every byte of files of gigabytes, so a step does one bounds check and no allocation,
//! and the items of a container go to the sink as a slice of the stack.

use crate::error::{ReadError, Trouble};
use crate::input::Input;
use crate::limits::Limits;
use crate::memo::Memo;
use crate::objects::{Kind, Objects, Open};
use crate::opcode_table as op;
use crate::sink::Sink;
use crate::value::{Handle, Value};

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pickle {
    /// The value that the pickle stands for.
    pub value: Value,
    /// The protocol it declares; 0 when it declares none.
    pub protocol: u8,
    /// Its length in bytes: more may follow in the input.
    pub len: usize,
}

/// Reads the pickle at the start of `input`.
pub fn read<S: Sink>(
    input: &[u8],
    limits: &Limits,
    sink: &mut S,
) -> Result<Pickle, ReadError<S::Error>> {
    let mut machine = Machine {
        input: Input {
            bytes: input,
            at: 0,
        },
        stack: Vec::new(),
        marks: Vec::new(),
        floor: 0,
        memo: Memo::default(),
        objects: Objects::default(),
        protocol: 0,
        limits: Limits {
            objects: limits.objects.min(u32::MAX as usize),
            memo: limits.memo.min(u32::MAX as usize),
            ..*limits
        },
        sink,
    };
    loop {
        let offset = machine.input.at;
        match machine.step() {
            Ok(None) => {}
            Ok(Some(value)) => {
                return Ok(Pickle {
                    value,
                    protocol: machine.protocol,
                    len: machine.input.at,
                });
            }
            Err(trouble) => return Err(ReadError { offset, trouble }),
        }
    }
}

struct Machine<'a, S: Sink> {
    input: Input<'a>,
    stack: Vec<Value>,
    /// Heights of the stack at the open marks.
    marks: Vec<usize>,
    /// The last of `marks`, below which nothing may be taken.
    floor: usize,
    memo: Memo,
    objects: Objects,
    protocol: u8,
    limits: Limits,
    sink: &'a mut S,
}

impl<S: Sink> Machine<'_, S> {
    /// Carries out one instruction; the value of the pickle when it was the last.
    #[inline]
    fn step(&mut self) -> Result<Option<Value>, Trouble<S::Error>> {
        use Trouble::Truncated;
        let opcode = self.input.byte().ok_or(Truncated)?;
        match opcode {
            op::BINGET => {
                let index = self.input.byte().ok_or(Truncated)?;
                self.recall(u32::from(index))?;
            }
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                self.recall(index)?;
            }
            op::BININT1 => {
                let number = self.input.byte().ok_or(Truncated)?;
                self.push(Value::Int(i64::from(number)))?;
            }
            op::BININT2 => {
                let number = u16::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                self.push(Value::Int(i64::from(number)))?;
            }
            op::BININT => {
                let number = i32::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                self.push(Value::Int(i64::from(number)))?;
            }
            op::LONG1 => {
                let len = usize::from(self.input.byte().ok_or(Truncated)?);
                let bytes = self.input.slice(len).ok_or(Truncated)?;
                self.push(long(bytes))?;
            }
            op::EMPTY_DICT => {
                let new = self.new_object(Kind::Dict)?;
                self.sink.dict(new).map_err(Trouble::Sink)?;
                self.push(Value::Object(new))?;
            }
            op::EMPTY_LIST => {
                let new = self.new_object(Kind::List)?;
                self.sink.list(new).map_err(Trouble::Sink)?;
                self.push(Value::Object(new))?;
            }
            op::MEMOIZE => {
                let top = self.top()?;
                if self.memo.len() >= self.limits.memo {
                    return Err(Trouble::TooMany("memo entries", self.limits.memo));
                }
                self.memo.push(top);
            }
            op::MARK => {
                if self.marks.len() >= self.limits.depth {
                    return Err(Trouble::TooMany("nested marks", self.limits.depth));
                }
                self.marks.push(self.stack.len());
                self.floor = self.stack.len();
            }
            op::SETITEMS => {
                let start = self.close_mark()?;
                self.set_items(start)?;
            }
            op::APPENDS => {
                let start = self.close_mark()?;
                self.append(start)?;
            }
            op::SHORT_BINUNICODE => {
                let len = self.input.byte().ok_or(Truncated)?;
                self.text(usize::from(len))?;
            }
            op::STOP => return self.pop().map(Some),
            _ => self.rarer(opcode)?,
        }
        Ok(None)
    }

    /// The instructions that do not occur once for every entry.
    fn rarer(&mut self, opcode: u8) -> Result<(), Trouble<S::Error>> {
        use Trouble::Truncated;
        match opcode {
            op::PROTO => {
                let protocol = self.input.byte().ok_or(Truncated)?;
                if protocol > 5 {
                    return Err(Trouble::Protocol(protocol));
                }
                self.protocol = protocol;
            }
            op::FRAME => {
                let len = self.input.long_length().ok_or(Truncated)?;
                if len > self.input.bytes.len() - self.input.at {
                    return Err(Truncated);
                }
            }
            op::NONE => self.push(Value::None)?,
            op::NEWTRUE => self.push(Value::Bool(true))?,
            op::NEWFALSE => self.push(Value::Bool(false))?,
            op::BINFLOAT => {
                let number = f64::from_be_bytes(self.input.fixed().ok_or(Truncated)?);
                self.push(Value::Float(number))?;
            }
            op::LONG4 => {
                let len = i32::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                let len = usize::try_from(len).map_err(|_| Trouble::NegativeLength)?;
                let bytes = self.input.slice(len).ok_or(Truncated)?;
                self.push(long(bytes))?;
            }
            op::BINUNICODE => {
                let len = u32::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                self.text(len as usize)?;
            }
            op::BINUNICODE8 => {
                let len = self.input.long_length().ok_or(Truncated)?;
                self.text(len)?;
            }
            op::SHORT_BINBYTES => {
                let len = self.input.byte().ok_or(Truncated)?;
                self.bytes(usize::from(len))?;
            }
            op::BINBYTES => {
                let len = u32::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                self.bytes(len as usize)?;
            }
            op::BINBYTES8 | op::BYTEARRAY8 => {
                let len = self.input.long_length().ok_or(Truncated)?;
                self.bytes(len)?;
            }
            op::BINPUT => {
                let index = self.input.byte().ok_or(Truncated)?;
                self.remember(usize::from(index))?;
            }
            op::LONG_BINPUT => {
                let index = u32::from_le_bytes(self.input.fixed().ok_or(Truncated)?);
                self.remember(index as usize)?;
            }
            op::SETITEM => self.last(2).and_then(|start| self.set_items(start))?,
            op::APPEND => self.last(1).and_then(|start| self.append(start))?,
            op::EMPTY_TUPLE => self.tuple(self.stack.len())?,
            op::TUPLE1 => self.last(1).and_then(|start| self.tuple(start))?,
            op::TUPLE2 => self.last(2).and_then(|start| self.tuple(start))?,
            op::TUPLE3 => self.last(3).and_then(|start| self.tuple(start))?,
            op::TUPLE => self.close_mark().and_then(|start| self.tuple(start))?,
            op::POP => {
                self.pop()?;
            }
            op::POP_MARK => {
                let start = self.close_mark()?;
                self.stack.truncate(start);
            }
            op::DUP => {
                let top = self.top()?;
                self.push(top)?;
            }
            _ => return Err(self.refusal(opcode)),
        }
        Ok(())
    }

    /// What to say of an instruction that is not carried out.
    fn refusal(&mut self, opcode: u8) -> Trouble<S::Error> {
        match opcode {
            op::GLOBAL | op::INST => match (self.input.line(), self.input.line()) {
                (Some(module), Some(name)) => Trouble::Global(global(module, name)),
                _ => Trouble::Truncated,
            },
            op::STACK_GLOBAL => match self.stack[self.floor..] {
                [.., Value::Text(module), Value::Text(name)] => Trouble::Global(global(
                    self.sink.name(module).as_bytes(),
                    self.sink.name(name).as_bytes(),
                )),
                _ => Trouble::Code("STACK_GLOBAL"),
            },
            _ => op::runs_code(opcode)
                .map(Trouble::Code)
                .or_else(|| op::is_not_needed(opcode).map(Trouble::Unused))
                .unwrap_or(Trouble::NoInstruction(opcode)),
        }
    }

    #[inline]
    fn push(&mut self, value: Value) -> Result<(), Trouble<S::Error>> {
        if self.stack.len() >= self.limits.stack {
            return Err(Trouble::TooMany("values on its stack", self.limits.stack));
        }
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self) -> Result<Value, Trouble<S::Error>> {
        let start = self.last(1)?;
        let value = self.stack[start];
        self.stack.truncate(start);
        Ok(value)
    }

    #[inline]
    fn top(&self) -> Result<Value, Trouble<S::Error>> {
        match self.stack[self.floor..] {
            [.., top] => Ok(top),
            [] => Err(Trouble::Underflow),
        }
    }

    /// Where the last `count` values begin.
    #[inline]
    fn last(&self, count: usize) -> Result<usize, Trouble<S::Error>> {
        let start = self.stack.len().checked_sub(count);
        start
            .filter(|&start| start >= self.floor)
            .ok_or(Trouble::Underflow)
    }

    /// Where the values above the last mark begin; the mark is gone afterwards.
    #[inline]
    fn close_mark(&mut self) -> Result<usize, Trouble<S::Error>> {
        let start = self.marks.pop().ok_or(Trouble::Underflow)?;
        self.floor = self.marks.last().copied().unwrap_or(0);
        Ok(start)
    }

    /// The container below `start`, open and of this kind.
    #[inline]
    fn container(
        &self,
        start: usize,
        kind: Kind,
        word: &'static str,
    ) -> Result<Handle, Trouble<S::Error>> {
        let below = start.checked_sub(1).filter(|&below| below >= self.floor);
        match self
            .objects
            .open(self.stack[below.ok_or(Trouble::Underflow)?], kind)
        {
            Open::Yes(handle) => Ok(handle),
            Open::Closed => Err(Trouble::Cyclic),
            Open::OtherKind => Err(Trouble::NotA(word)),
        }
    }

    #[inline]
    fn set_items(&mut self, start: usize) -> Result<(), Trouble<S::Error>> {
        let dict = self.container(start, Kind::Dict, "dictionary")?;
        let items = &self.stack[start..];
        if !items.len().is_multiple_of(2) {
            return Err(Trouble::OddItems);
        }
        self.objects.close(items);
        if self.objects.is_closed(dict) {
            return Err(Trouble::Cyclic);
        }
        let offset = self.input.at - 1;
        self.sink
            .set_items(dict, items, offset)
            .map_err(Trouble::Sink)?;
        self.stack.truncate(start);
        Ok(())
    }

    #[inline]
    fn append(&mut self, start: usize) -> Result<(), Trouble<S::Error>> {
        let list = self.container(start, Kind::List, "list")?;
        let items = &self.stack[start..];
        self.objects.close(items);
        if self.objects.is_closed(list) {
            return Err(Trouble::Cyclic);
        }
        let offset = self.input.at - 1;
        self.sink
            .append(list, items, offset)
            .map_err(Trouble::Sink)?;
        self.stack.truncate(start);
        Ok(())
    }

    fn tuple(&mut self, start: usize) -> Result<(), Trouble<S::Error>> {
        let new = self.new_object(Kind::Tuple)?;
        let items = &self.stack[start..];
        self.objects.close(items);
        self.sink.tuple(new, items).map_err(Trouble::Sink)?;
        self.stack.truncate(start);
        self.push(Value::Object(new))
    }

    #[inline]
    fn new_object(&mut self, kind: Kind) -> Result<Handle, Trouble<S::Error>> {
        if self.objects.len() >= self.limits.objects {
            return Err(Trouble::TooMany("containers", self.limits.objects));
        }
        Ok(self.objects.add(kind))
    }

    #[inline]
    fn recall(&mut self, index: u32) -> Result<(), Trouble<S::Error>> {
        let value = self.memo.get(index).ok_or(Trouble::NotInMemo(index))?;
        self.push(value)
    }

    fn remember(&mut self, index: usize) -> Result<(), Trouble<S::Error>> {
        if index >= self.limits.memo {
            return Err(Trouble::TooMany("memo entries", self.limits.memo));
        }
        let top = self.top()?;
        self.memo.put(index, top);
        Ok(())
    }

    fn text(&mut self, len: usize) -> Result<(), Trouble<S::Error>> {
        let bytes = self.input.slice(len).ok_or(Trouble::Truncated)?;
        let text = String::from_utf8_lossy(bytes);
        let number = self.sink.text(&text).map_err(Trouble::Sink)?;
        self.push(Value::Text(number))
    }

    fn bytes(&mut self, len: usize) -> Result<(), Trouble<S::Error>> {
        self.input.slice(len).ok_or(Trouble::Truncated)?;
        self.push(Value::Bytes)
    }
}

/// A whole number in two's complement, least byte first.
#[inline]
fn long(bytes: &[u8]) -> Value {
    let negative = bytes.last().is_some_and(|&last| last >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    let mut wide = [fill; 9];
    if bytes.len() > wide.len() {
        let (low, high) = bytes.split_at(9);
        if high.iter().any(|&byte| byte != fill) {
            return Value::Wide;
        }
        wide.copy_from_slice(low);
    } else {
        wide[..bytes.len()].copy_from_slice(bytes);
    }
    let [low @ .., sign] = wide;
    let low = u64::from_le_bytes(low);
    match (sign, low.cast_signed()) {
        (0, number @ 0..) | (0xff, number @ ..0) => Value::Int(number),
        (0, _) => Value::Unsigned(low),
        _ => Value::Wide,
    }
}

fn global(module: &[u8], name: &[u8]) -> String {
    /// Longer names are not worth repeating.
    const LONGEST: usize = 200;
    let part =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned();
    format!("{}.{}", part(module), part(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: Value) {
        assert_eq!(long(bytes), expected, "{bytes:?}");
    }

    #[test]
    fn reads_whole_numbers_of_any_length() {
        check(&[], Value::Int(0));
        check(&[0xff], Value::Int(-1));
        check(&[0xff, 0], Value::Int(255));
        check(&[0, 0, 0, 0, 0, 0, 0, 0x80], Value::Int(i64::MIN));
        check(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0], Value::Unsigned(1 << 63));
        check(&[0xff; 9], Value::Int(-1));
        check(&[0xff; 30], Value::Int(-1));
        check(&[0, 0, 0, 0, 0, 0, 0, 0, 1], Value::Wide);
        check(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff], Value::Wide);
        check(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], Value::Int(1));
    }
}
