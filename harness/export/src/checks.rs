//! Prints C++ code that checks bytes of buffers, statuses of calls, and values that calls return.

use plan::{Arg, Call, Step};

use crate::{
    expected_names::expected_bytes_of,
    helpers::Helper,
    literal::{text, value},
    names::NameKind,
    printer::Printer,
};

impl Printer<'_> {
    /// Prints a check of a buffer's bytes, of a buffer's guards, or of whether two buffers are equal.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "calls of other groups are printed elsewhere"
    )]
    pub(crate) fn check(&mut self, step: &Step) {
        let call = &step.call;
        let bytes = |name: &str, this: &Self| this.plan.buffers.get(name).map_or(0, |b| b.bytes);
        match call {
            Call::Check { buffer, .. } if self.short.is_some() => {
                let (got, want) = (
                    self.name(NameKind::Buffer, buffer),
                    expected_bytes_of(&mut self.names, buffer),
                );
                self.short_bytes(buffer, &got, &want, bytes(buffer, self));
            }
            Call::Check { buffer, .. } => {
                self.need(Helper::Check);
                let (got, want) = (
                    self.name(NameKind::Buffer, buffer),
                    expected_bytes_of(&mut self.names, buffer),
                );
                self.line(format!(
                    "check(\"{buffer}\", {got}, {want}.data(), {});",
                    bytes(buffer, self)
                ));
            }
            Call::Equal { a, b } | Call::Differ { a, b } => {
                let equal = matches!(call, Call::Equal { .. });
                if self.short.is_some() {
                    let names = [self.name(NameKind::Buffer, a), self.name(NameKind::Buffer, b)];
                    let bytes = bytes(a, self).min(bytes(b, self));
                    let [first, second] = &names;
                    return self.short_pair([a, b], [first, second], bytes, equal);
                }
                self.need(if equal { Helper::CheckEqual } else { Helper::CheckDiffer });
                let function = if equal { "check_equal" } else { "check_differ" };
                let (first, second) =
                    (self.name(NameKind::Buffer, a), self.name(NameKind::Buffer, b));
                let bytes = bytes(a, self).min(bytes(b, self));
                self.line(format!("{function}(\"{a}\", {first}, \"{b}\", {second}, {bytes});"));
            }
            Call::AtLeast { buffer, least } => {
                let got = self.name(NameKind::Buffer, buffer);
                let (ty, value) = (least.ty.cpp(), value(&Arg::Number(*least)));
                let count = bytes(buffer, self) / least.ty.bytes() as u64;
                if self.short.is_some() {
                    return self.short_least(buffer, &got, (ty, &value), count);
                }
                self.need(Helper::CheckAtLeast);
                self.line(format!("check_at_least<{ty}>(\"{buffer}\", {got}, {count}, {value});"));
            }
            Call::Guards { buffer } => {
                let on_host = self.plan.buffers.get(buffer).is_some_and(|b| b.memory.on_host());
                self.need(if on_host { Helper::CheckGuards } else { Helper::CheckDeviceGuards });
                let function = if on_host { "check_guards" } else { "check_device_guards" };
                let got = self.name(NameKind::Buffer, buffer);
                self.line(format!(
                    "{function}(\"{buffer}.guards\", {got}, {});",
                    bytes(buffer, self)
                ));
            }
            _ => self.unsupported_call(step),
        }
    }

    /// Prints a call that returns a status, and the check that the step requires for this status. `success` is the
    /// status that means success in the called library.
    pub(crate) fn status(&mut self, step: &Step, call: &str, success: &str) {
        if let Some(short) = self.short {
            return self.short_status(short, step, call, success);
        }
        let text = self.with_status(step, call, success);
        self.line(format!("{text};"));
    }

    /// Returns a C++ expression that makes a call and checks its status. If the step lists accepted statuses, the value
    /// of the expression is true if the call returned success. If the step accepts any status, the status is ignored.
    pub(crate) fn with_status(&mut self, step: &Step, call: &str, success: &str) -> String {
        let Some(returns) = &step.returns else {
            self.need(Helper::Require);
            return format!("HIP_CHECK({call})");
        };
        let wanted = returns.at(self.version).filter(|names| !names.iter().any(|n| n == "any"));
        let Some(wanted) = wanted else {
            return format!("(void){call}");
        };
        self.need(Helper::ExpectStatus);
        let names: Vec<&str> = wanted
            .iter()
            .map(|name| if is_success(name) { success } else { name.as_str() })
            .collect();
        format!("HIP_EXPECT({call}, {})", names.join(", "))
    }

    /// Prints a call that returns a value on success, and the check of this value. `got` is a C++ expression for the
    /// value as a string. `fits` takes one of the expected values and returns a C++ condition that is true if the call
    /// returned this value. `function` is the name of the function in messages.
    pub(crate) fn value(
        &mut self,
        step: &Step,
        call: &str,
        success: &str,
        function: &str,
        got: &str,
        fits: impl Fn(&str) -> String,
    ) {
        if let Some(short) = self.short {
            self.short_status(short, step, call, success);
            let wanted = step.gives.as_ref().and_then(|by| by.at(self.version).cloned());
            let wanted = wanted.filter(|w| short.is_about(step) && w.iter().all(|w| w != "any"));
            if let Some(wanted) = wanted {
                let fits: Vec<String> = wanted.iter().map(|w| fits(w)).collect();
                self.short_value(function, got, &wanted.join(" or "), &fits.join(" || "));
            }
            return;
        }
        let status = self.with_status(step, call, success);
        let wanted = step.gives.as_ref().and_then(|by| by.at(self.version).cloned());
        let Some(wanted) = wanted.filter(|w| !w.iter().any(|w| w == "any")) else {
            return self.line(format!("{status};"));
        };
        self.need(Helper::ExpectValue);
        let conditions: Vec<String> = wanted.iter().map(|w| fits(w)).collect();
        let check = format!(
            "expect_value(\"{function}\", {got}, {}, {});",
            text(&wanted.join(" or ")),
            conditions.join(" || ")
        );
        if step.returns.is_none() {
            self.line(format!("{status};"));
            self.line(check);
        } else {
            // A call that failed as expected returns no value to check.
            match status.strip_prefix("(void)") {
                Some(call) => self.line(format!("if ({call} == {success}) {check}")),
                None => self.line(format!("if ({status}) {check}")),
            }
        }
    }
}

/// Returns the C++ condition that a variable has the expected value `wanted`: a number, or a bound such as `>=1`.
pub(crate) fn number_fits(variable: &str, wanted: &str) -> String {
    if wanted.starts_with(['<', '>']) {
        format!("{variable} {wanted}")
    } else {
        format!("{variable} == {wanted}")
    }
}

/// Returns true if the name is that of the success status of any library. All these statuses have the value 0.
pub(crate) fn is_success(name: &str) -> bool {
    name == "hipSuccess" || name.to_ascii_lowercase().ends_with("_success")
}
