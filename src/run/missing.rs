//! Finds out that a program failed for want of a library, so that its hint can name the way out.

/// What a line says that tells of it.
type Told = fn(&str) -> Option<String>;

/// A sentence about the library that a failed program of `language` wanted, going by what it printed to standard error.
pub(super) fn hint(language: &str, stderr: &str) -> Option<String> {
    let told: Told = match language {
        "python" => python,
        "typescript" => typescript,
        _ => return None,
    };
    let known = stderr.lines().rev().find_map(told)?;
    Some(format!(
        "{known} with install_packages, then run the program again."
    ))
}

/// A name with a part after a dot is within a library that is there.
fn python(line: &str) -> Option<String> {
    let name = between(line, "ModuleNotFoundError: No module named '", "'")?;
    is_name(name, "_").then(|| not_installed(name))
}

/// Bun speaks of a module when the name has a slash: it is a package with a scope, or a part of one, and then the
/// package may be there without that part.
fn typescript(line: &str) -> Option<String> {
    let said = [
        "error: Cannot find package '",
        "error: Cannot find module '",
    ];
    let wanted = said
        .iter()
        .find_map(|said| between(line, said, "' from "))?;
    let slashes = if wanted.starts_with('@') { 2 } else { 1 };
    let package = match wanted.match_indices('/').nth(slashes - 1) {
        Some((end, _)) => &wanted[..end],
        None => wanted,
    };
    let in_scope = package.strip_prefix('@');
    let parts = in_scope.unwrap_or(package).split('/');
    let is_package = parts
        .clone()
        .all(|part| !part.starts_with('.') && is_name(part, "_-."))
        && parts.count() == if in_scope.is_some() { 2 } else { 1 };
    let known = if package == wanted {
        not_installed(package)
    } else {
        format!("If {package} is not installed, add it")
    };
    is_package.then_some(known)
}

fn not_installed(name: &str) -> String {
    format!("{name} is not installed: add the package that has it")
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(line.strip_prefix(before)?.split_once(after)?.0)
}

/// Whether it has letters, digits and what is in `more`, and nothing that a model could read as a sentence.
fn is_name(name: &str, more: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || more.contains(letter);
    !name.is_empty() && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bun(kind: &str, wanted: &str) -> Option<String> {
        let stderr =
            format!("error: Cannot find {kind} '{wanted}' from '/data/main.ts'\n\nBun v1.3.0\n");
        hint("typescript", &stderr)
    }

    #[test]
    fn a_missing_library_is_named() {
        let python = "Traceback (most recent call last):\n  File \"/tmp/main.py\", line 1\n\
                      ModuleNotFoundError: No module named 'tabulate'\n";
        insta::assert_snapshot!(hint("python", python).unwrap_or_default(), @"tabulate is not installed: add the package that has it with install_packages, then run the program again.");
        let hints = [
            ("package", "nanoid"),
            ("package", "chart.js"),
            ("module", "@scope/zod"),
            ("module", "@scope/zod/lib/x.js"),
            ("module", "date-fns/format"),
        ]
        .map(|(kind, wanted)| bun(kind, wanted).unwrap_or_default());
        insta::assert_snapshot!(hints.join("\n"), @"
        nanoid is not installed: add the package that has it with install_packages, then run the program again.
        chart.js is not installed: add the package that has it with install_packages, then run the program again.
        @scope/zod is not installed: add the package that has it with install_packages, then run the program again.
        If @scope/zod is not installed, add it with install_packages, then run the program again.
        If date-fns is not installed, add it with install_packages, then run the program again.
        ");
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
        for wanted in [
            "./x", "../x", "/data/x", "", "@/x", "@x", "~/x", "#x", "npm:ms", "bun:x", "a b/c", "/",
        ] {
            for kind in ["package", "module"] {
                assert_eq!(bun(kind, wanted), None, "{wanted}");
            }
        }
        assert_eq!(
            hint("shell", "ModuleNotFoundError: No module named 'x'"),
            None
        );
    }
}
