//! FlatBuffers as they lie in bytes, read with every offset checked. Knows no schema.
//!
//! From the format's description (flatbuffers.dev, "Internals"): little-endian; offsets to tables, strings and vectors
//! are unsigned and relative to where they stand; a table begins with the signed distance back to its vtable; a vtable
//! is its own size, the table's size, then one 16-bit place a field, 0 for absent.

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

type Result<T> = std::result::Result<T, Malformed>;

/// A table in its buffer.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    fields: usize,
    places: usize,
    size: usize,
}

/// The root table of a buffer with this identifier.
pub fn root<'a>(bytes: &'a [u8], identifier: &[u8; 4]) -> Result<Table<'a>> {
    if bytes.get(4..8) != Some(identifier) {
        return Err(Malformed("the file identifier is another"));
    }
    Table::at(bytes, follow(bytes, 0)?)
}

impl<'a> Table<'a> {
    fn at(bytes: &'a [u8], at: usize) -> Result<Self> {
        if !at.is_multiple_of(4) {
            return Err(Malformed("a table is not aligned"));
        }
        let back = i32::from_le_bytes(array(bytes, at)?);
        let vtable = i64::try_from(at).unwrap_or(i64::MAX) - i64::from(back);
        let vtable = usize::try_from(vtable).map_err(|_| Malformed("a vtable lies outside"))?;
        let length = usize::from(u16::from_le_bytes(array(bytes, vtable)?));
        let size = usize::from(u16::from_le_bytes(array(bytes, vtable + 2)?));
        if length < 4 || !length.is_multiple_of(2) || !vtable.is_multiple_of(2) || size < 4 {
            return Err(Malformed("a vtable is none"));
        }
        if vtable + length > bytes.len() || at + size > bytes.len() {
            return Err(Malformed("a table ends outside"));
        }
        Ok(Table { bytes, at, fields: vtable + 4, places: (length - 4) / 2, size })
    }

    /// How many fields the writer's schema had room for, and whether any past `known` is there.
    pub fn has_field_past(&self, known: usize) -> Result<bool> {
        for slot in known..self.places {
            if self.place(slot, 1)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where a field of `size` bytes lies, when it is there.
    fn place(&self, slot: usize, size: usize) -> Result<Option<usize>> {
        if slot >= self.places {
            return Ok(None);
        }
        let offset = usize::from(u16::from_le_bytes(array(self.bytes, self.fields + 2 * slot)?));
        match offset {
            0 => Ok(None),
            1..4 => Err(Malformed("a field lies over its table's head")),
            _ if offset + size > self.size => Err(Malformed("a field ends outside its table")),
            _ => Ok(Some(self.at + offset)),
        }
    }

    fn scalar<const N: usize>(&self, slot: usize, alignment: usize) -> Result<Option<[u8; N]>> {
        let Some(place) = self.place(slot, N)? else { return Ok(None) };
        if !place.is_multiple_of(alignment) {
            return Err(Malformed("a field is not aligned"));
        }
        array(self.bytes, place).map(Some)
    }

    /// A byte, or what stands for it.
    pub fn byte(&self, slot: usize, default: u8) -> Result<u8> {
        Ok(self.scalar::<1>(slot, 1)?.map_or(default, |[byte]| byte))
    }

    /// A truth value, which is 0 or 1.
    pub fn flag(&self, slot: usize) -> Result<bool> {
        match self.byte(slot, 0)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a truth value is neither 0 nor 1")),
        }
    }

    /// 16 bits, or 0.
    pub fn short(&self, slot: usize) -> Result<u16> {
        Ok(self.scalar::<2>(slot, 2)?.map_or(0, u16::from_le_bytes))
    }

    /// 64 bits, or 0.
    pub fn long(&self, slot: usize) -> Result<u64> {
        Ok(self.scalar::<8>(slot, 8)?.map_or(0, u64::from_le_bytes))
    }

    /// Two shorts that lie in the table itself.
    pub fn pair_of_shorts(&self, slot: usize) -> Result<Option<(u16, u16)>> {
        let pair = self.scalar::<4>(slot, 2)?;
        Ok(pair.map(|[a, b, c, d]| (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))))
    }

    fn reference(&self, slot: usize) -> Result<Option<usize>> {
        let Some(place) = self.place(slot, 4)? else { return Ok(None) };
        if !place.is_multiple_of(4) {
            return Err(Malformed("an offset is not aligned"));
        }
        follow(self.bytes, place).map(Some)
    }

    /// A table below this one.
    pub fn table(&self, slot: usize) -> Result<Option<Table<'a>>> {
        self.reference(slot)?.map(|at| Table::at(self.bytes, at)).transpose()
    }

    /// A text.
    pub fn text(&self, slot: usize) -> Result<Option<&'a str>> {
        self.reference(slot)?.map(|at| text(self.bytes, at)).transpose()
    }

    /// Texts, when the vector is there.
    pub fn texts(&self, slot: usize) -> Result<Option<Vec<&'a str>>> {
        self.vector(slot, text)
    }

    /// Tables, when the vector is there.
    pub fn tables(&self, slot: usize) -> Result<Option<Vec<Table<'a>>>> {
        self.vector(slot, Table::at)
    }

    fn vector<T>(&self, slot: usize, item: fn(&'a [u8], usize) -> Result<T>) -> Result<Option<Vec<T>>> {
        let Some(at) = self.reference(slot)? else { return Ok(None) };
        let count = usize::try_from(u32::from_le_bytes(array(self.bytes, at)?)).unwrap_or(usize::MAX);
        let room = (self.bytes.len() - at - 4) / 4;
        if count > room {
            return Err(Malformed("a vector ends outside"));
        }
        (0..count)
            .map(|index| item(self.bytes, follow(self.bytes, at + 4 + 4 * index)?))
            .collect::<Result<_>>()
            .map(Some)
    }
}

fn text(bytes: &[u8], at: usize) -> Result<&str> {
    let length = usize::try_from(u32::from_le_bytes(array(bytes, at)?)).unwrap_or(usize::MAX);
    let end = (at + 4)
        .checked_add(length)
        .filter(|end| *end < bytes.len())
        .ok_or(Malformed("a text ends outside"))?;
    if bytes[end] != 0 {
        return Err(Malformed("a text does not end in a zero"));
    }
    let text = std::str::from_utf8(&bytes[at + 4..end]).map_err(|_| Malformed("a text is not UTF-8"))?;
    if text.contains('\0') { Err(Malformed("a text has a zero within")) } else { Ok(text) }
}

/// Where the offset that stands at `place` leads.
fn follow(bytes: &[u8], place: usize) -> Result<usize> {
    let offset = usize::try_from(u32::from_le_bytes(array(bytes, place)?)).unwrap_or(usize::MAX);
    match place.checked_add(offset) {
        Some(to) if offset >= 4 && to.saturating_add(4) <= bytes.len() => Ok(to),
        _ => Err(Malformed("an offset leads outside")),
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let end = at.checked_add(N).ok_or(Malformed("it ends outside"))?;
    bytes.get(at..end).and_then(|part| part.try_into().ok()).ok_or(Malformed("it ends outside"))
}
