//! Lowers one trial of a case whose body is a program: Python, C++ or a command.

use plan::{
    Plan, Program,
    program::{Packages, ProgramBody, ProgramExpectations, Source},
};

use super::read_environment;
use crate::{
    Case, Diagnostic, SourceSpan, Trial,
    case_keys::KEYS,
    diagnostic::{finish, suggest},
    matrix::substitute,
    needs::read_gfx,
    program::{file_named, not_a_program},
    read::{Fields, Reader},
    yaml::{Node, Value},
};

const PROGRAM_KEYS: &[&str] = &[
    "python", "cpp", "command", "env", "packages", "arch", "options", "args", "exit", "says",
    "never",
];

/// Functions of the Python module `rocrepro` and of the C++ header `rocrepro.h` that check a result.
const CHECKS: &[&str] =
    &["equal(", "close(", "status(", "raises(", "same(", "holds(", "given_back("];

/// File name of the Python module `rocrepro`, whose functions check results. A program with this file name would be
/// imported in place of that module.
const HELPER: &str = "rocrepro.py";

/// Returns the program of one trial, and a plan without calls that contains the trial's environment variables.
pub(super) fn program(case: &Case, trial: &Trial) -> Result<(Plan, Program), Vec<Diagnostic>> {
    let mut reader = Reader::default();
    let mut missing = Vec::new();
    let root = substitute(case.body(), trial, &mut missing);
    let read = read(&mut reader, case, trial, &root);
    let mut mistakes = reader.mistakes;
    mistakes.retain(|m| missing.iter().all(|axis| axis.at != m.at));
    mistakes.extend(missing.iter().filter_map(|axis| axis.mistake(trial, &case.matrix)));
    finish(mistakes)?;
    read.filter(|_| missing.is_empty()).ok_or_else(Vec::new)
}

fn read(reader: &mut Reader, case: &Case, trial: &Trial, root: &Node) -> Option<(Plan, Program)> {
    let fields = reader.fields(root, "a case", KEYS)?;
    let plan = Plan {
        trial: case.trial_id(trial),
        environment: read_environment(reader, &fields),
        ..Plan::empty()
    };
    let node = fields.get("program")?;
    if !matches!(node.value, Value::Map(_)) {
        let help =
            "write `cpp: |` or `python: |` and the program below it, or `cpp: NAME.cpp`".to_owned();
        reader.mistake_with_help(node.at, "`program` must be a mapping", Some(help));
        return None;
    }
    let fields = reader.fields(node, "`program`", PROGRAM_KEYS)?;
    let Value::Map(entries) = &root.value else { return None };
    let at =
        entries.iter().find(|(key, _)| key.text == "program").map_or(node.at, |(key, _)| key.at);
    let what = read_what(reader, &fields, case, at)?;
    if let Some(Node { at, value: Value::Scalar(text) }) = fields.get("args")
        && text.trim().contains(' ')
    {
        // The help repeats the text of the case, in which `$axis` is not replaced, so that it is the same in each
        // trial.
        let (text, words) = match program_entry(case.body(), "args") {
            Some(Node { value: Value::Scalar(written), .. }) => (written, written),
            _ => (text, text),
        };
        let words: Vec<_> = words.split_whitespace().collect();
        let help = format!("write a list: `[{}]`", words.join(", "));
        let message = format!("`{text}` is more than one argument");
        reader.mistake_with_help(*at, message, Some(help));
    }
    let texts = |reader: &mut Reader, key: &str| {
        let what = format!("`{key}`");
        let node = fields.get(key);
        node.map(|node| reader.texts(node, &what)).unwrap_or_default()
    };
    let stated = ProgramExpectations {
        exit: fields.get("exit").and_then(|node| {
            let status = reader.number32(node, "`exit`")?;
            if status > 255 {
                reader.mistake(node.at, "an exit status is at most 255");
            }
            i32::try_from(status).ok()
        }),
        says: texts(reader, "says"),
        never: texts(reader, "never"),
    };
    let program = Program {
        packages: read_packages(reader, &fields, &what),
        what,
        arguments: texts(reader, "args"),
        groups: case.needs.groups.clone(),
        parameters: trial.values.iter().map(|(a, v)| (a.to_string(), v.to_string())).collect(),
        stated,
        line: at.line,
    };
    check_parameters(reader, case, fields.get("cpp").or_else(|| fields.get("python")), &program);
    // A key `exit`, `says` or `never` counts as a check even if its value is wrong, because the wrong value has been
    // reported.
    if ["exit", "says", "never"].iter().all(|key| fields.get(key).is_none()) {
        check_that_it_states(reader, &program, at);
    }
    Some((plan, program))
}

