//! Splits the text of a table into records and cells.

use std::fmt;
use std::path::Path;

use super::LineBreaks;
use super::cell::with_point;

/// The marks at the start of a text in UTF-16. No text in UTF-8 contains these bytes.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];
/// The first bytes of a file that `gzip` compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// How many bytes at the start of a file are searched for one that no text has.
const START: usize = 512;
/// What to do about another encoding.
const SAVE: &str = "save it in UTF-8, in Excel as \"CSV UTF-8\"";

/// The separator between the cells of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    Tab,
    Semicolon,
    Comma,
}

impl fmt::Display for Separator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tab => "tabs",
            Self::Semicolon => "semicolons",
            Self::Comma => "commas",
        })
    }
}

impl Separator {
    const ALL: [Self; 3] = [Self::Tab, Self::Semicolon, Self::Comma];

    const fn byte(self) -> u8 {
        match self {
            Self::Tab => b'\t',
            Self::Semicolon => b';',
            Self::Comma => b',',
        }
    }

    /// The separator that `line` declares, as Excel's `sep=;` does.
    fn declared(line: &[u8]) -> Option<Self> {
        let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
        let (name, separator) = line.split_at_checked(4)?;
        let known = || Self::ALL.into_iter().find(|known| [known.byte()] == *separator);
        if name.eq_ignore_ascii_case(b"sep=") { known() } else { None }
    }

    /// Recognises the separator of a file by its extension and its first line.
    fn of(path: &Path, bytes: &[u8]) -> Self {
        let first = first_line(bytes);
        let is_tsv = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("tsv"));
        if is_tsv && first.contains(&Self::Tab.byte()) {
            return Self::Tab;
        }
        let count = |separator: &Self| first.iter().filter(|&&b| b == separator.byte()).count();
        // In a first line without names, the commas can be decimal commas.
        let has_commas = |cell: &[u8]| cell.contains(&b',');
        let is_decimal = |cell: &[u8]| std::str::from_utf8(cell).is_ok_and(|text| with_point(text.trim()).is_some());
        let separates = |separator: &Self| {
            let mut cells = first.split(|&b| b == separator.byte());
            count(separator) > 0 && cells.all(|cell| !has_commas(cell) || is_decimal(cell))
        };
        if let Some(separator) = [Self::Tab, Self::Semicolon].into_iter().filter(separates).max_by_key(count) {
            return separator;
        }
        // `max_by_key` returns the last of equally frequent ones: the comma.
        Self::ALL.into_iter().max_by_key(count).unwrap_or(Self::Comma)
    }
}

/// Returns the first line that is not empty, without the contents of quoted cells. A quote is special only at the start of a
/// cell.
fn first_line(bytes: &[u8]) -> Vec<u8> {
    let (mut line, mut is_quoted, mut has_ended) = (Vec::new(), false, false);
    for &byte in bytes.iter().skip_while(|b| b"\r\n".contains(b)) {
        let begins = line.last().is_none_or(|last| Separator::ALL.iter().any(|separator| separator.byte() == *last));
        match byte {
            // Two quotes within a quoted cell are one escaped quote: the cell seems to end, and continues.
            b'"' if is_quoted || begins || has_ended => {
                line.push(byte);
                has_ended = is_quoted;
                is_quoted = !is_quoted;
                continue;
            }
            _ if is_quoted => {}
            b'\r' | b'\n' => break,
            _ => line.push(byte),
        }
        has_ended = false;
    }
    line
}

/// What is wrong with the quotes of a record, by positions in its text.
enum Misquoted {
    /// The quoted cell that begins there is not closed.
    Open(usize),
    /// The quoted cell that begins at `begin` is closed, and other text than blanks follows at `at`.
    Continued { begin: usize, at: usize },
}

/// Checks the quoted cells of `record`, and returns where the last line break within them ends. csv-core takes the end of the
/// file for the end of a cell, and text after a closing quote for a part of the cell: one quote too many would hide all the rows
/// after it, and two of them the rows between.
fn check_quotes(record: &[u8], separator: Separator) -> Result<Option<usize>, Misquoted> {
    #[derive(PartialEq)]
    enum At {
        Start,
        Plain,
        Quoted,
        /// After a quote in a quoted cell: its end, or the first half of an escaped quote.
        Quote,
        /// After the end of a quoted cell, and blanks.
        Closed,
    }
    let (mut at, mut begin, mut broken) = (At::Start, 0, None);
    for (index, &byte) in record.iter().enumerate() {
        at = match (at, byte) {
            (At::Start, b'"') => {
                begin = index;
                At::Quoted
            }
            (At::Quoted, b'"') => At::Quote,
            (At::Quoted, byte) => {
                if b"\r\n".contains(&byte) {
                    broken = Some(index + 1);
                }
                At::Quoted
            }
            (At::Quote, b'"') => At::Quoted,
            (_, byte) if byte == separator.byte() || b"\r\n".contains(&byte) => At::Start,
            // Blanks around cells have no meaning.
            (At::Quote | At::Closed, byte) if byte.is_ascii_whitespace() => At::Closed,
            (At::Quote | At::Closed, _) => return Err(Misquoted::Continued { begin, at: index }),
            (At::Start | At::Plain, _) => At::Plain,
        };
    }
    if at == At::Quoted { Err(Misquoted::Open(begin)) } else { Ok(broken) }
}

