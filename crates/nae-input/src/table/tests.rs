use super::*;

fn table(text: &str) -> Result<Table, String> {
    parse(Path::new("t.csv"), text.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_table_in_memory_is_checked_as_a_file_is() {
    let new = |names: &[&str], rows: Vec<Vec<Cell>>| {
        Table::new("memory", names.iter().map(|&name| name.to_owned()).collect(), rows)
            .map_err(|error| error.to_string())
    };
    let row = |a, b| vec![Cell::Number(a), Cell::Number(b)];
    let given = new(&["a", "b"], vec![row(1.0, 2.0), row(3.0, 4.0)]).unwrap();
    assert_eq!(given.rows()[1], Row { line: 2, cells: row(3.0, 4.0) });
    assert!(new(&["a", "b"], Vec::new()).unwrap().rows().is_empty());
    for (names, rows, problem) in [
        (&["a", "a"][..], vec![row(1.0, 2.0)], "two columns are called"),
        (&["a"][..], vec![row(1.0, 2.0)], "line 1 has 2, and there are 1 names"),
    ] {
        let message = new(names, rows).unwrap_err();
        assert!(message.contains("memory") && message.contains(problem), "{message}");
    }
}

#[test]
fn header_and_delimiter_are_seen() {
    for text in ["a,b\n1,2\n", "a;b\r\n1;2", "a\tb\n1\t2\n", "\u{feff}a,b\n\n 1 , 2\n", "\"a\",b\n\"1\",2e0\n"] {
        let table = table(text).unwrap();
        assert_eq!(table.names(), ["a", "b"], "{text:?}");
        assert_eq!(table.rows()[0].cells, [Cell::Number(1.0), Cell::Number(2.0)], "{text:?}");
    }
    let table = table("1,NA\n?,x y\n").unwrap();
    assert_eq!(table.names(), ["column 1", "column 2"]);
    assert_eq!(table.rows()[0].cells, [Cell::Number(1.0), Cell::Missing]);
    assert_eq!(table.rows()[1], Row { line: 2, cells: vec![Cell::Missing, Cell::Text("x y".into())] });
}

/// Excel writes this line so that it reads the file again.
#[test]
fn a_declared_separator_is_that_of_the_table() {
    for text in ["sep=;\r\na;b,c\r\n1;2,5\r\n", "\"SEP=;\"\na;b,c\n1;2,5\n"] {
        let read = table(text).unwrap();
        assert_eq!(read.names(), ["a", "b,c"]);
        assert_eq!(read.rows(), [Row { line: 3, cells: vec![Cell::Number(1.0), Cell::Number(2.5)] }]);
    }
    assert_eq!(table("sep=,\n1,2\n").unwrap().names(), ["column 1", "column 2"]);
    assert_eq!(table("sep=,x\n1,2\n").unwrap().names(), ["sep=", "x"]);
}

#[test]
fn decimal_commas_are_numbers_where_semicolons_or_tabs_separate() {
    let read = table("a;b;c\n1,5;-2,5e1;3\n,5;7;1,2,3\n").unwrap();
    assert_eq!(read.rows()[0].cells, [Cell::Number(1.5), Cell::Number(-25.0), Cell::Number(3.0)]);
    assert_eq!(read.rows()[1].cells, [Cell::Number(0.5), Cell::Number(7.0), Cell::Text("1,2,3".into())]);
    // Numbers with a comma in the first line are no header.
    assert_eq!(table("1,5;2,5\n").unwrap().names(), ["column 1", "column 2"]);
    assert_eq!(table("1,5;2,5;3\n").unwrap().rows()[0].cells[1], Cell::Number(2.5));
    // As many semicolons as commas, in names.
    assert_eq!(table("a;b,c\n1,2\n").unwrap().names(), ["a;b", "c"]);
    let read = table("a\tb\n20,1\t2\n1,500\t-0,5\n").unwrap();
    assert_eq!(read.rows()[0].cells, [Cell::Number(20.1), Cell::Number(2.0)]);
    assert_eq!(read.rows()[1].cells, [Cell::Number(1.5), Cell::Number(-0.5)]);
    // Without a header, of more commas than tabs.
    let read = table("1,5\t2,5\t3,5\n").unwrap();
    assert_eq!(read.rows()[0].cells, [1.5, 2.5, 3.5].map(Cell::Number));
}

#[test]
fn decimal_points_beside_commas_are_refused_where_the_column_is_used() {
    let column = |name: &str| Column::number(name, 1.0, 1.0, 4.0);
    let needed = |text: &str, names: &[&str]| {
        let columns = Columns::new(names.iter().map(|name| column(name)).collect(), Missing::Refuse).unwrap();
        table(text).unwrap().positions(&columns).map_err(|error| error.to_string())
    };
    let text = "b;a;version\n2,5;1,5;1\n2;1;1.2\n";
    assert_eq!(needed(text, &["a", "b"]), Ok(vec![1, 0]));
    let read = table(text).unwrap();
    assert_eq!(read.rows()[0].cells, [Cell::Number(2.5), Cell::Number(1.5), Cell::Text("1".into())]);
    assert_eq!(read.rows()[1].cells, [Cell::Number(2.0), Cell::Number(1.0), Cell::Text("1.2".into())]);
    let message = needed(text, &["a", "version"]).unwrap_err();
    for part in ["t.csv", "column \"version\"", "\"1.2\" in line 3", "\"2,5\" in line 2 of the column \"b\""] {
        assert!(message.contains(part), "{message}");
    }
    // 1.234 may be a thousand and more.
    let mixed = "a;b\n1;2\n1,5;2\n1.234;NA\n";
    assert_eq!(needed(mixed, &["b"]), Ok(vec![1]));
    let message = needed(mixed, &["a"]).unwrap_err();
    assert!(message.contains("\"1,5\" in line 3") && message.contains("\"1.234\" in line 4"), "{message}");
    let read = table(mixed).unwrap();
    let texts = ["1", "1,5", "1.234"].map(|text| Cell::Text(text.into()));
    assert_eq!(read.rows().iter().map(|row| row.cells[0].clone()).collect::<Vec<_>>(), texts);
    // As they are written without a header, too, with lines between, and in quotes.
    let read = table("1,5;\"2.5\"\n\n3;4\n").unwrap();
    assert_eq!(read.rows()[0].cells, [Cell::Number(1.5), Cell::Text("2.5".into())]);
    assert_eq!(read.rows()[1], Row { line: 3, cells: vec![Cell::Number(3.0), Cell::Text("4".into())] });
    // Names are no numbers; a date is none, and a text with both signs decides nothing.
    for text in ["2.5;b\n1,5;2\n", "day;b\n12.03.2024;1,5\n1.234,5;2\n", "a;b\n1.5;2.5\n"] {
        assert_eq!(needed(text, &["b"]), Ok(vec![1]), "{text:?}");
    }
    // Between tabs, a comma may separate thousands if no other number shows what it is.
    let tabs = "a\tb\tc\n1,500\t2.5\t1\n999\t3.5\t2\n";
    assert_eq!(needed(tabs, &["b", "c"]), Ok(vec![1, 2]));
    let read = table(tabs).unwrap();
    assert_eq!(read.rows()[1].cells[..2], [Cell::Text("999".into()), Cell::Number(3.5)]);
    let message = needed(tabs, &["a"]).unwrap_err();
    assert!(message.contains("separate thousands: \"1,500\" in line 2"), "{message}");
    // A model that takes its texts, or does not ask for numbers in it, sees texts.
    let is = |value: &str| Column { reading: Reading::Is(value.to_owned()), ..column("version") };
    let columns = Columns::new(vec![is("1.2"), is("1.3")], Missing::Refuse).unwrap();
    let read = table(text).unwrap();
    let positions = read.positions(&columns).unwrap();
    assert_eq!(read.rows()[1].prepare(&positions, &columns), Ok(vec![0.5, 0.375]));
}

#[test]
fn separators_in_quotes_separate_nothing() {
    for (text, names) in [
        ("\"Druck, bar\";\"Temp, °C\"\n1,5;2,5\n", ["Druck, bar", "Temp, °C"]),
        ("\"a \"\"x,y,z\"\"\";b\n1,5;2,5\n", ["a \"x,y,z\"", "b"]),
        ("\"a;b;c\",d\n1.5,2.5\n", ["a;b;c", "d"]),
        ("\"a\nb, c\";\"d, e\"\n1,5;2,5\n", ["a b, c", "d, e"]),
        ("5\" pipe,6\" pipe\n1.5,2.5\n", ["5\" pipe", "6\" pipe"]),
        ("\r\n\na;b\n1,5;2,5\n", ["a", "b"]),
        ("\"1,5\";\"2,5\"\n", ["column 1", "column 2"]),
        ("1,5;\"2,5\"\n", ["column 1", "column 2"]),
    ] {
        let read = table(text).unwrap();
        assert_eq!(read.names(), names, "{text:?}");
        assert_eq!(read.rows()[0].cells, [Cell::Number(1.5), Cell::Number(2.5)], "{text:?}");
    }
    // Behind a quoted cell a number is no decimal one.
    assert_eq!(table("\"a\",5;3\n1,2\n").unwrap().names(), ["a", "5;3"]);
}

#[test]
fn tabs_separate_the_cells_of_a_tsv_file() {
    let read = |name: &str, text: &str| parse(Path::new(name), text.as_bytes()).map_err(|error| error.to_string());
    let text = "Druck, bar, absolut\tTemp, °C\n1.5\t2.5\n";
    for name in ["t.tsv", "T.TSV"] {
        let found = read(name, text).unwrap();
        assert_eq!(found.names(), ["Druck, bar, absolut", "Temp, °C"], "{name}");
        assert_eq!(found.rows()[0].cells, [Cell::Number(1.5), Cell::Number(2.5)], "{name}");
    }
    assert_eq!(read("t.csv", "a,b,c\td\n1,2,3\n").unwrap().names(), ["a", "b", "c d"]);
    // Without a tab by its name only.
    assert_eq!(read("t.tsv", "a,b\n1,2\n").unwrap().names(), ["a", "b"]);
    assert_eq!(read("t.tsv", "\"a\tb\",c\n1,2\n").unwrap().names(), ["a b", "c"]);
}

#[test]
fn lines_end_as_every_system_ends_them() {
    let lines = |text: &str| table(text).unwrap().rows().iter().map(|row| row.line).collect::<Vec<_>>();
    for text in ["a,b\r1,2\r3,4\r", "a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\r1,2\n3,4"] {
        assert_eq!(lines(text), [2, 3], "{text:?}");
    }
    assert_eq!(lines("a,b\r\r1,2\r\n\r\n3,4"), [3, 5], "empty lines count");
}

/// The header counts: one line of commas asked for seven gigabytes.
#[test]
fn cells_are_bounded() {
    let read = |text: &str| parse_within(Path::new("t.csv"), text.as_bytes(), 300, 1000).map_err(|e| e.to_string());
    let line = |cell: &str, count: usize| [cell].repeat(count).join(",");
    let names = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>().join(",");
    assert!(read(&format!("{}\n{}", names(300), line("1", 300))).is_ok());
    let e = read(&names(301)).unwrap_err();
    assert!(e.contains("t.csv") && e.ends_with("line 1 has more than 300 cells"), "{e}");
    let e = read(&format!("{}\n{}", names(300), line("1", 301))).unwrap_err();
    assert!(e.ends_with("line 2 has more than 300 cells"), "{e}");
    assert!(read(&format!("{}\n{}", names(250), [line("1", 250).as_str()].repeat(3).join("\n"))).is_ok());
    let e = read(&format!("{}\n{}", names(250), [line("1", 250).as_str()].repeat(4).join("\n"))).unwrap_err();
    assert!(e.ends_with("more than 1000 cells; divide it into several files"), "{e}");
    // The limits themselves, of a file with a column too many.
    let e = table(&"a,".repeat(MAX_COLUMNS + 1)).unwrap_err();
    assert!(e.ends_with("line 1 has more than 1048576 cells"), "{e}");
}

#[test]
fn what_is_no_table_is_named() {
    for (text, named) in [
        ("", "no row"),
        ("a,b\n", "no row"),
        ("a,a\n1,2\n", "two columns"),
        ("1,2\n\n1\n", "line 3 has 1, the first has 2, separated by commas"),
        ("a;b\n1;2;3\n", "line 2 has 3, the first has 2, separated by semicolons"),
        ("a\tb\n1\n", "line 2 has 1, the first has 2, separated by tabs"),
        ("1,inf\n", "no row"),
        ("a,b\n1,2\n3\n", "line 3 has 1, the first has 2, separated by commas; complete or remove the line"),
        ("a,b\n1,2,3\n", "put cells that contain commas into quotes"),
        ("# made by hand\na,b\n1,2\n", "remove lines above the header, such as \"# made by hand\""),
        ("sep=|\na,b\n1,2\n", "remove lines above the header, such as \"sep=|\""),
        ("a|b\n1|2\n", "separated by |; separate them by commas, semicolons or tabs"),
        ("a b  c\n1 2.5 -3\n", "separated by blanks"),
    ] {
        let message = table(text).unwrap_err();
        assert!(message.contains(named) && message.contains("t.csv"), "{message}");
    }
    let message = parse(Path::new("t.csv"), &[b'1', b'\n', 0xff, b'\n']).unwrap_err().to_string();
    assert!(message.contains("line 2 is not text in UTF-8; save it in UTF-8"), "{message}");
    let message = parse(Path::new("t.csv"), b"\xff\xfea\0,\0b\0\n\0").unwrap_err().to_string();
    assert!(message.contains("text in UTF-16; save it in UTF-8, in Excel as \"CSV UTF-8\""), "{message}");
    let message = parse(Path::new("t.csv"), &[0x1f, 0x8b, 8, 0, 0]).unwrap_err().to_string();
    assert!(message.contains("it is compressed; unpack it"), "{message}");
    let message = parse(Path::new("t.csv"), b"RIFF\x24\0\0\0WAVE").unwrap_err().to_string();
    assert!(message.contains("it is not text; expected a table"), "{message}");
}

/// Otherwise all the rows after the quote would be one cell.
#[test]
fn a_quoted_cell_that_is_not_closed_is_named() {
    let log = "temp,pressure,state,note\n20,40,on,\"5 bar valve changed\n21,42,off,\n99,1,off,\n90,1,on,\n";
    for (text, line) in [
        (log, 2),
        ("\"a,b\n1,2\n", 1),
        ("a,b\n1,\"\n", 2),
        ("a,b\n1,\"2\"\"\n", 2),
        ("a,b\r\n\"1\r\n2\",\"3\r\n4", 3),
        ("sep=;\na;b\n1;\"2\n", 3),
    ] {
        let message = table(text).unwrap_err();
        assert!(message.contains(&format!(": line {line}: a quoted cell is not closed; add a quote")), "{message}");
    }
    let closed = ["a,b\n1,2\"\n", "a,b\n1,\"2\"", "a,b\n1,2\"x\"\n", "a,b\n1,\"\"\"2\"\n\n", "a,b\n1, \"2\n"];
    assert!(closed.iter().all(|text| table(text).is_ok_and(|table| table.rows().len() == 1)));
}

/// Otherwise all the rows between two quotes in different rows would be one cell.
#[test]
fn text_after_a_closing_quote_is_named() {
    let log = "temp,note\n10,\"5 inch\n50,ok\n60,ok\n10,\"6 inch\n10,ok\n";
    let forms = [log.to_owned(), log.replace('\n', "\r\n"), log.replace('\n', "\r"), log.replace(',', ";")];
    let of_two_rows = "line 5: text after the closing quote of a cell that begins in line 2; double each quote";
    for (text, at) in forms.iter().map(|text| (text.as_str(), of_two_rows)).chain([
        ("a,b\n1,2\n1,\"5\" pipe\"\n", "line 3: text after the closing quote of a cell; double each quote"),
        ("a,b\n1,2\n1,\"5\" \"\n1,2\n", "line 3: text after the closing quote of a cell; double each quote"),
        ("\"a\"b,c\n1,2\n", "line 1: text after the closing quote of a cell; double each quote"),
        ("a;b\n1;\"2\"\t\"\"\n", "line 2: text after the closing quote of a cell; double each quote"),
        ("a,b\n1,\"2\n\"\"\n3\"x", "line 4: text after the closing quote of a cell that begins in line 2;"),
    ]) {
        let message = table(text).unwrap_err();
        assert!(message.contains(at) && message.contains("t.csv"), "{text:?}: {message}");
    }
    // Blanks have no meaning, and doubled quotes are quotes.
    let read = table("a,b\n1,\"red\" \n2,\"5\"\"\"\t \n").unwrap();
    let second: Vec<_> = read.rows().iter().map(|row| row.cells[1].clone()).collect();
    assert_eq!(second, ["red", "5\""].map(|text| Cell::Text(text.into())));
    assert_eq!(table("a\tb\n\"1\"\t\"2\" \n").unwrap().rows()[0].cells, [Cell::Number(1.0), Cell::Number(2.0)]);
    assert_eq!(read.line_breaks(), None);
}

/// They may be meant, or be due to two quotes too many of which the second ends a cell.
#[test]
fn rows_of_several_lines_are_counted_and_the_first_is_named() {
    for end in ["\n", "\r\n", "\r"] {
        let text = "a,b\n1,x\n\"2\n\",\"y\n\nz\"\n3,\"x\"\n4,\"y\nz\"".replace('\n', end);
        let read = table(&text).unwrap();
        assert_eq!(read.rows().iter().map(|row| row.line).collect::<Vec<_>>(), [2, 3, 7, 8]);
        assert_eq!(read.rows()[1].cells[1], Cell::Text(format!("y{end}{end}z").into()));
        assert_eq!(read.line_breaks(), Some(LineBreaks { first: 3, last: 6, count: 2 }), "{text:?}");
    }
    let said = |text: &str| table(text).unwrap().line_breaks().map(|found| found.to_string()).unwrap_or_default();
    let one = "the lines 2 to 3 are one row, as a quoted cell contains line breaks";
    assert_eq!(said("a\n\"x\ny\"\n"), format!("{one}; if these are several rows, remove the quote before them"));
    assert!(said("a\n\"x\ny\"\n\"x\ny\"\n").starts_with(&format!("{one}, and 1 other row has such a cell;")));
    assert_eq!(said("a,b\n\"1\",\"x\"\n\n"), "");
}

#[test]
fn long_rows_and_cells_are_whole() {
    let header: Vec<String> = (0..500).map(|n| format!("\"a, long \"\"name\"\" {n}\"")).collect();
    let numbers: Vec<String> = (0..500).map(|n| format!("{n}.25")).collect();
    let table = table(&format!("{}\n{}", header.join(","), numbers.join(","))).unwrap();
    assert_eq!(table.names()[499], "a, long \"name\" 499");
    assert_eq!(table.rows(), [Row { line: 2, cells: (0..500).map(|n| Cell::Number(f64::from(n) + 0.25)).collect() }]);
}

#[test]
fn columns_are_found_by_name() {
    let column = |name: &str| Column::number(name, 1.0, 1.0, 4.0);
    let columns = |missing| Columns::new(vec![column("b"), column("a")], missing).unwrap();
    let (refuse, fill) = (columns(Missing::Refuse), columns(Missing::Fill));
    let read = table("a,time,b\n1,noon,5\n1,noon,\n1,noon,low\n").unwrap();
    let positions = read.positions(&refuse).unwrap();
    let row = |n: usize, columns: &Columns| read.rows()[n].prepare(&positions, columns);
    assert_eq!(row(0, &refuse), Ok(vec![1.0, 0.5]));
    assert_eq!(row(1, &refuse), Err(RowError::Missing("b".to_owned())));
    assert_eq!(row(1, &fill), Ok(vec![0.5, 0.5]));
    assert_eq!(row(2, &fill), Err(RowError::Text { column: "b".to_owned(), found: "low".to_owned() }));
    assert_eq!(read.rows().iter().filter(|row| row.is_filled(&positions, &fill)).count(), 1);
    let message = table("a,c\n1,2\n").unwrap().positions(&refuse).unwrap_err().to_string();
    assert!(message.contains("\"b\"") && message.contains("a, c"), "{message}");
}

/// pandas and polars write the names of a DataFrame as they are, and models made earlier have them so.
#[test]
fn names_are_the_same_whatever_the_blanks_in_them() {
    let named = |name: &str| Columns::new(vec![Column::number(name, 1.0, 1.0, 4.0)], Missing::Refuse).unwrap();
    let read = table("x,\" flow \t rate\n(l/s) \"\n1,2\n").unwrap();
    assert_eq!(read.names(), ["x", "flow rate (l/s)"]);
    let given = Table::new("memory", vec!["flow  rate\r\n(l/s)".to_owned()], vec![vec![Cell::Number(1.0)]]).unwrap();
    assert_eq!(given.names(), ["flow rate (l/s)"]);
    for name in ["flow rate (l/s)", "flow \t rate\n(l/s)", "flow  rate (l/s)"] {
        assert_eq!(read.positions(&named(name)).unwrap(), [1], "{name:?}");
        assert_eq!(given.positions(&named(name)).unwrap(), [0], "{name:?}");
    }
    assert!(read.positions(&named("flowrate (l/s)")).is_err());
    let twice = table("a b,a  b\n1,2\n").unwrap_err();
    assert!(twice.contains("two columns are called \"a b\""), "{twice}");
}

#[test]
fn categories_and_gaps_have_inputs_of_their_own() {
    let indicator = |reading| Column { reading, ..Column::number("colour", 0.5, 0.5, 4.0) };
    let is = |value: &str| indicator(Reading::Is(value.to_owned()));
    let columns = |missing| Columns::new(vec![is("red"), is("blue"), indicator(Reading::Absent)], missing).unwrap();
    let (refuse, fill) = (columns(Missing::Refuse), columns(Missing::Fill));
    let read = table("a,colour\n1,red\n1,blue\n1,\n1,green\n1,7\n").unwrap();
    let positions = read.positions(&fill).unwrap();
    let row = |n: usize, columns: &Columns| read.rows()[n].prepare(&positions, columns);
    let (yes, no) = (0.625, 0.375);
    for (n, expected) in
        [[yes, no, no], [no, yes, no], [no, no, yes], [no, no, no], [no, no, no]].into_iter().enumerate()
    {
        assert_eq!(row(n, &fill), Ok(expected.to_vec()), "{n}");
    }
    assert_eq!(row(0, &refuse), Ok(vec![yes, no, no]));
    assert_eq!(row(2, &refuse), Err(RowError::Missing("colour".to_owned())));
}

#[test]
fn truth_values_are_one_category_however_they_are_written() {
    let is = |value: &str| {
        let reading = Reading::Is(value.to_owned());
        Column { reading, ..Column::number("flag", 0.5, 0.5, 4.0) }
    };
    let (yes, no) = (0.625, 0.375);
    let read = table("flag\nTrue\ntrue\nFALSE\nyes\n").unwrap();
    let categories = Columns::new(vec![is("False"), is("True")], Missing::Refuse).unwrap();
    let positions = read.positions(&categories).unwrap();
    for (row, expected) in read.rows().iter().zip([[no, yes], [no, yes], [yes, no], [no, no]]) {
        assert_eq!(row.prepare(&positions, &categories), Ok(expected.to_vec()));
    }
    // An array has them as 0 and 1, and so have many databases.
    let numbers = table("flag\n1\n0.0\n2\n-1\n").unwrap();
    for (row, expected) in numbers.rows().iter().zip([[no, yes], [yes, no], [no, no], [no, no]]) {
        assert_eq!(row.prepare(&positions, &categories), Ok(expected.to_vec()), "{row:?}");
    }
    // A model of numbers has learnt them as 0 and 1.
    let numbers = Columns::new(vec![Column::number("flag", 0.0, 1.0, 4.0)], Missing::Refuse).unwrap();
    let positions = read.positions(&numbers).unwrap();
    let row = |n: usize| read.rows()[n].prepare(&positions, &numbers);
    assert_eq!((row(1), row(2)), (Ok(vec![0.625]), Ok(vec![0.5])));
    assert!(row(3).is_err());
}

/// A model's values are those of the file that it was trained on, in whatever form.
#[test]
fn times_are_one_category_however_they_are_written() {
    let is = |value: &str| {
        let reading = Reading::Is(value.to_owned());
        Column { reading, ..Column::number("time", 0.5, 0.5, 4.0) }
    };
    let (yes, no) = (0.625, 0.375);
    let read = table("time\n2024-01-01 00:00:00\n2024-01-01T06:00:00.000000\n2024-01-01\n2024-01-02\n").unwrap();
    for values in [["2024-01-01", "2024-01-01 06:00:00"], ["2024-01-01T00:00:00.000000", "2024-01-01T06:00:00.000000"]]
    {
        let categories = Columns::new(values.map(is).into(), Missing::Refuse).unwrap();
        let positions = read.positions(&categories).unwrap();
        for (row, expected) in read.rows().iter().zip([[yes, no], [no, yes], [yes, no], [no, no]]) {
            assert_eq!(row.prepare(&positions, &categories), Ok(expected.to_vec()), "{row:?}");
        }
    }
}
