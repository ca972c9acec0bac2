//! FlatBuffers' encoding, read strictly and without unsafe code: what the runtime crate has for it takes a buffer's
//! form on trust or needs generated code. It knows tables, vectors, strings and numbers, and no field by name.
//!
//! Every byte that is read is claimed. Bytes are never claimed twice (but for a table's form, which tables share),
//! so a small buffer cannot stand for a large one; those that are left over must be padding.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::layout::{IDENTIFIER, Slot};

/// The most padding between two fields: the largest alignment but one byte.
const MOST_PADDING: usize = 7;

/// Bytes that are no specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Another identifier, or no room for one.
    #[error("bytes 4 to 7 are not {IDENTIFIER}")]
    Identifier,
    /// Something lies outside the bytes.
    #[error("{part} leads to byte {at}, where there is none")]
    Outside {
        /// What.
        part: &'static str,
        /// Where.
        at: usize,
    },
    /// Something lies where it may not.
    #[error("{part} lies at byte {at}, which is not aligned")]
    Alignment {
        /// What.
        part: &'static str,
        /// Where.
        at: usize,
    },
    /// A table's form is none.
    #[error("the form of the table {0} is none")]
    Form(&'static str),
    /// A field that the schema does not have.
    #[error("the table {table} has a field {index}, which the schema does not have")]
    Unknown {
        /// The table.
        table: &'static str,
        /// The field's number.
        index: u16,
    },
    /// A field that has to be there.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A number that stands for nothing.
    #[error("{field} is {value}, which stands for nothing")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u8,
    },
    /// A string that is none.
    #[error("{0} is no UTF-8 text that ends with a zero byte and holds none")]
    Text(&'static str),
    /// Bytes of two fields.
    #[error("byte {0} belongs to two fields")]
    Twice(usize),
    /// Bytes of no field.
    #[error("byte {0} belongs to no field and is no padding")]
    Stray(usize),
}

/// What some of the bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub bytes: Range<usize>,
    /// The name of the field or table.
    pub name: &'static str,
    /// What of it.
    pub what: &'static str,
}

/// A table that has been found.
pub(super) struct Table {
    position: usize,
    fields: Vec<u16>,
}

