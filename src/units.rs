//! Sizes: how operators write them, and how people read them.

/// Bytes from a whole number with an optional unit, which is a power of 1024: `512k`, `256m`, `1g`.
pub(crate) fn parse_size(value: &str) -> Option<u64> {
    let value = value.to_ascii_lowercase();
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &value[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The shortest exact form of a size that [`parse_size`] reads.
pub(crate) fn show_size(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let unit = units
        .iter()
        .find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(
        || bytes.to_string(),
        |(shift, name)| format!("{}{name}", bytes >> shift),
    )
}

/// A size in the unit that people think in.
pub(crate) fn mebibytes(bytes: u64) -> String {
    if bytes >= 1 << 20 {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{} KiB", bytes >> 10)
    }
}

/// A limit as it was set: in the largest unit that divides it evenly, so that it is never rounded down.
pub(crate) fn size_as_set(bytes: u64) -> String {
    match bytes.trailing_zeros() {
        20..64 => format!("{} MiB", bytes >> 20),
        10..20 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("256m"), Some(256 << 20));
        assert_eq!(parse_size("1G"), Some(1 << 30));
        assert_eq!(parse_size("17"), Some(17));
        assert_eq!(parse_size("1.5g"), None);
        assert_eq!(parse_size("m"), None);
        assert_eq!(parse_size("99999999999g"), None);
        assert_eq!(show_size(256 << 20), "256m");
        assert_eq!(show_size(1), "1");
        assert_eq!(show_size(0), "0");
    }

    #[test]
    fn a_limit_is_shown_as_it_was_set() {
        let shown = [0, 1_000, 1_536, 512 << 10, 1_536 << 10, 1 << 20, 3 << 30].map(size_as_set);
        insta::assert_snapshot!(shown.join(", "), @"0 bytes, 1000 bytes, 1536 bytes, 512 KiB, 1536 KiB, 1 MiB, 3072 MiB");
    }
}
