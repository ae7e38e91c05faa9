//! Statements of a case: the checks, expected statuses and expected values that decide whether a trial passes. Mutation
//! testing of cases removes them one at a time.

use device::Fault;
use plan::{ByVersion, Call, Plan, Step, Version};

/// Kind of a statement in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementKind {
    /// A check of the bytes in a buffer, or a comparison of two buffers.
    Check,
    /// Accepted statuses of a call, in `returns`.
    Returns,
    /// Accepted values of a call, in `gives`.
    Gives,
}

/// One check, expected status or expected value of a case, at a step of a trial's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Id of the step that contains the statement.
    pub step: u32,
    /// Line of the step in the case file.
    pub line: u32,
    /// Kind of the statement.
    pub what: StatementKind,
    /// Description of the statement, for example `check of h` or `returns of hipMemcpy`.
    pub subject: String,
}

/// Returns all statements of a plan that apply to a ROCm version. A list of accepted statuses or values is not a
/// statement if it contains `any`, or if it has no entry for the version.
pub fn statements(plan: &Plan, version: &Version) -> Vec<Statement> {
    let mut found = Vec::new();
    for step in plan.steps().into_iter().filter(|step| step.line > 0) {
        let mut add = |what, of: &str| {
            found.push(Statement { step: step.id, line: step.line, what, subject: of.to_owned() });
        };
        if let Call::Check { buffer, .. } = &step.call {
            add(StatementKind::Check, &format!("check of {buffer}"));
        } else if let Call::Equal { a, b } = &step.call {
            add(StatementKind::Check, &format!("equal: {a}, {b}"));
        } else if let Call::Differ { a, b } = &step.call {
            add(StatementKind::Check, &format!("differ: {a}, {b}"));
        } else if let Call::AtLeast { buffer, least } = &step.call {
            add(StatementKind::Check, &format!("at_least: {buffer}, {least}"));
        }
        let api = plan::api(&step.call, plan);
        for (what, word, by) in [
            (StatementKind::Returns, "returns", &step.returns),
            (StatementKind::Gives, "gives", &step.gives),
        ] {
            let names = by.as_ref().and_then(|by| by.at(version));
            if names.is_some_and(|names| names.iter().all(|name| name != "any")) {
                add(what, &format!("{word} of {api}"));
            }
        }
    }
    found
}

/// Returns true if an injected fault can take effect in the plan on this ROCm version. A fault that changes statuses or
/// values can take effect only at a step that lists accepted statuses or values for the version. For all other faults
/// only a run shows whether they take effect, so the result is true if the plan has any steps.
#[expect(clippy::wildcard_enum_match_arm, reason = "most faults ask nothing of a statement")]
pub fn can_act(plan: &Plan, fault: Fault, version: &Version) -> bool {
    let stated = |by: &Option<ByVersion<Vec<String>>>, such: fn(&[String]) -> bool| {
        let names = by.as_ref().and_then(|by| by.at(version));
        names.is_some_and(|names| names.iter().all(|name| name != "any") && such(names))
    };
    let acts = |step: &Step| match fault {
        Fault::CallAccepted => stated(&step.returns, |names| !plan::accepts_success(names)),
        Fault::CallDenied => stated(&step.returns, plan::accepts_success),
        Fault::ValueWrong => stated(&step.gives, |_| true),
        _ => true,
    };
    plan.steps().into_iter().any(acts)
}

/// Returns the plan without a statement: the check is dropped, or every status or value of the call is accepted. The
/// copy before a check is kept, so that faults still have the same opportunities.
pub fn without(plan: &Plan, statement: &Statement) -> Plan {
    let mut plan = plan.clone();
    for steps in [&mut plan.setup, &mut plan.body, &mut plan.verify, &mut plan.teardown] {
        remove(steps, statement);
    }
    plan
}

fn remove(steps: &mut Vec<Step>, statement: &Statement) {
    steps.retain(|step| step.id != statement.step || statement.what != StatementKind::Check);
    for step in steps {
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            remove(body, statement);
        } else if step.id == statement.step {
            match statement.what {
                StatementKind::Returns => {
                    step.returns = Some(ByVersion::always(vec!["any".to_owned()]))
                }
                StatementKind::Gives => step.gives = None,
                StatementKind::Check => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = "
title: t
source: [s]
buffers: {h: {on: host.pageable, bytes: 64, fill: pattern}, d: {on: device, bytes: 64}}
steps:
  - copy: {to: d, from: h}
    returns: {\"<7.0\": hipErrorUnknown, \">=7.0\": hipSuccess}
  - mem_info:
    gives: any
  - get_last_error:
    returns: any
  - repeat:
      count: 2
      steps:
        - mem_info:
          gives: returned
        - check: h
faults: [copy.zero]
";

    #[test]
    fn every_statement_is_found_and_removable() {
        let case = case::Case::parse("t", CASE).expect("it is well-formed");
        let trial = &case.trials()[0];
        let plan = case::lower(&case, trial, &Default::default(), &[]).expect("it lowers").plan;
        let version = Version::new(7, 2, 4);
        let found = statements(&plan, &version);
        let short: Vec<_> = found.iter().map(|s| (s.line, s.what, s.subject.as_str())).collect();
        let expected = [
            (6, StatementKind::Returns, "returns of hipMemcpy"),
            (15, StatementKind::Gives, "gives of hipMemGetInfo"),
            (17, StatementKind::Check, "check of h"),
        ];
        assert_eq!(short, expected);
        for statement in &found {
            let rest = statements(&without(&plan, statement), &version);
            let left: Vec<_> = found.iter().filter(|s| *s != statement).cloned().collect();
            assert_eq!(rest, left, "{statement:?}");
        }
        assert_eq!(statements(&plan, &Version::new(0, 1, 0)).len(), 3);
    }
}
