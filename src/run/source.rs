//! The program in what a caller sends as code: models wrap it in a Markdown fence, editors put a byte order mark before
//! it, and on Windows its lines end in CR and LF. And what that program is to read. Pure.

use std::borrow::Cow;

use super::{RunError, RunRequest};
use crate::runner::catalog::View;
use crate::runner::{Input, Runner};

/// The most bytes that a program can be given to read: 1 MiB, which fits into its frame however it is escaped there.
const STDIN_MAX: usize = 1 << 20;
/// What some editors put before any text.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Fewest characters of a fence.
const FENCE: usize = 3;
/// Deepest indentation of a fence: what is further in is code.
const INDENTATION: usize = 3;
/// Names of shells, in which a CR is part of the last word of its line. Other languages take it for a line break.
const SHELLS: &[&str] = &["bash", "sh", "shell"];
/// The runner that runs what is between backticks.
const SHELL: &str = "shell";
/// Languages in which a fence without a name is never meant as code. Python does not parse it. TypeScript parses it as
/// a call of an empty string. A shell would run what the lines print, which nobody writes in three backticks.
const NEVER_FENCED: &[&str] = &["python", "shell", "typescript"];

/// The one fence that a text consists of.
#[derive(Debug, PartialEq, Eq)]
struct Fenced<'a> {
    /// The first word after the opening fence, usually a language; may be empty.
    language: &'a str,
    /// What is between the fences.
    code: Cow<'a, str>,
}

/// The program that a caller means by the code that it sends.
///
/// # Errors
/// It is in a fence of another language, or in more or less than one fence.
pub(super) fn program(code: &str, runner: &Runner, view: &View) -> Result<String, RunError> {
    let code = unmarked(code);
    let code = match fenced(code) {
        Some(fenced) => match view.find(fenced.language) {
            Some(named) if named.language != runner.language => {
                return Err(RunError::Fence {
                    fence: fenced.language.to_owned(),
                    language: runner.language.clone(),
                });
            }
            Some(_) => fenced.code,
            None if fenced.language.is_empty() && is_never_fenced(&runner.language) => fenced.code,
            None => code.into(),
        },
        None => code.into(),
    };
    if is_never_fenced(&runner.language) && has_stray_fence(&code, &runner.language) {
        return Err(RunError::StrayFence);
    }
    let names = runner.aliases.iter().chain([&runner.language]);
    Ok(lines(code, names).into_owned())
}

/// What the program of a request reads. An empty text is what it reads anyway.
///
/// # Errors
/// It is too large, or the runner does not take it.
pub(super) fn stdin(request: &RunRequest, runner: &Runner) -> Result<Option<String>, RunError> {
    let Some(text) = request.stdin.as_deref().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let language = || runner.language.clone();
    match runner.stdin {
        _ if text.len() > STDIN_MAX => Err(RunError::StdinTooLarge(text.len(), STDIN_MAX)),
        Input::None => Err(RunError::NoStdin {
            language: language(),
        }),
        Input::Programs if request.stateful => Err(RunError::NoStdinInKernel {
            language: language(),
        }),
        Input::Programs | Input::All => Ok(Some(text.to_owned())),
    }
}

/// The text without a byte order mark.
fn unmarked(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Whether a fence that names no language can only be meant as one.
fn is_never_fenced(language: &str) -> bool {
    NEVER_FENCED.contains(&language)
}

/// Whether a fence is left that cannot be code: at the beginning of a program, where none of these languages can have
/// one, or anywhere in a shell without a here-document. A shell would run what is in it, to use what that prints.
fn has_stray_fence(code: &str, language: &str) -> bool {
    let mut lines = code.lines().map(str::trim_start);
    let is_fence = |line: &str| line.starts_with("```") || line.starts_with("~~~");
    let first = lines.clone().find(|line| !line.is_empty());
    let in_shell = || language == SHELL && !code.contains("<<");
    first.is_some_and(is_fence) || (in_shell() && lines.any(is_fence))
}

/// The lines of a program as its language reads them, which has these names. A text in which only some lines end in CR
/// and LF stays as it is: the others say that the CR is meant.
fn lines<'a, 'b>(code: Cow<'a, str>, mut names: impl Iterator<Item = &'b String>) -> Cow<'a, str> {
    let all_end_so = code.matches('\n').count() == code.matches("\r\n").count();
    if !all_end_so || !code.contains('\r') || !names.any(|name| SHELLS.contains(&name.as_str())) {
        return code;
    }
    let code = code.replace("\r\n", "\n");
    Cow::Owned(code.strip_suffix('\r').unwrap_or(&code).to_owned())
}

