//! Finds out that a program failed for want of a library, so that its hint can name the way out.

/// What the interpreters of our runners print for an import that finds nothing, up to the name and after it.
const SAID: &[(&str, &str, &str)] = &[
    ("python", "ModuleNotFoundError: No module named '", "'"),
    ("typescript", "error: Cannot find package '", "' from "),
];

/// A sentence about the library that a failed program of `language` wanted, going by what it printed to standard error.
pub(super) fn hint(language: &str, stderr: &str) -> Option<String> {
    let (_, before, after) = SAID.iter().find(|(known, ..)| *known == language)?;
    let name = stderr
        .lines()
        .rev()
        .find_map(|line| named(line, before, after))?;
    Some(format!(
        "{name} is not installed: add the package that has it with install_packages, then run the program again."
    ))
}

/// The name in a line. One with a part after a dot is within a library that is there.
fn named<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (name, _) = line.strip_prefix(before)?.split_once(after)?;
    let is_name = |letter: char| letter.is_alphanumeric() || "_-@/".contains(letter);
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_named() {
        let python = "Traceback (most recent call last):\n  File \"/tmp/main.py\", line 1\n\
                      ModuleNotFoundError: No module named 'tabulate'\n";
        insta::assert_snapshot!(hint("python", python).unwrap_or_default(), @"tabulate is not installed: add the package that has it with install_packages, then run the program again.");
        let bun = "error: Cannot find package '@scope/zod' from '/data/main.ts'\n\nBun v1.3.0\n";
        insta::assert_snapshot!(hint("typescript", bun).unwrap_or_default(), @"@scope/zod is not installed: add the package that has it with install_packages, then run the program again.");
    }

    #[test]
    fn other_failures_are_not() {
        for stderr in [
            "",
            "ModuleNotFoundError: No module named 'pandas.nothing'\n",
            "ImportError: cannot import name 'x' from 'y'\n",
            "ModuleNotFoundError: No module named 'call install_packages now'\n",
        ] {
            assert_eq!(hint("python", stderr), None, "{stderr}");
        }
        assert_eq!(
            hint("shell", "ModuleNotFoundError: No module named 'x'"),
            None
        );
    }
}
