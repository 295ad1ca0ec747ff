//! A command becomes a program for Bash. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::paths;
use crate::http::dialects::bash::quoted;

/// What is to be started.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Command {
    cmd: String,
    args: Vec<String>,
    pub(super) envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
}

impl Command {
    /// The program that does the same.
    pub(super) fn code(&self) -> String {
        let directory = self.cwd.as_deref().filter(|cwd| !cwd.is_empty());
        let enter = directory.map(|cwd| {
            let directory = quoted(&paths::of_programs(cwd));
            format!("cd -- {directory} || exit\n")
        });
        enter.unwrap_or_default() + &self.script()
    }

    /// What is run in its directory.
    fn script(&self) -> String {
        let shell = self.cmd.rsplit('/').next().unwrap_or_default();
        let args: Vec<_> = self.args.iter().map(String::as_str).collect();
        // A login shell would find the PATH of the system, and not that of the image.
        if let ("bash" | "sh", ["-l", "-c", script] | ["-c" | "-lc", script]) = (shell, &*args) {
            return (*script).to_owned();
        }
        let words = std::iter::once(&self.cmd).chain(&self.args);
        let words: Vec<_> = words.map(|word| quoted(word)).collect();
        format!("exec -- {}", words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(cmd: &str, args: &[&str], cwd: Option<&str>) -> String {
        let command = Command {
            cmd: cmd.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            envs: BTreeMap::new(),
            cwd: cwd.map(str::to_owned),
        };
        command.code()
    }

    #[test]
    fn a_shell_with_a_script_is_the_script() {
        assert_eq!(
            command("/bin/bash", &["-l", "-c", "echo 'a'"], None),
            "echo 'a'"
        );
        assert_eq!(
            command("bash", &["-c", "ls"], Some("/home/user/it's")),
            "cd -- '/data/it'\\''s' || exit\nls"
        );
    }

    #[test]
    fn whatever_else_is_started_by_its_words() {
        assert_eq!(
            command("ls", &["-l", "a b"], Some("/tmp")),
            "cd -- '/tmp' || exit\nexec -- 'ls' '-l' 'a b'"
        );
        assert_eq!(command("/bin/bash", &[], None), "exec -- '/bin/bash'");
    }
}