/// The fence that a text consists of, if it does.
fn fenced(text: &str) -> Option<Fenced<'_>> {
    let (opening, rest) = text.trim().split_once('\n')?;
    let before = &text[..text.len() - text.trim_start().len()];
    let indentation = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
    let (code, closing) = rest.rsplit_once('\n').unwrap_or(("", rest));
    let mark = opening.chars().next().filter(|mark| "`~".contains(*mark))?;
    let info = opening.trim_start_matches(mark);
    let length = opening.len() - info.len();
    let closes = |line: &str| {
        let line = line.trim();
        line.len() >= length && line.chars().all(|c| c == mark)
    };
    let is_one = indentation <= INDENTATION
        && length >= FENCE
        && !info.contains(mark)
        && closes(closing)
        && !code.lines().any(closes);
    let language = info.trim_start_matches([' ', '\t', '{', '.']);
    let ends = |c: char| c.is_whitespace() || "{},;".contains(c);
    is_one.then(|| Fenced {
        language: language.split(ends).next().unwrap_or_default(),
        code: without_indentation(code, indentation),
    })
}

/// The lines of a fence, which may be as far in as the fence itself.
fn without_indentation(code: &str, indentation: usize) -> Cow<'_, str> {
    if code.is_empty() {
        return Cow::Borrowed(code);
    }
    let line = |line: &str| {
        let spaces = line.bytes().take_while(|byte| *byte == b' ').count();
        line[spaces.min(indentation)..].to_owned()
    };
    let lines: Vec<_> = code.split('\n').map(line).collect();
    Cow::Owned(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn inside(text: &str) -> Option<(String, String)> {
        fenced(text).map(|fenced| (fenced.language.to_owned(), fenced.code.into_owned()))
    }

    #[test]
    fn a_text_that_is_one_fence_is_taken_out_of_it() {
        for (text, language, code) in [
            ("```python\nprint(1)\n```", "python", "print(1)\n"),
            ("```\nprint(1)\n```\n", "", "print(1)\n"),
            (
                "\n\n  ```py\n  if 1:\n    pass\n  ```  \n",
                "py",
                "if 1:\n  pass\n",
            ),
            (
                "```{python}\r\nprint(1)\r\n```\r\n",
                "python",
                "print(1)\r\n",
            ),
            ("``` python title=\"x.py\"\n1\n```", "python", "1\n"),
            ("~~~sh\nls\n~~~", "sh", "ls\n"),
            ("````md\n```\nx\n```\n````", "md", "```\nx\n```\n"),
            ("```python3.12\n\n1\n\n```", "python3.12", "\n1\n\n"),
            ("```python\n```", "python", ""),
        ] {
            assert_eq!(
                inside(text),
                Some((language.to_owned(), code.to_owned())),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_is_more_or_less_than_one_fence_is_not() {
        for text in [
            "",
            "print(1)",
            "```",
            "```\n",
            "```python\nprint(1)",
            "print(1)\n```",
            "```print(1)```",
            "Here it is:\n```python\nprint(1)\n```",
            "```python\n1\n```\nThat was it.",
            "```python\n1\n```\n```python\n2\n```",
            "``python\n1\n``",
            "    ```python\n    1\n    ```",
            "````python\n1\n```",
            "```python\n1\n~~~",
            "'''\n```\n1\n```\n'''",
        ] {
            assert_eq!(inside(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_fence_that_is_left_is_no_code() {
        for (language, code) in [
            ("python", "```python\n1\n"),
            ("typescript", "\n  ~~~\n1\n~~~\n2"),
            ("shell", "Here it is:\n```bash\nls\n```"),
            ("shell", "echo\n```\nls\n```"),
        ] {
            assert!(has_stray_fence(code, language), "{code:?}");
        }
        for (language, code) in [
            ("shell", ""),
            ("shell", "echo `ls`"),
            ("shell", "cat > a.md <<'EOF'\n```sh\nls\n```\nEOF"),
            ("python", "x = 1\n```\n"),
        ] {
            assert!(!has_stray_fence(code, language), "{code:?}");
        }
    }

    #[test]
    fn shells_read_lines_from_windows() {
        let (shell, python) = (["sh".to_owned()], ["python".to_owned()]);
        let read = |code: &'static str| lines(code.into(), shell.iter()).into_owned();
        assert_eq!(read("echo a\r\necho b\r\n"), "echo a\necho b\n");
        assert_eq!(read("echo a\r\necho b\r"), "echo a\necho b");
        assert_eq!(read("echo a\r\necho b"), "echo a\necho b");
        for kept in ["printf 'a\r\n'\necho", "echo\rb", "echo"] {
            assert_eq!(read(kept), kept);
        }
        assert_eq!(lines("1\r\n".into(), python.iter()), "1\r\n");
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(text in "( |\n|`{2,4}|~{3}|[a-z]|\r|\\PC){0,30}") {
            if let Some(inside) = fenced(&text) {
                prop_assert!(text.contains(inside.language));
            }
        }
    }
}
