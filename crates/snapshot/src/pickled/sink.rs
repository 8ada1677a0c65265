//! Takes a pickle's dictionaries as they close and turns each into a row, bottom up: a frame, a stack, an entry, a
//! block, a segment. Nothing else of the pickle is kept.

use hashbrown::HashSet;
use oomproof_pickle::{Handle, Sink, TextNumber, Value};
use oomproof_units::{Bytes, DeviceAddress, Micros};

use crate::annotation::Annotation;
use crate::entry::{Action, Entry, PoolId, StreamHandle};
use crate::pickled::fields::{Field, Fields};
use crate::pickled::misfit::Misfit;
use crate::pickled::slots::{Kind, Slot, Slots};
use crate::pickled::words_table as words;
use crate::schema::Schema;
use crate::segment::{Block, BlockState, SegmentInfo, SegmentKind};
use crate::stack_table::{Frame, FrameId, FrameNote, StackId, Stacks};
use crate::text_table::{TextId, Texts};
use crate::trace::Trace;

/// A segment, whose blocks are still a list of rows.
#[derive(Debug)]
pub(super) struct SegmentRow {
    pub(super) info: SegmentInfo,
    pub(super) blocks: Value,
    pub(super) offset: usize,
}

/// A block, whose address may have to be counted.
#[derive(Debug)]
pub(super) struct BlockRow {
    pub(super) block: Block,
    pub(super) has_address: bool,
    pub(super) offset: usize,
}

/// What was requested for a block, before torch 2.1.
#[derive(Clone, Copy, Debug)]
struct HistoryRow {
    real_size: Bytes,
    stack: StackId,
}

/// The rows so far.
pub(super) struct Rows {
    pub(super) texts: Texts,
    pub(super) stacks: Stacks,
    pub(super) slots: Slots,
    pub(super) entries: Trace,
    pub(super) segments: Vec<SegmentRow>,
    pub(super) blocks: Vec<BlockRow>,
    pub(super) annotations: Vec<Annotation>,
    history: Vec<HistoryRow>,
    pub(super) schema: Schema,
    pub(super) unknown_keys: HashSet<TextId>,
    /// The frames of one list, between calls to spare the allocation.
    pub(super) frames: Vec<FrameId>,
}

impl Rows {
    pub(super) fn new() -> Self {
        Self {
            texts: words::texts_with_words(),
            stacks: Stacks::default(),
            slots: Slots::default(),
            entries: Trace::default(),
            segments: Vec::new(),
            blocks: Vec::new(),
            annotations: Vec::new(),
            history: Vec::new(),
            schema: Schema::default(),
            unknown_keys: HashSet::new(),
            frames: Vec::new(),
        }
    }

    /// Makes a row of a dictionary, if it is one.
    #[inline]
    pub(super) fn row(
        &mut self,
        fields: Fields<'_>,
        offset: usize,
    ) -> Result<Option<Slot>, Misfit> {
        let Some(kind) = fields.kind() else {
            return Ok(None);
        };
        let index = match kind {
            Kind::Entry => self.entry(fields)?,
            Kind::Frame => self.frame(fields)?.0,
            Kind::Block => self.block(fields, offset)?,
            Kind::Segment => self.segment(fields, offset)?,
            Kind::Annotation => self.annotation(fields)?,
            Kind::History => self.history(fields)?,
            Kind::List => return Ok(None),
        };
        Ok(Some(Slot::Row(kind, index)))
    }

