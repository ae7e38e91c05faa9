//! What a case states, and the plan without one of these statements.

use device::Fault;
use plan::{ByVersion, Call, Plan, Step, Version};

/// What a step states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The bytes of a buffer, or how those of two compare.
    Check,
    /// The statuses of a call, by `returns`.
    Returns,
    /// The values of a call, by `gives`.
    Gives,
}

/// One statement of a case, as one of its trials has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The step.
    pub step: u32,
    /// Its line in the case.
    pub line: u32,
    /// What is stated.
    pub what: What,
    /// The step in a few words: the buffer, or the function that is called.
    pub of: String,
}

/// Everything that the case states of a plan's run on a ROCm of this version. `any`, and nothing for this version, state nothing.
pub fn statements(plan: &Plan, version: &Version) -> Vec<Statement> {
    let mut found = Vec::new();
    for step in plan.steps().into_iter().filter(|step| step.line > 0) {
        let mut add = |what, of: &str| {
            found.push(Statement { step: step.id, line: step.line, what, of: of.to_owned() });
        };
        if let Call::Check { buffer } = &step.call {
            add(What::Check, &format!("check of {buffer}"));
        } else if let Call::Equal { a, b } = &step.call {
            add(What::Check, &format!("equal: {a}, {b}"));
        } else if let Call::Differ { a, b } = &step.call {
            add(What::Check, &format!("differ: {a}, {b}"));
        }
        let api = plan::api(&step.call, plan);
        for (what, word, by) in
            [(What::Returns, "returns", &step.returns), (What::Gives, "gives", &step.gives)]
        {
            let names = by.as_ref().and_then(|by| by.at(version));
            if names.is_some_and(|names| names.iter().all(|name| name != "any")) {
                add(what, &format!("{word} of {api}"));
            }
        }
    }
    found
}

/// Whether a planted fault has something to misbehave at on a ROCm of this version. Faults of answers act where the case states one,
/// which may depend on the version; others say themselves whether they acted.
#[expect(clippy::wildcard_enum_match_arm, reason = "most faults ask nothing of a statement")]
pub fn concerns(plan: &Plan, fault: Fault, version: &Version) -> bool {
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

/// The plan without a statement: the check is not made, or whatever the call answers is right. Copies that a check brings with it
/// stay, so that faults have the same opportunities.
pub fn without(plan: &Plan, statement: &Statement) -> Plan {
    let mut plan = plan.clone();
    for steps in [&mut plan.setup, &mut plan.body, &mut plan.verify, &mut plan.teardown] {
        remove(steps, statement);
    }
    plan
}

fn remove(steps: &mut Vec<Step>, statement: &Statement) {
    steps.retain(|step| step.id != statement.step || statement.what != What::Check);
    for step in steps {
        if let Call::Repeat { body, .. } | Call::Thread { body } = &mut step.call {
            remove(body, statement);
        } else if step.id == statement.step {
            match statement.what {
                What::Returns => step.returns = Some(ByVersion::always(vec!["any".to_owned()])),
                What::Gives => step.gives = None,
                What::Check => {}
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
    fn each_statement_is_found_and_can_be_taken_away() {
        let case = case::Case::parse("t", CASE).expect("it is well-formed");
        let trial = &case.trials()[0];
        let plan = case::lower(&case, trial, &Default::default(), &[]).expect("it lowers").plan;
        let version = Version::new(7, 2, 4);
        let found = statements(&plan, &version);
        let short: Vec<_> = found.iter().map(|s| (s.line, s.what, s.of.as_str())).collect();
        let expected = [
            (6, What::Returns, "returns of hipMemcpy"),
            (15, What::Gives, "gives of hipMemGetInfo"),
            (17, What::Check, "check of h"),
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
