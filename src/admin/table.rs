//! Answers as people read them in a terminal.

use std::fmt::Write as _;

use serde_json::Value;

use crate::units::mebibytes;

/// Between two columns.
const GAP: &str = "  ";
/// What stands for nothing.
const NOTHING: &str = "-";

/// A column: its title, and what it shows of an entry.
pub(super) type Column = (&'static str, fn(&Value) -> String);

/// Entries in columns, under their titles.
pub(super) fn table(entries: &[Value], columns: &[Column]) -> String {
    let titles = columns.iter().map(|(title, _)| (*title).to_owned());
    let mut rows = vec![titles.collect::<Vec<_>>()];
    rows.extend(entries.iter().map(|entry| {
        let cells = columns.iter().map(|(_, show)| harmless(&show(entry)));
        cells.collect()
    }));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..columns.len()).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join(GAP);
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A value as a cell.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(parts) if parts.is_empty() => NOTHING.to_owned(),
        Value::Array(parts) => parts.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(fields) if fields.is_empty() => NOTHING.to_owned(),
        Value::Object(fields) => {
            let pairs = fields
                .iter()
                .map(|(name, value)| format!("{name} {}", cell(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A number of bytes as a cell.
pub(super) fn size(value: &Value) -> String {
    match value.as_u64() {
        None => NOTHING.to_owned(),
        Some(bytes @ 0..1024) => format!("{bytes} B"),
        Some(bytes) => mebibytes(bytes),
    }
}

/// Milliseconds as a cell, in seconds.
#[expect(clippy::cast_precision_loss, reason = "nobody reads so many digits")]
pub(super) fn seconds(value: &Value) -> String {
    let shown = |millis: u64| format!("{:.1} s", millis as f64 / 1000.0);
    value.as_u64().map_or_else(|| NOTHING.to_owned(), shown)
}

/// A time as a cell, to the second.
pub(super) fn time(value: &Value) -> String {
    let text = cell(value);
    match text.split_once('.') {
        Some((seconds, _)) => format!("{}Z", seconds.replace('T', " ")),
        None => text,
    }
}

/// Words of callers and programs, such as names of files, without what a terminal would obey.
pub(super) fn harmless(text: &str) -> String {
    let plain = |char: char| match char {
        '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => '\u{fffd}',
        char if char.is_control() => '\u{fffd}',
        char => char,
    };
    text.chars().map(plain).collect()
}

/// JSON with those control characters escaped that JSON allows as they are.
pub(super) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '\u{7f}'..='\u{9f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(char));
            }
            char => text.push(char),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let entries = [
            json!({ "name": "a", "bytes": 3_145_728, "at": "2027-01-01T12:00:00.120Z", "cpu": 1500 }),
            json!({ "name": "\u{1b}[2J\u{202e}löng", "bytes": null, "at": null, "cpu": null }),
        ];
        let columns: &[Column] = &[
            ("NAME", |entry| cell(&entry["name"])),
            ("SIZE", |entry| size(&entry["bytes"])),
            ("AT", |entry| time(&entry["at"])),
            ("CPU", |entry| seconds(&entry["cpu"])),
        ];
        insta::assert_snapshot!(table(&entries, columns), @"
        NAME       SIZE   AT                    CPU
        a          3 MiB  2027-01-01 12:00:00Z  1.5 s
        �[2J�löng  -      -                     -
        ");
    }

    #[test]
    fn json_has_no_control_characters_and_says_the_same() {
        let answer = json!({ "name": "a\u{1b}\u{7f}\u{9b}2J\u{a0}ö" });
        let text = escaped(&answer.to_string());
        assert_eq!(text, "{\"name\":\"a\\u001b\\u007f\\u009b2J\u{a0}ö\"}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), answer);
    }
}
