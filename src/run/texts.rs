//! The three texts of an outcome, which together are no longer than `OUTPUT_FOR_MODEL`.
//!
//! `output` comes first: it has everything, in the order in which it came, and gets all the room there is. `stdout`
//! and `stderr` say most of it again, so they get what is left; where nothing is, they say how to read them.

use super::render::{clean, clip};
use crate::executor::Stream;
use crate::sandbox::Captured;

/// Below this a text is not worth cutting.
const LEAST: usize = 600;
/// Room for saying that a text is not there.
const POINTER: usize = 200;

/// What the fields of an outcome hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) output: String,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Texts {
    /// The texts of a run's output, with at most about `most` characters in all.
    pub(super) fn of(captured: &Captured, most: usize, run_id: &str) -> Self {
        let both = captured.bytes(None);
        let whole = clean(&both);
        let length = whole.chars().count();
        let stderr = captured.bytes(Some(Stream::Stderr));
        let stdout = captured.bytes(Some(Stream::Stdout));
        let [out, err] = [&stdout, &stderr].map(|bytes| clean(bytes));
        // Together they may have less than apart, where one stream overwrites a line of the other.
        if length + out.chars().count() + err.chars().count() <= most {
            return Self {
                output: whole,
                stdout: out,
                stderr: err,
            };
        }
        let pointers = [&stdout, &stderr]
            .iter()
            .filter(|text| !text.is_empty())
            .count()
            * POINTER;
        let output = clip(&both, most.saturating_sub(pointers), |left_out, offset| {
            note(run_id, "output", left_out, offset)
        });
        let left = most.saturating_sub(output.chars().count());
        // Errors are short and matter most.
        let stderr = fit(err, &stderr, left.saturating_sub(POINTER), run_id, "stderr");
        let left = left.saturating_sub(stderr.chars().count());
        let stdout = fit(out, &stdout, left, run_id, "stdout");
        Self {
            output,
            stdout,
            stderr,
        }
    }
}

/// What the two streams hold in an answer that has no `output` beside them, with at most about `most` characters in
/// all, and whether something was left out of each. Errors matter most: output leaves half of the room to them.
pub(super) fn apart(captured: &Captured, most: usize) -> [(String, bool); 2] {
    let [stdout, stderr] =
        [Stream::Stdout, Stream::Stderr].map(|stream| captured.bytes(Some(stream)));
    let [out, err] = [&stdout, &stderr].map(|bytes| clean(bytes).chars().count());
    let for_err = most.saturating_sub(out).max(most / 2);
    let for_out = most.saturating_sub(err.min(for_err));
    [(stdout, out, for_out), (stderr, err, for_err)].map(|(bytes, length, room)| {
        let note = |left_out, _| format!("[… {left_out} characters left out: print less …]");
        (clip(&bytes, room, note), length > room)
    })
}

/// A stream, whose text is `whole`, in the room that is left for it.
fn fit(whole: String, bytes: &[u8], most: usize, run_id: &str, stream: &str) -> String {
    if whole.chars().count() <= most {
        return whole;
    }
    if most < LEAST {
        return format!(
            "[it is part of output; alone: get_run {}]",
            arguments(run_id, stream, 0)
        );
    }
    clip(bytes, most, |left_out, offset| {
        note(run_id, stream, left_out, offset)
    })
}

/// What stands where something was left out.
fn note(run_id: &str, stream: &str, left_out: usize, offset: usize) -> String {
    format!(
        "[… {left_out} characters left out: read them with get_run {} …]",
        arguments(run_id, stream, offset)
    )
}