/// Reads the program from the key `python`, `cpp` or `command`. Each of the three allows its own additional keys.
fn read_what(
    reader: &mut Reader,
    fields: &Fields<'_>,
    case: &Case,
    at: SourceSpan,
) -> Option<ProgramBody> {
    let bodies = ["python", "cpp", "command"].map(|key| fields.get(key).map(|node| (key, node)));
    let mut bodies = bodies.into_iter().flatten();
    let Some((kind, node)) = bodies.next() else {
        let help = Some("give `python`, `cpp` or `command`".to_owned());
        reader.mistake_with_help(at, "`program` does not define a program", help);
        return None;
    };
    for (other, node) in bodies {
        reader.mistake(node.at, format!("a program is `{kind}` or `{other}`, not both"));
    }
    for key in ["arch", "options"].into_iter().filter(|_| kind != "cpp") {
        if let Some(node) = fields.get(key) {
            reader.mistake(node.at, format!("`{key}` is only for `cpp`"));
        }
    }
    match kind {
        "python" => Some(ProgramBody::Python(read_source(reader, case, kind, node)?)),
        "cpp" => {
            let mut texts = |key: &str| {
                let node = fields.get(key);
                node.map(|node| reader.texts(node, &format!("`{key}`"))).unwrap_or_default()
            };
            let (arch, options) = (texts("arch"), texts("options"));
            check_options(reader, fields, &options);
            if let Some(node) = fields.get("arch") {
                read_gfx(reader, node);
            }
            Some(ProgramBody::Cpp { source: read_source(reader, case, kind, node)?, arch, options })
        }
        _ => {
            let words = reader.texts(node, "`command`");
            if let [word] = &words[..]
                && word.trim().contains(' ')
            {
                let parts: Vec<_> = word.split_whitespace().collect();
                let shell = parts.iter().any(|part| ["|", "&&", "||", ">", ";"].contains(part));
                let help = match shell {
                    true => format!("a shell runs it: `[sh, -c, \"{word}\"]`"),
                    false => format!("write a list: `[{}]`", parts.join(", ")),
                };
                let message = format!("`{word}` is more than one word, and no shell divides it");
                reader.mistake_with_help(node.at, message, Some(help));
                return None;
            }
            (!words.is_empty()).then_some(ProgramBody::Command(words))
        }
    }
}

/// Reports each entry of `options` that contains several options, because the compiler would receive them as one
/// option.
fn check_options(reader: &mut Reader, fields: &Fields<'_>, options: &[String]) {
    let Some(node) = fields.get("options") else { return };
    for option in options.iter().filter(|option| option.contains(" -")) {
        let words: Vec<_> = option.split_whitespace().collect();
        let help = format!("write a list: `[{}]`", words.join(", "));
        reader.mistake_with_help(
            node.at,
            format!("`{option}` is more than one option"),
            Some(help),
        );
    }
}

fn read_source(reader: &mut Reader, case: &Case, kind: &str, node: &Node) -> Option<Source> {
    let text = reader.text(node, &format!("`{kind}`"))?;
    if let Some(file) = file_named(text, kind) {
        if file == HELPER {
            let message = format!(
                "`{HELPER}` is the name of the helper module, so the program would import itself"
            );
            reader.mistake_with_help(
                node.at,
                message,
                Some("give the file another name".to_owned()),
            );
            return None;
        }
        let text = match &case.file {
            Some(Some(text)) => text.clone(),
            // The caller has not provided the content of the file yet.
            None => return None,
            Some(None) => {
                reader
                    .mistake(node.at, format!("file `{file}` not found in the folder of the case"));
                return None;
            }
        };
        return Some(Source { text, file: Some(file), above: 0 });
    }
    if let Some(help) = not_a_program(text, kind) {
        let message = format!("`{}` is the name of a file, not a program", text.trim());
        reader.mistake_with_help(node.at, message, Some(help));
        return None;
    }
    if let Some((file, arguments)) = file_with_arguments(text, kind) {
        let words: Vec<_> = arguments.split_whitespace().collect();
        let message = format!("`{}` is a file with arguments, not a program", text.trim());
        let help = format!("write `{kind}: {file}` and `args: [{}]`", words.join(", "));
        reader.mistake_with_help(node.at, message, Some(help));
        return None;
    }
    if text.trim().is_empty() {
        reader.mistake(node.at, "the program is empty");
        return None;
    }
    Some(Source { text: text.to_owned(), file: None, above: node.at.line.saturating_sub(1) })
}

/// Splits a line such as `train.py --epochs 1` into the name of the file and its arguments. Returns `None` if the text
/// is not such a line but a program.
fn file_with_arguments<'t>(text: &'t str, kind: &str) -> Option<(String, &'t str)> {
    let (first, rest) = text.trim().split_once(' ')?;
    let file = file_named(first, kind).filter(|_| !rest.contains('\n'))?;
    Some((file, rest.trim()))
}

/// Returns a value under `program` as the case file contains it, before the values of a trial are substituted.
fn program_entry<'n>(root: &'n Node, key: &str) -> Option<&'n Node> {
    let (_, node) = crate::program::program_entry(root)?;
    let Value::Map(entries) = &node.value else { return None };
    entries.iter().find(|(of, _)| of.text == key).map(|(_, node)| node)
}

