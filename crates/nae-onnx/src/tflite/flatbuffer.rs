//! Reads FlatBuffers with checked offsets: tables, vectors and numbers.
//!
//! This is a separate implementation because the required part is small and files may be hostile:
//! the crate `flatbuffers` reads tables through unsafe code that relies on a verifier in generated
//! code, which for TFLite's schema has tens of thousands of lines; this workspace has no unsafe code
//! on hosts. The format: <https://flatbuffers.dev/internals/>.

use super::error::TfliteError;

/// The bytes of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer<'a> {
    bytes: &'a [u8],
}

/// A table in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: Buffer<'a>,
    at: usize,
    /// The offsets of its fields, two bytes each.
    fields: &'a [u8],
}

/// A vector of elements of the same size.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vector<'a> {
    buffer: Buffer<'a>,
    at: usize,
    bytes: &'a [u8],
}

impl<'a> Buffer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The error for a part that cannot be read.
    pub(super) fn malformed(self, what: &'static str) -> TfliteError {
        TfliteError::Malformed { what, len: self.bytes.len() }
    }

    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    fn u32(self, at: usize) -> Option<usize> {
        self.array(at).map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    /// The target of the offset stored at `at`.
    fn follow(self, at: usize) -> Option<usize> {
        at.checked_add(self.u32(at)?)
    }

    /// The root table.
    pub(super) fn root(self) -> Option<Table<'a>> {
        self.table(self.follow(0)?)
    }

    fn table(self, at: usize) -> Option<Table<'a>> {
        let back = i64::from(i32::from_le_bytes(self.array(at)?));
        let vtable = usize::try_from(i64::try_from(at).ok()?.checked_sub(back)?).ok()?;
        let len = usize::from(u16::from_le_bytes(self.array(vtable)?));
        let fields = self.bytes.get(vtable..)?.get(4..len)?;
        Some(Table { buffer: self, at, fields })
    }

    fn vector(self, at: usize, size: usize) -> Option<Vector<'a>> {
        let bytes = self.u32(at)?.checked_mul(size)?;
        let start = at.checked_add(4)?;
        Some(Vector { buffer: self, at: start, bytes: self.bytes.get(start..)?.get(..bytes)? })
    }
}

impl<'a> Table<'a> {
    /// The position of field `index`; `None` if the table does not have it.
    fn field(self, index: usize) -> Option<usize> {
        let offset = u16::from_le_bytes(*self.fields.get(2 * index..)?.first_chunk()?);
        if offset == 0 { None } else { self.at.checked_add(offset.into()) }
    }

    /// A number field of `N` bytes, or `default` if the table does not have it.
    pub(super) fn number<const N: usize>(self, index: usize, default: [u8; N]) -> Option<[u8; N]> {
        match self.field(index) {
            None => Some(default),
            Some(at) => self.buffer.array(at),
        }
    }

    /// A table field; the outer `None` if it is damaged.
    pub(super) fn table(self, index: usize) -> Option<Option<Table<'a>>> {
        match self.field(index) {
            None => Some(None),
            Some(at) => self.buffer.table(self.buffer.follow(at)?).map(Some),
        }
    }

    /// A vector field of elements of `size` bytes; empty if the table does not have it.
    pub(super) fn vector(self, index: usize, size: usize) -> Option<Vector<'a>> {
        match self.field(index) {
            None => Some(Vector { buffer: self.buffer, at: 0, bytes: &[] }),
            Some(at) => self.buffer.vector(self.buffer.follow(at)?, size),
        }
    }
}

impl<'a> Vector<'a> {
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The elements as arrays of `N` bytes.
    pub(super) fn arrays<const N: usize>(self) -> &'a [[u8; N]] {
        self.bytes.as_chunks().0
    }

    /// The number of tables in a vector of tables.
    pub(super) fn tables(self) -> usize {
        self.bytes.len() / 4
    }

    /// Table `index` of a vector of tables.
    pub(super) fn table(self, index: usize) -> Option<Table<'a>> {
        let within = index.checked_mul(4).filter(|within| within + 4 <= self.bytes.len())?;
        self.buffer.table(self.buffer.follow(self.at + within)?)
    }
}
