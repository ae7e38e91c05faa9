//! Where the variables of handles and buffers are declared: at the call that makes them, or at the top of `main` where
//! another block uses them too.

use std::collections::BTreeMap;

use plan::{Call, NamedAs, Plan, Step};

use crate::names::{Kind, Names};

/// The variables of a program.
pub(crate) struct Declared(BTreeMap<(Kind, String), Use>);

#[derive(Default)]
struct Use {
    /// Calls that make it, in the text.
    makers: u32,
    /// Whether its first mention is a call that makes it, outside of all blocks.
    made_first: bool,
    mentioned: bool,
}

impl Declared {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut declared = Declared(BTreeMap::new());
        for (_, steps) in plan.phases() {
            declared.walk(steps, 0);
        }
        declared
    }

    fn walk(&mut self, steps: &[Step], depth: u32) {
        for step in steps {
            self.walk(step.call.body().unwrap_or_default(), depth + 1);
            for (kind, name, makes) in mentions(&step.call) {
                let entry = self.0.entry((kind, name.to_owned())).or_default();
                if !entry.mentioned {
                    entry.mentioned = true;
                    entry.made_first = makes && depth == 0;
                }
                entry.makers += u32::from(makes);
            }
        }
    }

    /// Whether the variable is declared at the top.
    pub(crate) fn is_hoisted(&self, kind: Kind, name: &str) -> bool {
        self.0.get(&(kind, name.to_owned())).is_none_or(|u| !u.made_first || u.makers != 1)
    }

    /// The declarations at the top, one line per type.
    pub(crate) fn lines(&self, names: &mut Names) -> Vec<String> {
        let mut by_type: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for (kind, name) in self.0.keys() {
            if *kind != Kind::Kernel && self.is_hoisted(*kind, name) {
                let identifier = names.of(*kind, name);
                let star = if *kind == Kind::Buffer { "*" } else { "" };
                let initial = if *kind == Kind::Given { "" } else { " = nullptr" };
                by_type
                    .entry(type_of(*kind))
                    .or_default()
                    .push(format!("{star}{identifier}{initial}"));
            }
        }
        by_type.into_iter().map(|(ty, names)| format!("{ty} {};", names.join(", "))).collect()
    }
}

/// The type of a variable, without the star of a pointer.
pub(crate) fn type_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Buffer => "unsigned char",
        Kind::Stream => "hipStream_t",
        Kind::Event => "hipEvent_t",
        Kind::Graph => "hipGraph_t",
        Kind::Exec => "hipGraphExec_t",
        Kind::Kernel => "hipModule_t",
        Kind::Generator => "hiprandGenerator_t",
        Kind::Blaslt => "hipblasLtHandle_t",
        Kind::Rocblas => "rocblas_handle",
        Kind::Given => "Given",
        Kind::Loop | Kind::Value => "int",
    }
}

/// The variable that a call makes, if any.
pub(crate) fn made(call: &Call) -> Option<(Kind, &str)> {
    mentions(call).into_iter().find(|(_, _, makes)| *makes).map(|(kind, name, _)| (kind, name))
}

/// The variables that a call mentions, and whether it makes them.
fn mentions(call: &Call) -> Vec<(Kind, &str, bool)> {
    let named = call.all_named().into_iter();
    let mut all: Vec<_> =
        named.map(|n| (Kind::from(n.thing), n.name, n.role == NamedAs::Made)).collect();
    all.retain(|(kind, name, _)| !(*kind == Kind::Stream && *name == plan::DEFAULT_STREAM));
    all
}
