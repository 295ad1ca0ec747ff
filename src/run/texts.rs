//! The three texts of an outcome, which together are no longer than `OUTPUT_FOR_MODEL`.
//!
//! `output` comes first: it has everything, in the order in which it was printed, and gets all the room there is.
//! `stdout` and `stderr` repeat most of it, so they get what is left; where nothing is left, they say how to read them.

use tokio::sync::Semaphore;

use super::render::{Measured, clean};
use crate::executor::Stream;
use crate::sandbox::Captured;

/// Below this a text is not worth cutting.
const MIN_CHARS: usize = 600;
/// Room for the note that replaces a text.
const POINTER: usize = 200;
/// Output of this many bytes takes so long to go through that it would hold up others on the thread.
const LONG: usize = 256 << 10;

/// Turns at long output, each of which takes a core and a copy of it. These are for runs that end, which may hold a
/// place.
pub(crate) static FINISH_PERMITS: Semaphore = Semaphore::const_new(2);
/// These are for callers that ask how a run stands, as often as they like: no end waits for them.
pub(crate) static POLL_PERMITS: Semaphore = Semaphore::const_new(2);

/// What the fields of an outcome hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) output: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Goes through what a run has printed: if that is long, in one of `turns` and on a thread that may block.
pub(crate) async fn render_off_thread<T: Send + 'static>(
    turns: &'static Semaphore,
    printed: impl Fn() -> Captured,
    go: impl FnOnce(&Captured) -> T + Send + 'static,
) -> T {
    let captured = printed();
    if captured.size() < LONG {
        return go(&captured);
    }
    // Not held while others have their turn: a run that goes on printing would copy it for each of those waiting.
    drop(captured);
    let turn = turns.acquire().await;
    let captured = printed();
    let gone = tokio::task::spawn_blocking(move || {
        // Held until the work is done, even if nobody waits for it any more.
        let _turn = turn;
        go(&captured)
    });
    match gone.await {
        Ok(gone) => gone,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl Texts {
    /// The texts of a run's output, with at most about `max_chars` characters in all.
    pub(crate) fn of(captured: &Captured, max_chars: usize, run_id: &str) -> Self {
        let [stdout, stderr] =
            [Stream::Stdout, Stream::Stderr].map(|stream| captured.bytes(stream));
        let (both, out, err) = (
            Measured::new(captured.both()),
            Measured::new(&stdout),
            Measured::new(&stderr),
        );
        // Together they may be shorter than apart, if one stream overwrites a line of the other.
        if both.length + out.length + err.length <= max_chars {
            return Self {
                output: clean(captured.both()),
                stdout: clean(&stdout),
                stderr: clean(&stderr),
            };
        }
        let pointers = [&stdout, &stderr]
            .iter()
            .filter(|text| !text.is_empty())
            .count()
            * POINTER;
        let output = both.clip(max_chars.saturating_sub(pointers), |left_out, offset| {
            note(run_id, "output", left_out, offset)
        });
        let left = max_chars.saturating_sub(output.chars().count());
        // Errors are short and matter most.
        let stderr = fit(err, left.saturating_sub(POINTER), run_id, "stderr");
        let left = left.saturating_sub(stderr.chars().count());
        let stdout = fit(out, left, run_id, "stdout");
        Self {
            output,
            stdout,
            stderr,
        }
    }
}

/// What the two streams hold in an answer without `output`, with at most about `max_chars` characters in all, and
/// whether something was left out of each. Errors matter most, so standard output leaves half of the room to them.
pub(crate) fn apart(captured: &Captured, max_chars: usize) -> [(String, bool); 2] {
    let [stdout, stderr] = [Stream::Stdout, Stream::Stderr].map(|stream| captured.bytes(stream));
    let (out, err) = (Measured::new(&stdout), Measured::new(&stderr));
    let for_err = max_chars.saturating_sub(out.length).max(max_chars / 2);
    let for_out = max_chars.saturating_sub(err.length.min(for_err));
    [(out, for_out), (err, for_err)].map(|(text, room)| {
        let note = |left_out, _| format!("[… {left_out} characters left out: print less …]");
        (text.clip(room, note), text.length > room)
    })
}

/// A stream in the room that is left for it.
fn fit(text: Measured<'_>, max_chars: usize, run_id: &str, stream: &str) -> String {
    if text.length > max_chars && max_chars < MIN_CHARS {
        return format!(
            "[it is part of output; alone: get_run {}]",
            arguments(run_id, stream, 0)
        );
    }
    text.clip(max_chars, |left_out, offset| {
        note(run_id, stream, left_out, offset)
    })
}

/// The note in place of what was left out.
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

    #[tokio::test]
    async fn who_waits_for_a_turn_holds_no_output() {
        static TURNS: Semaphore = Semaphore::const_new(0);
        let capture = Capture::new(1 << 20);
        capture.push(Stream::Stdout, &vec![b'x'; LONG]);
        let printed = || capture.snapshot();
        let look = || Box::pin(render_off_thread(&TURNS, printed, |seen| seen.both().len()));
        let mut looks = [look(), look()];
        for look in &mut looks {
            assert!(futures::poll!(look).is_pending());
        }
        capture.push(Stream::Stderr, b"more");
        TURNS.add_permits(1);
        for look in looks {
            assert_eq!(look.await, LONG + 4);
        }
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
