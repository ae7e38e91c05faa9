//! Decides where a program declares the variables of handles and buffers: at the call that creates the object, or, if
//! another block also uses the variable, at the top of `main`.

use std::collections::BTreeMap;

use plan::{Call, ObjectUse, Plan, Step};

use crate::names::{NameKind, Names};

/// Use of each variable of a program, by the kind and name of its object.
pub(crate) struct Declarations(BTreeMap<(NameKind, String), VariableUse>);

#[derive(Default)]
struct VariableUse {
    /// Number of calls in the text of the program that assign a new object to the variable.
    makers: u32,
    /// True if the first call that mentions the variable creates the object and is outside of all blocks.
    made_first: bool,
    mentioned: bool,
}

impl Declarations {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut declared = Declarations(BTreeMap::new());
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

    /// Returns true if the variable is declared at the top of `main`.
    pub(crate) fn is_hoisted(&self, kind: NameKind, name: &str) -> bool {
        self.0.get(&(kind, name.to_owned())).is_none_or(|u| !u.made_first || u.makers != 1)
    }

    /// Returns the declarations at the top of `main`, one line per type.
    pub(crate) fn lines(&self, names: &mut Names) -> Vec<String> {
        let mut by_type: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        for (kind, name) in self.0.keys() {
            if *kind != NameKind::Kernel && self.is_hoisted(*kind, name) {
                let identifier = names.identifier(*kind, name);
                let star = if *kind == NameKind::Buffer { "*" } else { "" };
                let initial = if *kind == NameKind::Given { "" } else { " = nullptr" };
                by_type
                    .entry(type_of(*kind))
                    .or_default()
                    .push(format!("{star}{identifier}{initial}"));
            }
        }
        by_type.into_iter().map(|(ty, names)| format!("{ty} {};", names.join(", "))).collect()
    }
}

/// Returns the C++ type of a variable; for a pointer, without the star.
pub(crate) fn type_of(kind: NameKind) -> &'static str {
    match kind {
        NameKind::Buffer => "unsigned char",
        NameKind::Stream => "hipStream_t",
        NameKind::Event => "hipEvent_t",
        NameKind::Graph => "hipGraph_t",
        NameKind::Exec => "hipGraphExec_t",
        NameKind::Kernel => "hipModule_t",
        NameKind::Generator => "hiprandGenerator_t",
        NameKind::Blaslt => "hipblasLtHandle_t",
        NameKind::Rocblas => "rocblas_handle",
        NameKind::Given => "Given",
        NameKind::Loop | NameKind::Value => "int",
    }
}

/// Returns the kind and name of the object that a call creates; `None` if the call creates no object.
pub(crate) fn created_variable(call: &Call) -> Option<(NameKind, &str)> {
    mentions(call).into_iter().find(|(_, _, makes)| *makes).map(|(kind, name, _)| (kind, name))
}

/// Returns the variables that a call mentions, each with a flag that is true if the call creates the variable's object.
fn mentions(call: &Call) -> Vec<(NameKind, &str, bool)> {
    let named = call.all_named().into_iter();
    let mut all: Vec<_> =
        named.map(|n| (NameKind::from(n.kind), n.name, n.role == ObjectUse::Created)).collect();
    all.retain(|(kind, name, _)| !(*kind == NameKind::Stream && *name == plan::DEFAULT_STREAM));
    all
}
