//! A log whose writes fail, whose server is killed in the middle of a line, and whose file is renamed.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::audit::AuditCommand;

struct Files {
    dir: TempDir,
    log: Log,
}

fn event() -> Dated {
    Dated::now(Event::ServerStopped)
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = Self::open(&dir);
        Self { dir, log }
    }

    fn open(dir: &TempDir) -> Log {
        Log::open(&AuditTarget::File(dir.path().join("audit.log"))).unwrap()
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("audit.log")
    }

    /// Writes events of which the disk takes the first `bytes` only, and returns how many are recorded.
    fn write_cut(&mut self, count: usize, bytes: usize) -> usize {
        let draft = self.log.draft(&vec![event(); count]);
        let bytes = bytes.min(draft.text.len());
        let (written, result) = self.log.target.write(&draft.text.as_bytes()[..bytes]);
        assert_eq!((written, result.is_ok()), (bytes, true));
        let recorded = self.log.take(draft, bytes);
        self.log.lose((count - recorded) as u64);
        recorded
    }

    /// Another server goes on with the file.
    fn restart(&mut self) {
        self.log = Self::open(&tempfile::tempdir().unwrap());
        self.log = Self::open(&self.dir);
    }
}

fn verify(files: &[PathBuf]) -> String {
    let files = files.to_vec();
    match (AuditCommand::Verify { files }).run() {
        Ok(verified) => verified.to_string(),
        Err(broken) => format!("broken: {broken}"),
    }
}

#[test]
fn a_line_that_was_cut_off_is_explained_by_the_next() {
    let mut files = Files::new();
    assert_eq!(files.write_cut(3, 250), 1);
    assert_eq!(files.log.write(&[event()]).0, 1);
    let text = fs::read_to_string(files.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let events = lines.iter().map(|line| line.split(r#""event":""#).nth(1));
    let events: Vec<_> = events
        .map(|rest| rest.and_then(|rest| rest.split('"').next()))
        .collect();
    assert_eq!(
        events,
        [
            Some("server_stopped"),
            Some("server_stopped"),
            Some("line_torn"),
            Some("events_lost"),
            Some("server_stopped")
        ]
    );
    let verified = verify(&[files.path()]);
    assert!(verified.contains("4 lines") && verified.contains("cut off and explained: 1"));
    assert!(verified.contains("could not be written: 2"), "{verified}");
    // Nobody but the server explains anything.
    let edited = text.replace(lines[1], &lines[1][..40]);
    fs::write(files.path(), edited).unwrap();
    let broken = verify(&[files.path()]);
    assert!(
        broken.starts_with("broken: ") && broken.contains("audit.log, line 2: expected text with"),
        "{broken}"
    );
}

#[test]
fn a_renamed_file_is_continued_in_a_new_one() {
    let mut files = Files::new();
    files.log.write(&[event(), event()]).1.unwrap();
    let old = files.dir.path().join("audit.log.1");
    fs::rename(files.path(), &old).unwrap();
    // Until then, it goes on in the former file; and what is cut off there is explained in the new one.
    files.write_cut(1, 30);
    files.log.reopen().unwrap();
    files.log.write(&[event()]).1.unwrap();
    let verified = verify(&[old.clone(), files.path()]);
    assert!(
        verified.contains("5 lines") && verified.contains("seq 1 to 5"),
        "{verified}"
    );
    let later = verify(&[files.path()]);
    assert!(
        later.contains("what was before seq 3 was not checked"),
        "{later}"
    );
    let exchanged = verify(&[files.path(), old]);
    assert!(exchanged.contains("line 1: expected seq 6, found 1"));
    // The signal may come without a new file.
    files.log.reopen().unwrap();
    files.log.write(&[event()]).1.unwrap();
    assert!(verify(&[files.path()]).contains("4 lines"));
}

#[test]
fn only_a_file_of_ours_is_continued_and_by_one_server() {
    let files = Files::new();
    let open = |name: &str| {
        let path = files.dir.path().join(name);
        let error = Log::open(&AuditTarget::File(path)).unwrap_err().to_string();
        error.replace(&files.dir.path().display().to_string(), "…")
    };
    insta::assert_snapshot!(open("audit.log"), @"AUDIT_LOG=…/audit.log is written by another server: give each a file of its own");
    fs::write(files.dir.path().join("notes"), "shopping\n").unwrap();
    insta::assert_snapshot!(open("notes"), @"AUDIT_LOG=…/notes does not end with a line of an audit log: move it away, or name another file");
    std::os::unix::fs::symlink(files.path(), files.dir.path().join("link")).unwrap();
    insta::assert_snapshot!(open("link"), @"AUDIT_LOG=…/link is a link, which is not followed: name the file itself");
    insta::assert_snapshot!(open("no/where"), @"AUDIT_LOG=…/no/where cannot be opened for writing");
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        files.dir.path().join("pipe"),
        rustix::fs::Mode::RWXU,
    )
    .unwrap();
    insta::assert_snapshot!(open("pipe"), @"AUDIT_LOG=…/pipe is no file: name a file, or `stdout`");
}

#[test]
fn a_first_line_that_was_cut_off_and_closed_is_continued() {
    let mut files = Files::new();
    files.write_cut(1, 1);
    // The newline that closes it, and nothing more.
    files.write_cut(0, 1);
    files.restart();
    files.log.write(&[event()]).1.unwrap();
    assert!(verify(&[files.path()]).contains("2 lines"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn wherever_writing_ends_the_chain_holds(
        steps in prop::collection::vec((0_usize..4, 0_usize..900, any::<bool>()), 1..12),
    ) {
        let mut files = Files::new();
        for (count, bytes, restarts) in steps {
            files.write_cut(count, bytes);
            if restarts {
                files.restart();
            }
        }
        let (recorded, result) = files.log.write(&[event()]);
        prop_assert_eq!((recorded, result.is_ok()), (1, true));
        let verified = verify(&[files.path()]);
        prop_assert!(!verified.starts_with("broken"), "{}", verified);
    }

    #[test]
    fn every_event_is_written_or_counted(
        steps in prop::collection::vec((0_usize..4, 0_usize..900), 1..12),
    ) {
        let mut files = Files::new();
        let (mut recorded, mut all) = (0, 0);
        for (count, bytes) in steps {
            recorded += files.write_cut(count, bytes);
            all += count;
        }
        files.log.write(&[]).1.unwrap();
        let text = fs::read_to_string(files.path()).unwrap();
        let counts = text.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            (line["event"] == "events_lost").then(|| line["count"].as_u64().unwrap())
        });
        prop_assert_eq!(recorded as u64 + counts.sum::<u64>(), all as u64);
    }
}
