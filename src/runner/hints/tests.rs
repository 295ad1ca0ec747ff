use proptest::prelude::*;

use super::*;

/// A plain run that failed, without anything that a call can ask for.
const PLAIN: Circumstances = Circumstances {
    failed: true,
    network: false,
    stateful: false,
    stdin: false,
};
/// The tables of our own images, and for each of their entries at least one line of a program that ran in them, with
/// the hint that it is to have.
const TABLES: [(&str, &str, &str); 3] = [
    (
        "python",
        include_str!("../../../runners/python/Dockerfile"),
        include_str!("../../../tests/fixtures/hints/python.txt"),
    ),
    (
        "shell",
        include_str!("../../../runners/shell/Dockerfile"),
        include_str!("../../../tests/fixtures/hints/shell.txt"),
    ),
    (
        "typescript",
        include_str!("../../../runners/typescript/Dockerfile"),
        include_str!("../../../tests/fixtures/hints/typescript.txt"),
    ),
];

/// The label in a Dockerfile, as builders read it: without comments and with its lines joined.
fn label(dockerfile: &str) -> String {
    let lines = dockerfile.lines().filter(|line| !line.starts_with('#'));
    let joined: String = lines
        .map(|line| match line.strip_suffix('\\') {
            Some(line) => line.to_owned(),
            None => format!("{line}\n"),
        })
        .collect();
    let (_, rest) = joined.split_once("sandbox.hints='").unwrap();
    let (label, rest) = rest.split_once('\'').unwrap();
    assert!(rest.starts_with('\n'), "{rest}");
    label.trim().to_owned()
}

/// The run that a line is of: words before it in brackets say how it differs from a plain one.
fn circumstances(line: &str) -> (Circumstances, &str) {
    let (mut run, mut rest) = (PLAIN, line);
    while let Some((word, after)) = rest.strip_prefix('[').and_then(|it| it.split_once("] ")) {
        match word {
            "network" => run.network = true,
            "stateful" => run.stateful = true,
            "stdin" => run.stdin = true,
            "ok" => run.failed = false,
            _ => break,
        }
        rest = after;
    }
    (run, rest)
}

#[test]
fn every_entry_of_our_images_has_a_line_and_each_line_its_hint() {
    for (language, dockerfile, examples) in TABLES {
        let hints = Hints::of_label(&label(dockerfile)).unwrap();
        let mut used = vec![false; hints.table.entries.len()];
        let (mut seen, mut lines) = (Vec::new(), examples.lines().peekable());
        while let Some(line) = lines.next() {
            let wanted = lines.next_if(|next| next.starts_with("  → "));
            let (run, printed) = circumstances(line);
            let entries = hints.table.entries.iter();
            if let Some(first) = entries
                .enumerate()
                .find(|(_, entry)| entry.about(run, printed).is_some())
            {
                used[first.0] = true;
            }
            let hint = hints.about(run, &format!("before\n{printed}\nafter\n"));
            let told = hint.map(shown);
            if told.as_deref() != wanted {
                seen.push((line, told));
            }
        }
        assert_eq!(seen, [], "{language}");
        let unused = (0..used.len()).filter(|&index| !used[index]);
        let unused: Vec<_> = unused
            .map(|index| hints.table.entries[index].row.line.as_str())
            .collect();
        assert_eq!(unused, Vec::<&str>::new(), "{language}");
    }
}

/// As the files of examples have it: a remedy that is another program is not mentioned.
fn shown(Advice { sentence, remedy }: Advice) -> String {
    let kind = match remedy.kind {
        RemedyKind::Program => return format!("  → {sentence}"),
        RemedyKind::Install => "install ",
        RemedyKind::Network => "network",
        RemedyKind::Stateful => "stateful",
        RemedyKind::Stdin => "stdin",
    };
    let package = remedy.package.unwrap_or_default();
    format!("  → {sentence} [{kind}{package}]")
}

fn sentence(advice: Option<Advice>) -> String {
    advice.map(|advice| advice.sentence).unwrap_or_default()
}

fn table(rows: &str) -> Hints {
    Hints::of_label(rows).unwrap()
}

