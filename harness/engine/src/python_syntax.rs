//! Finds syntax errors in the Python programs of cases with python3's parser. The programs are not executed.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use case::{Body, Case, Diagnostic, Kernels, SourceSpan, lower};
use plan::program::{ProgramBody, Source};

/// Parses standard input, and prints the line, the column and the message of a syntax error.
const PARSE: &str = "\
import ast, sys
try:
    ast.parse(sys.stdin.buffer.read())
except SyntaxError as error:
    print(error.lineno or 1, error.offset or 1, error.msg)
";

/// A syntax error in a Python program.
pub(crate) struct SyntaxError {
    /// Line of the program, from 1.
    line: u32,
    /// Column in that line in characters, from 1.
    column: u32,
    message: String,
}

/// Returns the first syntax error of a program; `None` if the program has no error, or if python3 is not installed.
fn syntax_error(text: &str) -> Option<SyntaxError> {
    let mut python = Command::new("python3")
        .args(["-I", "-c", PARSE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    // A parser that ends early closes the pipe. Its output is read in any case.
    let _ = python.stdin.take()?.write_all(text.as_bytes());
    let output = python.wait_with_output().ok()?;
    let output = String::from_utf8_lossy(&output.stdout);
    let mut words = output.trim().splitn(3, ' ');
    let (line, column) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(SyntaxError { line, column, message: words.next()?.to_owned() })
}

/// The position of a syntax error: in the case file, or in the file of the program.
pub(crate) enum SyntaxErrorPlace {
    InCase(Diagnostic),
    InFile { file: String, text: String, diagnostic: Diagnostic },
}

/// Returns the first syntax error in the Python program of a case; `None` if no error is found.
pub(crate) fn of_case(case: &Case, yaml: &str) -> Option<SyntaxErrorPlace> {
    let trial = case.trials().into_iter().next()?;
    let lowered = lower(case, &trial, &Kernels::new(), &[]).ok()?;
    let Body::Program(program) = &lowered.body else { return None };
    let ProgramBody::Python(source) = &program.what else { return None };
    let error = syntax_error(&source.text)?;
    let message = format!("Python: {}", error.message);
    let diagnostic = |at| Diagnostic { at, message, help: None };
    Some(match &source.file {
        Some(file) => {
            let at = SourceSpan { line: error.line, column: error.column, length: 1 };
            SyntaxErrorPlace::InFile {
                file: file.clone(),
                text: source.text.clone(),
                diagnostic: diagnostic(at),
            }
        }
        None => SyntaxErrorPlace::InCase(diagnostic(in_case(&error, source, yaml))),
    })
}

/// Returns the position in the case file of an error in a program that the case contains.
fn in_case(error: &SyntaxError, source: &Source, yaml: &str) -> SourceSpan {
    let line = source.above + error.line;
    let number = |line: u32| line.saturating_sub(1) as usize;
    let in_program = source.text.lines().nth(number(error.line)).unwrap_or_default();
    let in_yaml = yaml.lines().nth(number(line)).unwrap_or_default();
    let indent = in_yaml.find(in_program).unwrap_or_default();
    SourceSpan { line, column: error.column + indent as u32, length: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str) -> Option<Diagnostic> {
        let yaml = format!(
            "title: A case\nsource: a document\nfaults: copy.zero\nprogram:\n  says: PASS\n  python: |\n{program}"
        );
        let case = Case::parse("a/b", &yaml).expect("a case");
        of_case(&case, &yaml).map(|found| match found {
            SyntaxErrorPlace::InCase(diagnostic) | SyntaxErrorPlace::InFile { diagnostic, .. } => {
                diagnostic
            }
        })
    }

    #[test]
    fn position_is_that_in_the_case_file() {
        assert_eq!(found("    x = 1\n    print(x)\n"), None);
        let error = found("    x = 1\n    def f(:\n     pass\n").expect("a syntax error");
        // The bracket is in line 8 of the case; its parser marks the colon in column 11 or the bracket before it.
        assert_eq!(error.at.line, 8);
        assert!((10..=11).contains(&error.at.column), "{error:?}");
        assert!(error.message.starts_with("Python: invalid syntax"), "{error:?}");
    }
}