    #[inline]
    fn entry(&mut self, fields: Fields<'_>) -> Result<u32, Misfit> {
        let mut entry = Entry {
            action: Action::Snapshot,
            address: DeviceAddress::default(),
            size: Bytes::ZERO,
            stream: StreamHandle::DEFAULT,
            time: None,
            stack: StackId::EMPTY,
            pool: None,
            compile_context: None,
            user_metadata: None,
            internal_metadata: None,
        };
        for (key, value) in fields.iter() {
            let field = Field {
                value,
                key,
                whose: "an entry",
            };
            match key {
                words::ACTION => {
                    let word = field.text()?;
                    entry.action = Action::KNOWN
                        .get(word as usize)
                        .copied()
                        .unwrap_or(Action::Unknown(TextId(word)));
                }
                words::ADDR | words::DEVICE_FREE => entry.address = field.address()?,
                words::SIZE => entry.size = field.bytes()?,
                words::STREAM => entry.stream = StreamHandle::new(field.whole()?),
                words::TIME_US => entry.time = Some(Micros::new(field.whole()?)),
                words::FRAMES => entry.stack = self.stack(field)?,
                words::COMPILE_CONTEXT => entry.compile_context = self.note(field),
                words::USER_METADATA => entry.user_metadata = self.note(field),
                words::POOL_ID => entry.pool = Some(self.pool(field)?),
                words::INTERNAL_METADATA => entry.internal_metadata = self.note(field),
                _ => self.unknown(key),
            }
        }
        self.schema.any_entry = true;
        self.schema.time |= entry.time.is_some();
        self.schema.compile_context |= entry.compile_context.is_some();
        self.schema.user_metadata |= entry.user_metadata.is_some();
        self.schema.entry_pool |= entry.pool.is_some();
        self.schema.internal_metadata |= entry.internal_metadata.is_some();
        self.entries.push(&entry);
        Ok(self.entries.len() as u32 - 1)
    }

    fn frame(&mut self, fields: Fields<'_>) -> Result<FrameId, Misfit> {
        let mut frame = Frame {
            file: TextId(0),
            line: 0,
            function: TextId(0),
        };
        let mut notes = Vec::new();
        for (key, value) in fields.iter() {
            let field = Field {
                value,
                key,
                whose: "a frame",
            };
            match key {
                words::FILENAME => frame.file = TextId(field.text()?),
                words::LINE => frame.line = field.index()?,
                words::NAME => frame.function = TextId(field.text()?),
                _ => match value {
                    Value::Text(text) if key != u32::MAX => notes.push(FrameNote {
                        key: TextId(key),
                        value: TextId(text.0),
                    }),
                    _ => self.unknown(key),
                },
            }
        }
        Ok(self.stacks.intern_noted_frame(frame, &notes))
    }

    fn block(&mut self, fields: Fields<'_>, offset: usize) -> Result<u32, Misfit> {
        let mut block = Block {
            address: DeviceAddress::default(),
            size: Bytes::ZERO,
            requested_size: Bytes::ZERO,
            state: BlockState::Inactive,
            stack: StackId::EMPTY,
        };
        let mut past = None;
        for (key, value) in fields.iter() {
            let field = Field {
                value,
                key,
                whose: "a block",
            };
            match key {
                words::ADDRESS => block.address = field.address()?,
                words::SIZE => block.size = field.bytes()?,
                words::REQUESTED_SIZE => block.requested_size = field.bytes()?,
                words::STATE => block.state = self.state(field)?,
                words::FRAMES => block.stack = self.stack(field)?,
                words::HISTORY => {
                    self.schema.block_history = true;
                    past = self
                        .slots
                        .rows(value, Kind::History)
                        .ok_or_else(|| field.wrong("a list of what the block held"))?
                        .first()
                        .map(|&row| self.history[row as usize]);
                }
                _ => self.unknown(key),
            }
        }
        if let Some(past) = past {
            if !fields.has(words::FRAMES) {
                block.stack = past.stack;
            }
            if !fields.has(words::REQUESTED_SIZE) {
                block.requested_size = past.real_size;
            }
        }
        let has_address = fields.has(words::ADDRESS);
        self.schema.any_block = true;
        self.schema.block_address |= has_address;
        self.blocks.push(BlockRow {
            block,
            has_address,
            offset,
        });
        Ok(self.blocks.len() as u32 - 1)
    }