/// Reports each call of the function `parameter` of `rocrepro` with a name that is not an axis of the matrix. In C++
/// such a call returns an empty text, in Python it raises an exception.
fn check_parameters(reader: &mut Reader, case: &Case, node: Option<&Node>, program: &Program) {
    let (Some(node), Some(source)) = (node, program.source()) else { return };
    if source.file.is_some() || case.matrix.unknown_axes {
        return;
    }
    for (number, line) in source.text.lines().enumerate() {
        for (at, call) in line.match_indices("parameter(") {
            let rest = line[at + call.len()..].trim_start();
            let Some(quote) = rest.chars().next().filter(|c| ['"', '\''].contains(c)) else {
                continue;
            };
            let Some((name, after)) = rest[1..].split_once(quote) else { continue };
            // A call with a second argument has a default.
            let has_default = after.trim_start().starts_with(',');
            if has_default || case.matrix.axes.iter().any(|axis| axis.name == name) {
                continue;
            }
            let help = suggest(name, case.matrix.axes.iter().map(|axis| axis.name.as_str()));
            let help =
                help.or_else(|| Some(format!("add `matrix: {{{name}: [...]}}` to the case")));
            let line = node.at.line + number as u32;
            let at = SourceSpan { line, column: 1, length: 1 };
            reader.mistake_with_help(at, format!("the matrix has no axis `{name}`"), help);
        }
    }
}

fn read_packages(reader: &mut Reader, fields: &Fields<'_>, what: &ProgramBody) -> Packages {
    let (named, these) = (fields.get("env"), fields.get("packages"));
    let is_variables = |node: &&Node| match &node.value {
        Value::Scalar(text) => text.contains('='),
        Value::List(_) | Value::Map(_) => true,
    };
    if let Some(node) = named.filter(is_variables) {
        let help = "variables are entries of `environment` of the case, such as `environment: {HIP_LAUNCH_BLOCKING: 1}`";
        let message = "`env` is the name of a Python environment";
        reader.mistake_with_help(node.at, message, Some(help.to_owned()));
        return Packages::None;
    }
    if let (ProgramBody::Cpp { .. }, Some(node)) = (what, named.or(these)) {
        reader.mistake(node.at, "a C++ program imports no Python packages");
    }
    match (named, these) {
        (Some(_), Some(node)) => {
            reader.mistake(node.at, "give `env` or `packages`, not both");
            Packages::None
        }
        (Some(node), None) => {
            let name = reader.text(node, "`env`").map(str::to_owned);
            name.map_or(Packages::None, Packages::Environment)
        }
        (None, Some(node)) => {
            let all = reader.texts(node, "`packages`");
            for (item, text) in reader.list(node).iter().zip(&all) {
                let (name, version) = text.split_once("==").unwrap_or((text, "any"));
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
                // Local versions contain a plus sign, for example `3.0+rocm7`.
                let of_version = |c: char| plain(c) || "+!".contains(c);
                if name.is_empty()
                    || version.is_empty()
                    || !name.chars().all(plain)
                    || !version.chars().all(of_version)
                {
                    let help = "write `name` or `name==version`".to_owned();
                    reader.mistake_with_help(
                        item.at,
                        format!("`{text}` is not a package"),
                        Some(help),
                    );
                }
            }
            Packages::These(all)
        }
        (None, None) => Packages::None,
    }
}

/// Reports a program that calls no check of `rocrepro`, if the case also requires nothing of its output or exit status.
/// A run of such a program proves nothing.
fn check_that_it_states(reader: &mut Reader, program: &Program, at: SourceSpan) {
    let checks = |text: &str| CHECKS.iter().any(|call| text.contains(call));
    let text = program.source().map_or("", |source| source.text.as_str());
    if program.reports() && checks(text) {
        return;
    }
    if checks(text) && text.contains("done()") && !program.reports() {
        let (message, help) = match program.what {
            ProgramBody::Cpp { .. } => (
                "the program calls functions of `rocrepro.h`, and does not include it",
                "add `#include \"rocrepro.h\"` and `using namespace rocrepro;`",
            ),
            ProgramBody::Python(_) | ProgramBody::Command(_) => (
                "the program calls functions of the module `rocrepro`, and does not import it",
                "add `import rocrepro`, and call `rocrepro.equal` and the others",
            ),
        };
        return reader.mistake_with_help(at, message, Some(help.to_owned()));
    }
    let help = match program.what {
        ProgramBody::Command(_) => {
            "write `says` (text that the output must contain), `never` (text that it must not contain) or `exit` \
             (the exit status)"
                .to_owned()
        }
        ProgramBody::Python(_) | ProgramBody::Cpp { .. } => {
            "check with the functions of `rocrepro` (`equal`, `close`, `status`, `raises`, `same`, `holds`), or state \
             `says`, `never` or `exit`"
                .to_owned()
        }
    };
    reader.mistake_with_help(
        at,
        "the program has no check and no expected output, so it proves nothing",
        Some(help),
    );
}
