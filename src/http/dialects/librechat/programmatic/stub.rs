//! What is put before a program so that it can call the tools of its client: one function for each. Pure.

use std::collections::BTreeMap;

use serde_json::json;

use crate::api::error::CallError;
use crate::api::python::PYTHON;
use crate::http::dialects::bash;
use crate::sandbox::RecordMark;

const FOR_PYTHON: &str = include_str!("stub.py");
const FOR_BASH: &str = include_str!("stub.sh");

/// What cannot be the name of a function.
const PYTHON_KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];
const BASH_WORDS: [&str; 23] = [
    "if", "then", "else", "elif", "fi", "case", "esac", "for", "while", "until", "do", "done",
    "in", "function", "select", "time", "coproc", "declare", "typeset", "local", "readonly",
    "export", "unset",
];
/// What the functions themselves need of Bash, so that others can have the names of commands.
const BASH_OWN: [&str; 3] = ["builtin", "command", "return"];

/// What the functions are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stub {
    Python,
    Bash,
}

impl Stub {
    /// That for programs in this language.
    pub(super) fn of(language: &str) -> Result<Self, CallError> {
        match language {
            PYTHON => Ok(Self::Python),
            bash::SHELL | bash::WORKBENCH => Ok(Self::Bash),
            _ => Err(CallError::invalid(
                "lang must be py or bash for a program that calls tools",
            )),
        }
    }

    /// A program whose output has records with this mark, one for each call of a tool.
    ///
    /// # Errors
    /// Two tools would have the same function, or one would have none.
    pub(super) fn program<'a>(
        self,
        mark: RecordMark,
        tools: impl Iterator<Item = &'a str>,
        code: &str,
    ) -> Result<String, CallError> {
        let functions = self.functions(tools)?;
        match self {
            Self::Python => {
                // Strings, and objects of strings, are the same in JSON and in Python.
                let arguments = [json!(mark.to_string()), json!(functions), json!(code)];
                let arguments = arguments.map(|it| it.to_string()).join(", ");
                Ok(format!("{FOR_PYTHON}\n__run({arguments})\n"))
            }
            Self::Bash => {
                let functions = functions.iter().map(|(function, tool)| {
                    let tool = bash::quoted(tool);
                    format!("{function}() {{ __sandbox_call {tool} \"$@\"; }}\n")
                });
                let functions: String = functions.collect();
                Ok(format!(
                    "__sandbox_mark={mark}\n{FOR_BASH}{functions}{code}"
                ))
            }
        }
    }

    /// The tools by the names of their functions.
    fn functions<'a>(
        self,
        tools: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeMap<String, &'a str>, CallError> {
        let mut functions = BTreeMap::new();
        for tool in tools {
            let function = self.identifier(tool);
            let is_none = function.trim_matches('_').is_empty() || tool.contains('\n');
            if is_none || (self == Self::Bash && BASH_OWN.contains(&&*function)) {
                let message =
                    format!("tools: {tool:?} cannot be the name of a function: rename it");
                return Err(CallError::invalid(&message));
            }
            if let Some(other) = functions.insert(function, tool) {
                let message =
                    format!("tools: {other:?} and {tool:?} have the same function: rename one");
                return Err(CallError::invalid(&message));
            }
        }
        Ok(functions)
    }

    /// What models are told that the function of a tool is called.
    fn identifier(self, tool: &str) -> String {
        let joins = |it: char| it.is_whitespace() || it == '-' || (it == '.' && self == Self::Bash);
        let mut name: String = tool
            .chars()
            .map(|it| if joins(it) { '_' } else { it })
            .filter(|it| it.is_ascii_alphanumeric() || *it == '_')
            .collect();
        if name.starts_with(|it: char| it.is_ascii_digit()) {
            name.insert(0, '_');
        }
        let reserved: &[&str] = match self {
            Self::Python => &PYTHON_KEYWORDS,
            Self::Bash => &BASH_WORDS,
        };
        if reserved.contains(&&*name) {
            name.push_str("_tool");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_called_as_models_are_told() {
        let names = ["get-x y", "class", "2d", "a.b", "é!z", "done"];
        assert_eq!(
            names.map(|name| Stub::Python.identifier(name)),
            ["get_x_y", "class_tool", "_2d", "ab", "z", "done"]
        );
        assert_eq!(
            names.map(|name| Stub::Bash.identifier(name)),
            ["get_x_y", "class", "_2d", "a_b", "z", "done_tool"]
        );
    }

    #[test]
    fn tools_without_a_function_of_their_own_are_refused() {
        let refused = |tools: &[&str]| {
            let refused = Stub::Bash.functions(tools.iter().copied());
            refused.unwrap_err().message
        };
        assert_eq!(
            refused(&["a-b", "a b"]),
            "tools: \"a-b\" and \"a b\" have the same function: rename one"
        );
        for name in ["", "-", "é", "a\nb", "builtin", "command", "return"] {
            assert!(refused(&[name]).ends_with("rename it"), "{name:?}");
        }
    }

    #[test]
    fn tools_of_bash_are_functions_before_the_program() {
        let mark = RecordMark::random();
        let tools = ["it's", "get_x"].into_iter();
        let program = Stub::Bash.program(mark, tools, "get_x '{}'").unwrap();
        let program = program
            .replace(FOR_BASH, "...\n")
            .replace(&mark.to_string(), "MARK");
        insta::assert_snapshot!(program, @r#"
        __sandbox_mark=MARK
        ...
        get_x() { __sandbox_call 'get_x' "$@"; }
        its() { __sandbox_call 'it'\''s' "$@"; }
        get_x '{}'
        "#);
    }
}