/// Bytes that are being read.
pub(super) struct Bytes<'a> {
    bytes: &'a [u8],
    parts: Vec<Part>,
    /// Where the forms of tables lie that have been met.
    forms: BTreeSet<usize>,
    claimed: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Bytes<'a>, WireError> {
        if bytes.get(4..8) != Some(IDENTIFIER.as_bytes()) {
            return Err(WireError::Identifier);
        }
        let mut bytes = Bytes { bytes, parts: Vec::new(), forms: BTreeSet::new(), claimed: 0 };
        bytes.claim(4, 4, "file", "identifier")?;
        Ok(bytes)
    }

    /// The root table.
    pub(super) fn root(&mut self, name: &'static str, slots: u16) -> Result<Table, WireError> {
        let position = self.follow(0, "file")?;
        self.table_at(position, name, slots)
    }

    /// Everything must have been read by now.
    pub(super) fn finish(mut self) -> Result<Vec<Part>, WireError> {
        self.parts.sort_by_key(|part| part.bytes.start);
        let mut end = 0;
        for part in &self.parts {
            if part.bytes.start < end {
                return Err(WireError::Twice(part.bytes.start));
            }
            self.is_padding(end..part.bytes.start)?;
            end = part.bytes.end;
        }
        self.is_padding(end..self.bytes.len())?;
        Ok(self.parts)
    }

    fn is_padding(&self, gap: Range<usize>) -> Result<(), WireError> {
        let start = gap.start;
        let zero = self.bytes.get(gap.clone()).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0));
        if zero && gap.len() <= MOST_PADDING { Ok(()) } else { Err(WireError::Stray(start)) }
    }

    fn claim(
        &mut self,
        at: usize,
        length: usize,
        name: &'static str,
        what: &'static str,
    ) -> Result<&'a [u8], WireError> {
        let end = at.checked_add(length).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(WireError::Outside { part: name, at })?;
        self.claimed += length;
        // More than there is: something was claimed twice, and what is still to come may be endless.
        if self.claimed > self.bytes.len() {
            return Err(WireError::Twice(at));
        }
        self.parts.push(Part { bytes: at..end, name, what });
        Ok(&self.bytes[at..end])
    }

    fn number<const N: usize>(
        &mut self,
        at: usize,
        name: &'static str,
        what: &'static str,
    ) -> Result<[u8; N], WireError> {
        if !at.is_multiple_of(N) {
            return Err(WireError::Alignment { part: name, at });
        }
        let bytes = self.claim(at, N, name, what)?;
        bytes.try_into().map_err(|_| WireError::Outside { part: name, at })
    }

    /// Where the offset at `at` leads: always forward.
    fn follow(&mut self, at: usize, name: &'static str) -> Result<usize, WireError> {
        let offset = u32::from_le_bytes(self.number(at, name, "offset")?);
        let target = usize::try_from(offset).ok().and_then(|offset| at.checked_add(offset));
        target.filter(|_| offset != 0).ok_or(WireError::Outside { part: name, at })
    }

    fn table_at(&mut self, position: usize, name: &'static str, slots: u16) -> Result<Table, WireError> {
        let back = i32::from_le_bytes(self.number(position, name, "table")?);
        let form = usize::try_from(back.unsigned_abs()).ok().and_then(|distance| match back {
            1.. => position.checked_sub(distance),
            _ => position.checked_add(distance),
        });
        let form = form.ok_or(WireError::Form(name))?;
        if !form.is_multiple_of(2) {
            return Err(WireError::Alignment { part: name, at: form });
        }
        let short = |at: usize| {
            let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<2>);
            bytes.map(|bytes| u16::from_le_bytes(*bytes)).ok_or(WireError::Outside { part: name, at })
        };
        let (length, size) = (short(form)?, short(form + 2)?);
        let inside = position.checked_add(usize::from(size)).is_some_and(|end| end <= self.bytes.len());
        if length < 4 || length % 2 != 0 || size < 4 || !inside {
            return Err(WireError::Form(name));
        }
        let fields = (0..(length - 4) / 2)
            .map(|index| {
                let offset = short(form + 4 + 2 * usize::from(index))?;
                match offset {
                    0 => Ok(0),
                    _ if index >= slots => Err(WireError::Unknown { table: name, index }),
                    4.. if offset < size => Ok(offset),
                    _ => Err(WireError::Form(name)),
                }
            })
            .collect::<Result<Vec<u16>, _>>()?;
        // Tables of one form share it.
        if self.forms.insert(form) {
            self.claim(form, usize::from(length), name, "form")?;
        }
        Ok(Table { position, fields })
    }

    fn field(table: &Table, slot: Slot) -> Option<usize> {
        let offset = table.fields.get(usize::from(slot.index)).copied().unwrap_or(0);
        (offset != 0).then(|| table.position + usize::from(offset))
    }

    pub(super) fn byte(&mut self, table: &Table, slot: Slot) -> Result<u8, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(0) };
        Ok(u8::from_le_bytes(self.number(at, slot.name, "number")?))
    }

    pub(super) fn short(&mut self, table: &Table, slot: Slot) -> Result<u16, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(0) };
        Ok(u16::from_le_bytes(self.number(at, slot.name, "number")?))
    }

    pub(super) fn long(&mut self, table: &Table, slot: Slot) -> Result<u64, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(0) };
        Ok(u64::from_le_bytes(self.number(at, slot.name, "number")?))
    }

    /// A struct of two 16-bit numbers.
    pub(super) fn pair(&mut self, table: &Table, slot: Slot) -> Result<Option<(u16, u16)>, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(None) };
        let first = u16::from_le_bytes(self.number(at, slot.name, "major")?);
        let second = u16::from_le_bytes(self.number(at + 2, slot.name, "minor")?);
        Ok(Some((first, second)))
    }

    pub(super) fn string(&mut self, table: &Table, slot: Slot) -> Result<Option<String>, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(None) };
        self.string_at(at, slot.name).map(Some)
    }

    fn string_at(&mut self, at: usize, name: &'static str) -> Result<String, WireError> {
        let start = self.follow(at, name)?;
        let length = self.length(start, name)?;
        let text = self.claim(start + 4, length.saturating_add(1), name, "text")?;
        let text = text.strip_suffix(b"\0").filter(|text| !text.contains(&0));
        let text = text.and_then(|text| str::from_utf8(text).ok());
        text.map(str::to_owned).ok_or(WireError::Text(name))
    }

    fn length(&mut self, at: usize, name: &'static str) -> Result<usize, WireError> {
        let length = u32::from_le_bytes(self.number(at, name, "length")?);
        usize::try_from(length).map_err(|_| WireError::Outside { part: name, at })
    }

    pub(super) fn strings(&mut self, table: &Table, slot: Slot) -> Result<Option<Vec<String>>, WireError> {
        self.vector(table, slot, |bytes, at| bytes.string_at(at, slot.name))
    }

    pub(super) fn table(
        &mut self,
        table: &Table,
        slot: Slot,
        name: &'static str,
        slots: u16,
    ) -> Result<Option<Table>, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(None) };
        let position = self.follow(at, slot.name)?;
        self.table_at(position, name, slots).map(Some)
    }

    pub(super) fn tables<T>(
        &mut self,
        table: &Table,
        slot: Slot,
        name: &'static str,
        slots: u16,
        read: impl Fn(&mut Bytes<'a>, &Table) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        self.vector(table, slot, |bytes, at| {
            let position = bytes.follow(at, slot.name)?;
            let table = bytes.table_at(position, name, slots)?;
            read(bytes, &table)
        })
    }

    fn vector<T>(
        &mut self,
        table: &Table,
        slot: Slot,
        mut item: impl FnMut(&mut Bytes<'a>, usize) -> Result<T, WireError>,
    ) -> Result<Option<Vec<T>>, WireError> {
        let Some(at) = Bytes::field(table, slot) else { return Ok(None) };
        let start = self.follow(at, slot.name)?;
        let length = self.length(start, slot.name)?;
        let mut items = Vec::new();
        for place in 0..length {
            let at = place.checked_mul(4).and_then(|below| start.checked_add(4)?.checked_add(below));
            items.push(item(self, at.ok_or(WireError::Outside { part: slot.name, at: start })?)?);
        }
        Ok(Some(items))
    }
}