fn arguments(run_id: &str, stream: &str, offset: usize) -> String {
    format!(r#"{{"runId": "{run_id}", "stream": "{stream}", "offset": {offset}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Capture;

    const RUN: &str = "run_0123456789abcdef0123456789abcdef";

    fn captured(parts: &[(Stream, usize)]) -> Captured {
        let capture = Capture::new(1 << 20);
        for (stream, lines) in parts {
            for line in 1..=*lines {
                capture.push(*stream, format!("{stream:?} {line:08}\n").as_bytes());
            }
        }
        capture.snapshot()
    }

    fn lengths(texts: &Texts) -> [usize; 3] {
        [&texts.output, &texts.stdout, &texts.stderr].map(|text| text.chars().count())
    }

    #[test]
    fn short_output_is_in_all_three() {
        let texts = Texts::of(
            &captured(&[(Stream::Stdout, 2), (Stream::Stderr, 1)]),
            1000,
            RUN,
        );
        insta::assert_debug_snapshot!(texts, @r#"
        Texts {
            output: "Stdout 00000001\nStdout 00000002\nStderr 00000001\n",
            stdout: "Stdout 00000001\nStdout 00000002\n",
            stderr: "Stderr 00000001\n",
        }
        "#);
    }

    #[test]
    fn a_line_that_the_other_stream_overwrites_counts() {
        let capture = Capture::new(1 << 20);
        capture.push(Stream::Stdout, "x".repeat(100_000).as_bytes());
        capture.push(Stream::Stderr, b"\r100 %");
        let texts = Texts::of(&capture.snapshot(), 1000, RUN);
        assert_eq!((&*texts.output, &*texts.stderr), ("100 %", "100 %"));
        assert!(lengths(&texts)[1] <= 990, "{:?}", lengths(&texts));
    }

    #[test]
    fn long_output_says_how_to_read_the_rest() {
        let texts = Texts::of(
            &captured(&[(Stream::Stdout, 500), (Stream::Stderr, 2)]),
            1000,
            RUN,
        );
        insta::assert_debug_snapshot!(texts, @r#"
        Texts {
            output: "Stdout 00000001\nStdout 00000002\nStdout 00000003\nStdout 00000004\nStdout 00000005\nStdout 00000006\nStdout 00000007\nStdout 00000008\nStdout 00000009\nStdout 00000010\nStdout 00000011\nStdout 00000012\n[… 7648 characters left out: read them with get_run {\"runId\": \"run_0123456789abcdef0123456789abcdef\", \"stream\": \"output\", \"offset\": 192} …]\nStdout 00000491\nStdout 00000492\nStdout 00000493\nStdout 00000494\nStdout 00000495\nStdout 00000496\nStdout 00000497\nStdout 00000498\nStdout 00000499\nStdout 00000500\nStderr 00000001\nStderr 00000002\n",
            stdout: "[it is part of output; alone: get_run {\"runId\": \"run_0123456789abcdef0123456789abcdef\", \"stream\": \"stdout\", \"offset\": 0}]",
            stderr: "Stderr 00000001\nStderr 00000002\n",
        }
        "#);
    }

    #[test]
    fn without_output_beside_them_streams_have_its_room() {
        for (out, err) in [
            (0, 0),
            (1000, 0),
            (5000, 0),
            (5000, 2),
            (2, 5000),
            (5000, 5000),
        ] {
            let captured = captured(&[(Stream::Stdout, out), (Stream::Stderr, err)]);
            let [stdout, stderr] = apart(&captured, 30_000);
            let length = |text: &str| text.chars().count();
            assert!(length(&stdout.0) + length(&stderr.0) <= 30_000);
            assert_eq!((stdout.1, stderr.1), (out == 5000, err == 5000));
            for ((text, cut), lines) in [(stdout, out), (stderr, err)] {
                assert_eq!(cut, text.contains("characters left out: print less …]"));
                assert!(lines == 0 || text.ends_with(&format!("{lines:08}\n")));
                assert!(!cut || text.contains("00000100\n"), "{text}");
            }
        }
    }

    #[test]
    fn together_they_keep_to_the_limit() {
        for out in [10, 100, 500, 1000, 1700, 1800, 1900, 5000] {
            for err in [0, 10, 1000, 5000] {
                let texts = Texts::of(
                    &captured(&[(Stream::Stdout, out), (Stream::Stderr, err)]),
                    30_000,
                    RUN,
                );
                let sum: usize = lengths(&texts).iter().sum();
                assert!(sum <= 30_000, "{out} {err}: {:?}", lengths(&texts));
            }
        }
    }
}
