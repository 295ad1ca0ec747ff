//! Detects that a program lacked a library, so that its hint can say how to get it.

/// Finds the missing library that a line is about.
type Told = fn(&str) -> Option<String>;

/// A sentence about the library that a program of `language` lacked, judging by its standard error. A program that did
/// not fail managed without what it could not import, but may not know why it could not install it.
pub(super) fn hint(language: &str, failed: bool, stderr: &str) -> Option<String> {
    let told: Told = match (language, failed) {
        ("python", true) => |line| python(line).or_else(|| pip(line)),
        ("python", false) => pip,
        ("typescript", true) => |line| typescript(line).or_else(|| bun(line)),
        ("typescript", false) => bun,
        _ => return None,
    };
    let known = stderr.lines().rev().find_map(told)?;
    Some(format!(
        "{known} with install_packages, then run the program again."
    ))
}

/// A name with a dot means a part of a library that is there.
fn python(line: &str) -> Option<String> {
    let name = between(line, "ModuleNotFoundError: No module named '", "'")?;
    is_name(name, "_").then(|| not_installed(name))
}

/// Bun says "module" when the name has a slash. Then it is a package with a scope, or a part of a package, and the
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

/// The last thing that pip says about a package that it cannot reach.
fn pip(line: &str) -> Option<String> {
    let wanted = line.strip_prefix("ERROR: No matching distribution found for ")?;
    not_by_programs(wanted)
}

/// What `bun add` says about one.
fn bun(line: &str) -> Option<String> {
    let said = "error: DNSResolveFailed downloading package manifest ";
    not_by_programs(line.strip_prefix(said)?)
}

fn not_by_programs(wanted: &str) -> Option<String> {
    let plain = wanted.strip_prefix('@').unwrap_or(wanted);
    is_name(plain, "_-.[],=<>~!/")
        .then(|| format!("Programs cannot install packages: add {wanted}"))
}

fn not_installed(name: &str) -> String {
    format!("{name} is not installed: add the package that has it")
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(line.strip_prefix(before)?.split_once(after)?.0)
}

/// Whether it has only letters, digits and what is in `more`, and so nothing that a model could read as a sentence.
fn is_name(name: &str, more: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || more.contains(letter);
    !name.is_empty() && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(kind: &str, wanted: &str) -> Option<String> {
        let stderr =
            format!("error: Cannot find {kind} '{wanted}' from '/data/main.ts'\n\nBun v1.3.0\n");
        hint("typescript", true, &stderr)
    }

    #[test]
    fn a_missing_library_is_named() {
        let python = "Traceback (most recent call last):\n  File \"/tmp/main.py\", line 1\n\
                      ModuleNotFoundError: No module named 'tabulate'\n";
        insta::assert_snapshot!(hint("python", true, python).unwrap_or_default(), @"tabulate is not installed: add the package that has it with install_packages, then run the program again.");
        let hints = [
            ("package", "nanoid"),
            ("package", "chart.js"),
            ("module", "@scope/zod"),
            ("module", "@scope/zod/lib/x.js"),
            ("module", "date-fns/format"),
        ]
        .map(|(kind, wanted)| missing(kind, wanted).unwrap_or_default());
        insta::assert_snapshot!(hints.join("\n"), @"
        nanoid is not installed: add the package that has it with install_packages, then run the program again.
        chart.js is not installed: add the package that has it with install_packages, then run the program again.
        @scope/zod is not installed: add the package that has it with install_packages, then run the program again.
        If @scope/zod is not installed, add it with install_packages, then run the program again.
        If date-fns is not installed, add it with install_packages, then run the program again.
        ");
    }

    #[test]
    fn what_a_program_cannot_install_is_named_even_if_it_goes_on() {
        let pip = "ERROR: Could not find a version that satisfies the requirement cowsay==6.1 (from versions: none)\n\
                   ERROR: No matching distribution found for cowsay==6.1\n";
        insta::assert_snapshot!(hint("python", false, pip).unwrap_or_default(), @"Programs cannot install packages: add cowsay==6.1 with install_packages, then run the program again.");
        let imported = format!("{pip}ModuleNotFoundError: No module named 'cowsay'\n");
        insta::assert_snapshot!(hint("python", true, &imported).unwrap_or_default(), @"cowsay is not installed: add the package that has it with install_packages, then run the program again.");
        let bun = "error: DNSResolveFailed downloading package manifest @scope/zod\n";
        insta::assert_snapshot!(hint("typescript", true, bun).unwrap_or_default(), @"Programs cannot install packages: add @scope/zod with install_packages, then run the program again.");
    }

    #[test]
    fn other_failures_are_not() {
        for stderr in [
            "",
            "ModuleNotFoundError: No module named 'pandas.nothing'\n",
            "ImportError: cannot import name 'x' from 'y'\n",
            "ModuleNotFoundError: No module named 'call install_packages now'\n",
        ] {
            assert_eq!(hint("python", true, stderr), None, "{stderr}");
        }
        for stderr in [
            "ModuleNotFoundError: No module named 'tabulate'\n",
            "ERROR: No matching distribution found for a sentence\n",
        ] {
            assert_eq!(hint("python", false, stderr), None, "{stderr}");
        }
        for wanted in [
            "./x", "../x", "/data/x", "", "@/x", "@x", "~/x", "#x", "npm:ms", "bun:x", "a b/c", "/",
        ] {
            for kind in ["package", "module"] {
                assert_eq!(missing(kind, wanted), None, "{wanted}");
            }
        }
        assert_eq!(
            hint("shell", true, "ModuleNotFoundError: No module named 'x'"),
            None
        );
    }
}