    fn segment(&mut self, fields: Fields<'_>, offset: usize) -> Result<u32, Misfit> {
        let mut info = SegmentInfo {
            device: 0,
            address: DeviceAddress::default(),
            total_size: Bytes::ZERO,
            allocated_size: Bytes::ZERO,
            active_size: Bytes::ZERO,
            requested_size: Bytes::ZERO,
            stream: StreamHandle::DEFAULT,
            kind: SegmentKind::Large,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::EMPTY,
        };
        let mut blocks = Value::None;
        for (key, value) in fields.iter() {
            let field = Field {
                value,
                key,
                whose: "a segment",
            };
            match key {
                words::DEVICE => info.device = field.index()?,
                words::ADDRESS => info.address = field.address()?,
                words::TOTAL_SIZE => info.total_size = field.bytes()?,
                words::ALLOCATED_SIZE => info.allocated_size = field.bytes()?,
                words::ACTIVE_SIZE => info.active_size = field.bytes()?,
                words::REQUESTED_SIZE => info.requested_size = field.bytes()?,
                words::STREAM => info.stream = StreamHandle::new(field.whole()?),
                words::SEGMENT_TYPE => info.kind = self.segment_kind(field)?,
                words::SEGMENT_POOL_ID => info.pool = self.pool(field)?,
                words::IS_EXPANDABLE => info.is_expandable = field.flag()?,
                words::FRAMES => info.stack = self.stack(field)?,
                words::BLOCKS => {
                    self.slots
                        .rows(value, Kind::Block)
                        .ok_or_else(|| field.wrong("a list of blocks"))?;
                    blocks = value;
                }
                _ => self.unknown(key),
            }
        }
        self.schema.any_segment = true;
        self.schema.requested_size |= fields.has(words::REQUESTED_SIZE);
        self.schema.segment_pool |= fields.has(words::SEGMENT_POOL_ID);
        self.segments.push(SegmentRow {
            info,
            blocks,
            offset,
        });
        Ok(self.segments.len() as u32 - 1)
    }

    fn annotation(&mut self, fields: Fields<'_>) -> Result<u32, Misfit> {
        let mut annotation = Annotation {
            name: TextId(0),
            stage: TextId(0),
            device: 0,
            time: None,
        };
        for (key, value) in fields.iter() {
            let field = Field {
                value,
                key,
                whose: "an annotation",
            };
            match key {
                words::NAME => annotation.name = TextId(field.text()?),
                words::STAGE => annotation.stage = TextId(field.text()?),
                words::DEVICE => annotation.device = field.index()?,
                words::TIME_US => annotation.time = Some(Micros::new(field.whole()?)),
                _ => self.unknown(key),
            }
        }
        self.annotations.push(annotation);
        Ok(self.annotations.len() as u32 - 1)
    }

    fn history(&mut self, fields: Fields<'_>) -> Result<u32, Misfit> {
        let mut row = HistoryRow {
            real_size: Bytes::ZERO,
            stack: StackId::EMPTY,
        };
        for (key, value) in fields.iter() {
            let field = Field {
                value,
                key,
                whose: "a history",
            };
            match key {
                words::REAL_SIZE => row.real_size = field.bytes()?,
                words::FRAMES => row.stack = self.stack(field)?,
                words::ADDR => {}
                _ => self.unknown(key),
            }
        }
        self.history.push(row);
        Ok(self.history.len() as u32 - 1)
    }

    /// The stack of a list of frames. A list in several batches becomes a stack here, once.
    #[inline]
    fn stack(&mut self, field: Field) -> Result<StackId, Misfit> {
        match self.slots.of(field.value) {
            Some(Slot::Stack(stack)) => return Ok(stack),
            Some(Slot::EmptyList) => return Ok(StackId::EMPTY),
            None if field.value == Value::None => return Ok(StackId::EMPTY),
            _ => {}
        }
        let frames = self
            .slots
            .rows(field.value, Kind::Frame)
            .ok_or_else(|| field.wrong("a list of frames"))?;
        self.frames.clear();
        self.frames.extend(frames.iter().map(|&row| FrameId(row)));
        let stack = self.stacks.intern(&self.frames);
        if let Value::Object(handle) = field.value {
            self.slots.set(handle, Slot::Stack(stack));
        }
        Ok(stack)
    }

    fn pool(&self, field: Field) -> Result<PoolId, Misfit> {
        match self.slots.of(field.value) {
            Some(Slot::Pair(index)) => {
                let (first, second) = self.slots.pairs[index as usize];
                Ok(PoolId(first, second))
            }
            _ => Err(field.wrong("a pair of whole numbers")),
        }
    }

    fn state(&self, field: Field) -> Result<BlockState, Misfit> {
        match field.text()? {
            words::ACTIVE_ALLOCATED => Ok(BlockState::Allocated),
            words::ACTIVE_PENDING_FREE | words::ACTIVE_AWAITING_FREE => Ok(BlockState::PendingFree),
            words::INACTIVE => Ok(BlockState::Inactive),
            word => Err(self.unknown_word(field, word)),
        }
    }

