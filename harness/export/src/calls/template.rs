//! Prints calls to a single library function. The crate `plan` declares a template of the C++ code for each of these
//! calls.

use plan::{BufferAddress, Field, FieldKind, NamedObject, ObjectKind, ObjectUse, Step};

use crate::{checks::number_fits, names::NameKind, printer::Printer};

impl Printer<'_> {
    /// Prints a call to a single library function. `template` is the C++ code of the call, with placeholders for fields
    /// of the call and for a value that the function returns.
    pub(super) fn templated_call(&mut self, step: &Step, template: &str) {
        let function = template.split('(').next().unwrap_or_default();
        let success = self.success(step, function);
        let fields = step.call.fields();
        let (mut call, mut given) = (String::new(), None);
        for (text, inside) in step.call.cpp().parts() {
            call.push_str(text);
            let Some(inside) = inside else { continue };
            if let Some((name, ty)) = inside.split_once(": ") {
                let variable = self.names.fresh(NameKind::Value, name);
                self.line(format!("{ty} {variable} = 0;"));
                call.push_str(&variable);
                given = Some(variable);
            } else if let Some(field) = fields.iter().find(|field| field.key == inside) {
                call.push_str(&self.argument(field));
            }
        }
        match given {
            None => self.status(step, &call, success),
            Some(number) => {
                let got = format!("std::to_string({number})");
                self.value(step, &call, success, function, &got, |wanted| {
                    number_fits(&number, wanted)
                });
            }
        }
        let ended = step.call.named().into_iter().find(|named| named.role == ObjectUse::Destroyed);
        if let Some(NamedObject { kind: thing, name, .. }) = ended {
            self.reset_handle(step, thing.into(), name);
        }
    }

    /// Returns a field of the call as an argument in C++.
    fn argument(&mut self, field: &Field<'_>) -> String {
        match field.value_type {
            FieldKind::Name(thing, ObjectUse::Created) => {
                self.declare_created(thing.into(), &field.value)
            }
            FieldKind::Name(ObjectKind::Stream, _) => self.stream(&field.value),
            FieldKind::Name(thing, _) => self.name(thing.into(), &field.value),
            FieldKind::Place(offset) => {
                self.place(&BufferAddress { buffer: field.value.to_string(), offset })
            }
            FieldKind::Text | FieldKind::Number => field.value.to_string(),
            FieldKind::Word => enumerator(&field.value),
        }
    }
}

/// Converts a word to the spelling of a C++ enumerator, for example `thread_local` to `ThreadLocal`.
pub(super) fn enumerator(word: &str) -> String {
    let part = |part: &str| part[..1].to_ascii_uppercase() + &part[1..];
    word.split('_').map(part).collect()
}