#[test]
fn the_last_line_that_has_one_counts() {
    let hints = table(
        r#"[{"line": "^no (?<name>.+)", "say": "{name} is {of}", "of": {"a": "A"}},
            {"line": "^no (?<name>.+)", "say": "{name}!"},
            {"line": "^(?:x|y(?<more>.))$", "say": "x{more}", "always": true}]"#,
    );
    let about = |stderr| sentence(hints.about(PLAIN, stderr));
    assert_eq!(about("no b\nno a\nelse\n"), "a is A");
    assert_eq!(about("no a\nno b"), "b!");
    assert_eq!(about("no a\nx"), "x");
    assert_eq!(about("yz"), "xz");
    assert_eq!(about(""), "");
    let fine = Circumstances {
        failed: false,
        ..PLAIN
    };
    assert_eq!(sentence(hints.about(fine, "x\nno a")), "x");
}

#[test]
fn nothing_that_could_be_a_sentence_is_repeated() {
    let hints = table(r#"[{"line": "^no '(?<name>.*)'", "say": "{name}!"}]"#);
    let long = "x".repeat(65);
    for name in [
        "call this now",
        "a\u{a0}b",
        "ö",
        "a:b",
        "a(b)",
        "\"a\"",
        &long,
    ] {
        assert_eq!(hints.about(PLAIN, &format!("no '{name}'")), None, "{name}");
    }
    let name = "@a/b-c_d.e[f]==1,~!+<>";
    let said = hints.about(PLAIN, &format!("no '{name}'"));
    assert_eq!(sentence(said), format!("{name}!"));
}

#[test]
fn what_a_table_has_wrong_is_named() {
    let of = |rows: &str| match Hints::of_label(rows) {
        Ok(_) => "fine".to_owned(),
        Err(error) => error.to_string(),
    };
    let many = vec![r#"{"line": "x", "say": "y"}"#; MAX_ENTRIES + 1].join(",");
    let told = [
        "",
        "[]",
        "{}",
        r#"[{"line": "x"}]"#,
        r#"[{"line": "x", "say": "y", "if": true}]"#,
        r#"[{"line": "x", "say": "y"}, {"line": "(", "say": "y"}]"#,
        r#"[{"line": "[a-z]{1000}{1000}", "say": "y"}]"#,
        r#"[{"line": "(?<name>x)", "say": "{other}"}]"#,
        r#"[{"line": "(?<name>x)", "say": "{of}"}]"#,
        r#"[{"line": "x", "say": "{of}", "of": {"x": "y"}}]"#,
        r#"[{"line": "x", "say": "y", "remedy": "pray"}]"#,
        r#"[{"line": "x", "say": "y", "remedy": "install"}]"#,
        r#"[{"line": "x", "say": "y", "package": "six"}]"#,
        r#"[{"line": "x", "say": "y", "remedy": "install", "package": "{name}"}]"#,
        r#"[{"line": "x", "say": "a { b"}]"#,
        r#"[{"line": "x", "say": "a } b"}]"#,
        &format!(r#"[{{"line": "x", "say": "{}"}}]"#, "y".repeat(601)),
        &format!("[{many}]"),
        &" ".repeat(MAX_BYTES + 1),
    ]
    .map(of);
    insta::assert_snapshot!(told.join("\n"), @r"
    fine
    fine
    it is not a JSON array of entries: invalid type: map, expected a sequence at line 1 column 0
    it is not a JSON array of entries: missing field `say` at line 1 column 14
    it is not a JSON array of entries: unknown field `if`, expected one of `line`, `say`, `of`, `always`, `network`, `stateful`, `stdin`, `remedy`, `package` at line 1 column 31
    entry 2: line: error: unclosed group
    entry 1: line: Compiled regex exceeds size limit of 262144 bytes.
    entry 1: there is the place {other}, which is neither a group of line nor {of} with values
    entry 1: there is the place {of}, which is neither a group of line nor {of} with values
    entry 1: of has values, and line has no group called name
    it is not a JSON array of entries: unknown variant `pray`, expected one of `program`, `install`, `network`, `stateful`, `stdin` at line 1 column 43
    entry 1: package goes with the remedy install, and that with it
    entry 1: package goes with the remedy install, and that with it
    entry 1: there is the place {name}, which is neither a group of line nor {of} with values
    entry 1: there is a brace that is no place
    entry 1: there is a brace that is no place
    entry 1: say has 601 bytes, and may have 600
    it has 201 entries, and at most 200 are read
    it has 65537 bytes, and at most 65536 are read
    ");
}

proptest! {
    #[test]
    fn any_label_and_any_output_has_an_answer(label in "\\PC{0,40}", stderr in "(\\PC{0,20}\n){0,5}") {
        if let Ok(hints) = Hints::of_label(&label) {
            hints.about(PLAIN, &stderr);
        }
        table(r#"[{"line": "(?<name>.+)", "say": "{name}"}]"#).about(PLAIN, &stderr);
    }
}
