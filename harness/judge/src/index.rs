use std::collections::HashMap;

use plan::{Call, Phase, Plan, Step};

use crate::{Location, api, phrases};

pub(crate) struct Index<'a> {
    plan: &'a Plan,
    steps: HashMap<u32, (Phase, &'a Step)>,
}

impl<'a> Index<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        fn walk<'a>(phase: Phase, steps: &'a [Step], out: &mut HashMap<u32, (Phase, &'a Step)>) {
            for step in steps {
                out.insert(step.id, (phase, step));
                if let Call::Repeat { body, .. } | Call::Thread { body } = &step.call {
                    walk(phase, body, out);
                }
            }
        }
        let mut steps = HashMap::new();
        for (phase, list) in plan.phases() {
            walk(phase, list, &mut steps);
        }
        Index { plan, steps }
    }

    pub(crate) fn step(&self, id: u32) -> Option<&'a Step> {
        self.steps.get(&id).map(|(_, step)| *step)
    }

    pub(crate) fn api(&self, id: u32) -> &'static str {
        self.step(id).map_or("an unknown call", |s| api(&s.call, self.plan))
    }

    pub(crate) fn location(&self, id: u32, occurrence: u32) -> Location {
        let Some((phase, step)) = self.steps.get(&id) else { return Location::default() };
        Location {
            phase: Some(*phase),
            step: Some(id),
            line: Some(step.line).filter(|line| *line > 0),
            api: Some(api(&step.call, self.plan).to_owned()),
            occurrence: Some(occurrence),
        }
    }

    /// Returns the line and the iteration of a step, for example ` (line 14, iteration 3)`; an empty text if the step
    /// has neither.
    pub(crate) fn place(&self, id: u32, occurrence: u32) -> String {
        let line = self.step(id).map_or(0, |s| s.line);
        phrases::place(line, occurrence)
    }
}
