//! What went wrong in a program, found in its standard error: tracebacks of Python and of Bun. Pure.

/// How Python's tracebacks begin; those of the shell in a kernel have the name of the error before that.
const TRACEBACK: [&str; 2] = [
    "Traceback (most recent call last):",
    "Traceback (most recent call last)",
];
/// How those of code that is not valid Python begin, which have no such line.
const NO_PYTHON: [&str; 2] = ["  File \"", "  Cell In["];

/// How the note begins that the Python runner adds to an error of a package that does not load.
const NOTE: &str = "Installed with install_packages: ";

/// What went wrong, and the lines of the last traceback.
pub(crate) fn last_words<'a, 'b>(lines: &'a [&'b str]) -> (Option<&'b str>, &'a [&'b str]) {
    if let Some(begin) = python_traceback(lines) {
        let mut words = lines[begin..].iter().rev();
        let error = words.find(|line| !line.starts_with(NOTE));
        return (error.copied(), &lines[begin..]);
    }
    let Some(last) = lines.iter().rposition(|line| !is_below_error(line)) else {
        return (lines.last().copied(), &[]);
    };
    let stack = &lines[last..];
    (
        stack.first().copied(),
        if stack.len() > 1 { stack } else { &[] },
    )
}

/// Where a traceback may begin in a text that begins a line: at the line, or at the rule that is drawn above it.
pub(crate) fn begin(text: &str) -> Option<usize> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        if begins(bare) || begins_no_python(bare) || is_rule(bare) {
            return Some(offset);
        }
        offset += line.len();
    }
    None
}

fn begins(line: &str) -> bool {
    TRACEBACK.iter().any(|end| line.ends_with(end))
}

fn begins_no_python(line: &str) -> bool {
    NO_PYTHON.iter().any(|begin| line.starts_with(begin))
}

/// A kernel's shell draws a line above.
fn is_rule(line: &str) -> bool {
    line.len() > 40 && line.bytes().all(|byte| byte == b'-')
}

fn python_traceback(lines: &[&str]) -> Option<usize> {
    let begin = lines.iter().rposition(|line| begins(line));
    let begin = begin.or_else(|| lines.iter().rposition(|line| begins_no_python(line)))?;
    let has_rule = begin > 0 && is_rule(lines[begin - 1]);
    Some(begin - usize::from(has_rule))
}

/// What Bun prints below an error: where it was, and its own version.
fn is_below_error(line: &str) -> bool {
    line.is_empty()
        || line.starts_with("    at ")
        || line.starts_with("      at ")
        || line.starts_with("Bun v")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_is_the_one_of_the_runner() {
        let runner = include_str!("../../runners/python/site/_sandbox_blame.py");
        assert!(runner.contains(&format!("add_note(f\"{NOTE}")));
    }

    #[test]
    fn tracebacks_are_found_however_they_begin() {
        let rule = "-".repeat(75);
        for (text, error, begin) in [
            (
                "careful\nTraceback (most recent call last):\n  File \"/tmp/main.py\", line 1\nNameError: x",
                "NameError: x",
                Some(1),
            ),
            (
                "Traceback (most recent call last):\n  File \"/tmp/main.py\", line 1\nImportError: x\n\
                 Installed with install_packages: y is from z 1.0",
                "ImportError: x",
                Some(0),
            ),
            (
                "  File \"/tmp/main.py\", line 1\n    def f(:\nSyntaxError: bad",
                "SyntaxError: bad",
                Some(0),
            ),
            (
                "  Cell In[2], line 1\n    def f(:\nSyntaxError: bad",
                "SyntaxError: bad",
                Some(0),
            ),
            (
                &format!(
                    "careful\n{rule}\nKeyError      Traceback (most recent call last)\nCell In[1], line 1\n\nKeyError: 1"
                ),
                "KeyError: 1",
                Some(1),
            ),
            (
                "A      Traceback (most recent call last)\nA: 1\n\nB      Traceback (most recent call last)\nB: 2",
                "B: 2",
                Some(3),
            ),
            (
                "TypeError: boom\n      at cell 7",
                "TypeError: boom",
                Some(0),
            ),
            (
                "1 | x\n    ^\nTypeError: boom\n      at /tmp/main.ts:1:7\n\nBun v1.3.0 (Linux x64)",
                "TypeError: boom",
                Some(2),
            ),
            ("careful\nsh: no such command", "sh: no such command", None),
        ] {
            let lines: Vec<_> = text.lines().collect();
            let traceback = begin.map_or(&[][..], |begin| &lines[begin..]);
            assert_eq!(last_words(&lines), (Some(error), traceback), "{text}");
        }
        assert_eq!(last_words(&[]), (None, &[][..]));
    }
}
