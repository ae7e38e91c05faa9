//! Checks: of bytes, statuses and values.

use plan::{Call, Step};

use crate::{literal::text, names::Kind, printer::Printer, support::Helper, wanted::want};

impl Printer<'_> {
    /// A check of bytes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "calls of other groups do not come here")]
    pub(crate) fn check(&mut self, step: &Step) {
        let call = &step.call;
        let bytes = |name: &str, this: &Self| this.plan.buffers.get(name).map_or(0, |b| b.bytes);
        match call {
            Call::Check { buffer } if self.lean.is_some() => {
                let (got, want) = (self.name(Kind::Buffer, buffer), want(&mut self.names, buffer));
                self.lean_bytes(buffer, &got, &want, bytes(buffer, self));
            }
            Call::Check { buffer } => {
                self.need(Helper::Check);
                let (got, want) = (self.name(Kind::Buffer, buffer), want(&mut self.names, buffer));
                self.line(format!(
                    "check(\"{buffer}\", {got}, {want}.data(), {});",
                    bytes(buffer, self)
                ));
            }
            Call::Equal { a, b } | Call::Differ { a, b } => {
                let equal = matches!(call, Call::Equal { .. });
                if self.lean.is_some() {
                    let names = [self.name(Kind::Buffer, a), self.name(Kind::Buffer, b)];
                    let bytes = bytes(a, self).min(bytes(b, self));
                    let [first, second] = &names;
                    return self.lean_pair([a, b], [first, second], bytes, equal);
                }
                self.need(if equal { Helper::CheckEqual } else { Helper::CheckDiffer });
                let function = if equal { "check_equal" } else { "check_differ" };
                let (first, second) = (self.name(Kind::Buffer, a), self.name(Kind::Buffer, b));
                let bytes = bytes(a, self).min(bytes(b, self));
                self.line(format!("{function}(\"{a}\", {first}, \"{b}\", {second}, {bytes});"));
            }
            Call::Guards { buffer } => {
                let on_host = self.plan.buffers.get(buffer).is_some_and(|b| b.memory.on_host());
                self.need(if on_host { Helper::CheckGuards } else { Helper::CheckDeviceGuards });
                let function = if on_host { "check_guards" } else { "check_device_guards" };
                let got = self.name(Kind::Buffer, buffer);
                self.line(format!(
                    "{function}(\"{buffer}.guards\", {got}, {});",
                    bytes(buffer, self)
                ));
            }
            _ => self.unwritten(step),
        }
    }

    /// A call with a status, checked as its step says. `success` is what its library calls success.
    pub(crate) fn status(&mut self, step: &Step, call: &str, success: &str) {
        if let Some(lean) = self.lean {
            return self.lean_status(lean, step, call, success);
        }
        let text = self.with_status(step, call, success);
        self.line(format!("{text};"));
    }

    /// A call with a status, as an expression of its status where the step says what it must be.
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

    /// A call that gives a value when it succeeds. `got` is the value as text, `number` the variable where it is a number.
    pub(crate) fn value(
        &mut self,
        step: &Step,
        call: &str,
        success: &str,
        function: &str,
        got: &str,
        fits: impl Fn(&str) -> String,
    ) {
        if let Some(lean) = self.lean {
            self.lean_status(lean, step, call, success);
            let wanted = step.gives.as_ref().and_then(|by| by.at(self.version).cloned());
            let wanted = wanted.filter(|w| lean.is_about(step) && w.iter().all(|w| w != "any"));
            if let Some(wanted) = wanted {
                let fits: Vec<String> = wanted.iter().map(|w| fits(w)).collect();
                self.lean_value(function, got, &wanted.join(" or "), &fits.join(" || "));
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
            // A call that failed as expected gives no value.
            match status.strip_prefix("(void)") {
                Some(call) => self.line(format!("if ({call} == {success}) {check}")),
                None => self.line(format!("if ({status}) {check}")),
            }
        }
    }
}

/// The condition that a number is what a case wants: a number itself, or a bound such as `>=1`.
pub(crate) fn number_fits(variable: &str, wanted: &str) -> String {
    if wanted.starts_with(['<', '>']) {
        format!("{variable} {wanted}")
    } else {
        format!("{variable} == {wanted}")
    }
}

/// Whether a status is some library's name of success: each of them stands for status 0.
pub(crate) fn is_success(name: &str) -> bool {
    name == "hipSuccess" || name.to_ascii_lowercase().ends_with("_success")
}
