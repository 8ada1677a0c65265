//! `allocator_settings`: a small dictionary whose keys differ from release to release.

use oomproof_pickle::Value;
use oomproof_units::Bytes;

use crate::pickled::fields::{Field, Fields};
use crate::pickled::misfit::Misfit;
use crate::pickled::sink::Rows;
use crate::pickled::slots::Slot;
use crate::pickled::words_table as words;
use crate::settings::{RecordedSettings, SettingValue};
use crate::text_table::TextId;

/// The settings; `None` for an empty dictionary.
pub(super) fn recorded_settings(
    rows: &mut Rows,
    field: Field,
) -> Result<Option<RecordedSettings>, Misfit> {
    let items = match rows.slots.of(field.value) {
        Some(Slot::Pending(index) | Slot::Dict(index)) => {
            std::mem::take(&mut rows.slots.pending[index as usize])
        }
        Some(Slot::EmptyDict) => return Ok(None),
        _ => return Err(field.wrong("a dictionary of settings")),
    };
    let mut settings = RecordedSettings::default();
    for (key, value) in Fields::new(&items).iter() {
        let field = Field {
            value,
            key,
            whose: "the settings",
        };
        match key {
            words::CONF => settings.conf = rows.texts.get(TextId(field.text()?)).to_owned(),
            words::MAX_SPLIT_SIZE => {
                // -1 and the largest number both stand for unlimited.
                settings.max_split_size = match value {
                    Value::Int(size) if (0..i64::MAX).contains(&size) => {
                        Some(Bytes::new(size.unsigned_abs()))
                    }
                    Value::Int(_) | Value::Unsigned(_) => None,
                    _ => return Err(field.wrong("a whole number")),
                }
            }
            words::GARBAGE_COLLECTION_THRESHOLD => {
                settings.garbage_collection_threshold = match value {
                    Value::Float(threshold) if threshold.is_finite() => threshold,
                    Value::Int(threshold) => threshold as f64,
                    _ => return Err(field.wrong("a number")),
                }
            }
            words::EXPANDABLE_SEGMENTS => settings.expandable_segments = field.flag()?,
            words::ROUNDUP_POWER2_DIVISIONS => {
                settings.roundup_power2_divisions = divisions(rows, field)?;
            }
            _ => {
                rows.schema.record_stream_reuse |= key == words::RECORD_STREAM_REUSE;
                rows.schema.round_threshold |= key == words::MAX_ROUND_THRESHOLD;
                other(rows, &mut settings, key, value);
            }
        }
    }
    Ok(Some(settings))
}

/// A setting without a field of its own; one that is no plain value is named as unknown.
fn other(rows: &mut Rows, settings: &mut RecordedSettings, key: u32, value: Value) {
    if key == u32::MAX {
        return;
    }
    let value = match value {
        Value::Bool(flag) => SettingValue::Flag(flag),
        Value::Int(number) => SettingValue::Number(number),
        Value::Unsigned(number) => SettingValue::Number(i64::try_from(number).unwrap_or(i64::MAX)),
        Value::Float(number) if number.is_finite() => SettingValue::Fraction(number),
        Value::Text(text) => SettingValue::Text(rows.texts.get(TextId(text.0)).to_owned()),
        _ => {
            rows.unknown_keys.insert(TextId(key));
            return;
        }
    };
    let name = rows.texts.get(TextId(key)).to_owned();
    settings.others.push((name, value));
}

/// `{'1': 0, '2': 0, ...}`: MiB as texts, divisions as numbers.
fn divisions(rows: &Rows, field: Field) -> Result<Vec<(u64, u64)>, Misfit> {
    const EXPECTED: &str = "a dictionary from MiB to divisions";
    let items = match rows.slots.of(field.value) {
        Some(Slot::Pending(index) | Slot::Dict(index)) => &rows.slots.pending[index as usize],
        Some(Slot::EmptyDict) => return Ok(Vec::new()),
        _ => return Err(field.wrong(EXPECTED)),
    };
    Fields::new(items)
        .iter()
        .map(|(key, value)| {
            let from = rows.texts.get(TextId(key)).parse().ok();
            from.zip(value.as_u64())
                .ok_or_else(|| field.wrong(EXPECTED))
        })
        .collect()
}