    fn segment_kind(&self, field: Field) -> Result<SegmentKind, Misfit> {
        match field.text()? {
            words::SMALL => Ok(SegmentKind::Small),
            words::LARGE => Ok(SegmentKind::Large),
            word => Err(self.unknown_word(field, word)),
        }
    }

    fn unknown_word(&self, field: Field, word: u32) -> Misfit {
        Misfit::UnknownWord {
            key: words::word(field.key),
            whose: field.whose,
            found: self.texts.get(TextId(word)).chars().take(80).collect(),
        }
    }

    /// A text that says something about an entry. Other kinds of values are left out, by name.
    #[inline]
    fn note(&mut self, field: Field) -> Option<TextId> {
        if let Value::Text(text) = field.value {
            return Some(TextId(text.0));
        }
        self.unknown(field.key);
        None
    }

    fn unknown(&mut self, key: u32) {
        if key != u32::MAX {
            self.unknown_keys.insert(TextId(key));
        }
    }
}

impl Sink for Rows {
    type Error = Misfit;

    fn text(&mut self, text: &str) -> Result<TextNumber, Misfit> {
        Ok(TextNumber(self.texts.intern(text).0))
    }

    fn name(&self, text: TextNumber) -> &str {
        self.texts.get(TextId(text.0))
    }

    #[inline]
    fn dict(&mut self, new: Handle) -> Result<(), Misfit> {
        self.slots.add(new, Slot::EmptyDict);
        Ok(())
    }

    #[inline]
    fn list(&mut self, new: Handle) -> Result<(), Misfit> {
        self.slots.add(new, Slot::EmptyList);
        Ok(())
    }

    fn tuple(&mut self, new: Handle, items: &[Value]) -> Result<(), Misfit> {
        let slot = match *items {
            [first, second] => match (first.as_u64(), second.as_u64()) {
                (Some(first), Some(second)) => {
                    let pairs = &mut self.slots.pairs;
                    if pairs.last() != Some(&(first, second)) {
                        pairs.push((first, second));
                    }
                    Slot::Pair(pairs.len() as u32 - 1)
                }
                _ => Slot::Other,
            },
            _ => Slot::Other,
        };
        self.slots.add(new, slot);
        Ok(())
    }

    #[inline]
    fn set_items(&mut self, dict: Handle, items: &[Value], offset: usize) -> Result<(), Misfit> {
        match self.slots.get(dict) {
            Slot::EmptyDict => {
                let row = self.row(Fields::new(items), offset)?;
                let slot = row.unwrap_or_else(|| self.slots.new_pending(items));
                self.slots.set(dict, slot);
                Ok(())
            }
            Slot::Pending(index) => {
                self.slots.pending[index as usize].extend_from_slice(items);
                Ok(())
            }
            Slot::Row(kind, _) => Err(Misfit::Grows(kind.word())),
            _ => Ok(()),
        }
    }

    #[inline]
    fn append(&mut self, list: Handle, items: &[Value], offset: usize) -> Result<(), Misfit> {
        let Some(&first) = items.first() else {
            return Ok(());
        };
        match self.slots.get(list) {
            Slot::EmptyList => {
                let Some((kind, _)) = self.item(first, offset)? else {
                    self.slots.set(list, Slot::Other);
                    return Ok(());
                };
                let slot = if kind == Kind::Frame {
                    self.first_frames(items, offset)?
                } else {
                    Some(self.slots.new_list(kind, Vec::with_capacity(items.len())))
                };
                self.slots.set(list, slot.unwrap_or(Slot::Other));
                if let Some(Slot::List(index)) = slot {
                    self.extend(list, index, items, offset)?;
                }
                Ok(())
            }
            Slot::Stack(stack) => {
                let frames = self.stacks.frame_ids(stack).iter().map(|id| id.0).collect();
                let slot = self.slots.new_list(Kind::Frame, frames);
                self.slots.set(list, slot);
                match slot {
                    Slot::List(index) => self.extend(list, index, items, offset),
                    _ => Ok(()),
                }
            }
            Slot::List(index) => self.extend(list, index, items, offset),
            _ => Ok(()),
        }
    }
}