/// The number of lines that end within the first `count` bytes of `input`, with a line feed, a carriage return, or both.
fn line_ends(input: &[u8], count: usize) -> u64 {
    let ends = |&(at, &byte): &(usize, &u8)| byte == b'\n' || (byte == b'\r' && input.get(at + 1) != Some(&b'\n'));
    input.iter().enumerate().take(count).filter(ends).count() as u64
}

/// Reads the records of a table one after the other into reused buffers.
pub(super) struct Records<'a> {
    reader: csv_core::Reader,
    input: &'a [u8],
    separator: Separator,
    line: u64,
    text: Vec<u8>,
    ends: Vec<usize>,
    line_breaks: Option<LineBreaks>,
}

impl<'a> Records<'a> {
    /// The records of a file with the contents `bytes`. The extension of `path` affects the separator.
    pub(super) fn new(path: &Path, bytes: &'a [u8]) -> Self {
        let input = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let first = input.split(|b| b"\r\n".contains(b)).next().unwrap_or_default();
        let declared = Separator::declared(first);
        let separator = declared.unwrap_or_else(|| Separator::of(path, input));
        let reader = csv_core::ReaderBuilder::new().delimiter(separator.byte()).build();
        let (text, ends) = (vec![0; 1024], vec![0; 64]);
        let mut records = Self { reader, input, separator, line: 1, text, ends, line_breaks: None };
        if declared.is_some() {
            records.consume(first.len());
        }
        records
    }

    pub(super) fn separator(&self) -> Separator {
        self.separator
    }

    /// The records so far with line breaks in quoted cells.
    pub(super) fn line_breaks(&self) -> Option<LineBreaks> {
        self.line_breaks
    }

    fn consume(&mut self, count: usize) {
        let count = count.min(self.input.len());
        self.line += line_ends(self.input, count);
        self.input = &self.input[count..];
    }

    /// Returns the next record that is not empty and its line number. Blanks around cells are removed.
    ///
    /// # Errors
    /// What is wrong, if the record has more than `most` cells, is not text, or has a quoted cell that is not closed or is
    /// followed by text.
    pub(super) fn next(&mut self, most: usize) -> Result<Option<(u64, Vec<&str>)>, String> {
        if UTF_16.iter().any(|mark| self.input.starts_with(mark)) {
            return Err(format!("it is text in UTF-16; {SAVE}"));
        }
        let is_start = self.line == 1;
        if is_start && self.input.starts_with(&GZIP) {
            return Err("it is compressed; unpack it, with `gunzip` for example".to_owned());
        }
        if is_start && self.input.iter().take(START).any(|&byte| byte == 0) {
            return Err("it is not text; expected a table, .csv or .tsv".to_owned());
        }
        let blank = self.input.iter().take_while(|b| b"\r\n".contains(b)).count();
        self.consume(blank);
        let (line, record) = (self.line, self.input);
        let (mut written, mut ended) = (0, 0);
        loop {
            let (result, read, wrote, ends) =
                self.reader.read_record(self.input, &mut self.text[written..], &mut self.ends[ended..]);
            self.consume(read);
            (written, ended) = (written + wrote, ended + ends);
            // Before there is more memory for them.
            if ended > most {
                return Err(format!("line {line} has more than {most} cells"));
            }
            match result {
                csv_core::ReadRecordResult::InputEmpty => {}
                csv_core::ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                csv_core::ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                csv_core::ReadRecordResult::Record => break,
                csv_core::ReadRecordResult::End => return Ok(None),
            }
        }
        let record = record.get(..record.len() - self.input.len()).unwrap_or(record);
        let line_at = |position: usize| line + line_ends(record, position);
        match check_quotes(record, self.separator) {
            Ok(None) => {}
            Ok(Some(end)) => {
                let first = LineBreaks { first: line, last: line_at(end), count: 0 };
                self.line_breaks.get_or_insert(first).count += 1;
            }
            Err(Misquoted::Open(begin)) => {
                return Err(format!(
                    "line {}: a quoted cell is not closed; add a quote at its end, or remove the one at its start",
                    line_at(begin)
                ));
            }
            Err(Misquoted::Continued { begin, at }) => {
                let (begin, at) = (line_at(begin), line_at(at));
                let begins = if begin == at { String::new() } else { format!(" that begins in line {begin}") };
                return Err(format!(
                    "line {at}: text after the closing quote of a cell{begins}; double each quote inside the cell, or remove \
                     the one at its start"
                ));
            }
        }
        let mut start = 0;
        let cells = self.ends[..ended].iter().map(|&end| {
            let cell = self.text.get(std::mem::replace(&mut start, end)..end).unwrap_or_default();
            std::str::from_utf8(cell).map(str::trim).map_err(|_| format!("line {line} is not text in UTF-8; {SAVE}"))
        });
        cells.collect::<Result<_, _>>().map(|cells| Some((line, cells)))
    }
}
