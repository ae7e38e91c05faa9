//! Compares the launches of a plan with the descriptions of kernels in code objects.

use ::code_object::{CodeParameter, code_objects, kernels};
use plan::{Arg, Call, CaseKernel, Choice, Plan};

/// Returns a description of a parameter.
fn words(parameter: &CodeParameter) -> String {
    match parameter.is_pointer() {
        true if parameter.access.is_some() => {
            "a pointer that the kernel may write through".to_owned()
        }
        true => "a pointer".to_owned(),
        false => format!("a value of {} bytes", parameter.size),
    }
}

/// Returns true if the argument can be passed for the parameter. An address may be passed for an integer of the same
/// size.
fn accepts(parameter: &CodeParameter, arg: &Arg) -> bool {
    match arg {
        Arg::Address(_) => parameter.size == 8,
        Arg::Input(_) => {
            let writes = ["write_only", "read_write"];
            let access = parameter.access.as_deref();
            parameter.size == 8 && !access.is_some_and(|access| writes.contains(&access))
        }
        Arg::Number(_) | Arg::Struct(_) | Arg::Bytes(_) => {
            // A number may be passed for a pointer of the same size, for example as a null pointer.
            let bytes = arg.to_bytes(&|_| 0);
            parameter.size == bytes.len() as u64
                && (!parameter.is_pointer() || bytes.iter().all(|byte| *byte == 0))
        }
    }
}

/// Explains why the launches of a kernel in the plan do not match the kernel's code object `code`. `own` is the
/// declaration of the kernel in the case. Returns an empty list if the metadata cannot be read, because the HIP runtime
/// then decides.
pub(crate) fn mistakes(code: &[u8], kernel: &str, own: &CaseKernel, plan: &Plan) -> Vec<String> {
    let place = &own.place;
    let in_code = own.code.as_ref().map_or(kernel, |code| &code.kernel);
    let all = kernels(code);
    if all.is_empty() && code_objects(code).is_empty() {
        return Vec::new();
    }
    let Some(found) = all.iter().find(|found| found.name == in_code) else {
        let names: Vec<_> = all.iter().map(|k| format!("`{}`", k.name)).collect();
        let has = if names.is_empty() { "no kernel".to_owned() } else { names.join(", ") };
        let mangled = all.iter().any(|k| k.name.starts_with("_Z"));
        let help = if mangled { "; declare it `extern \"C\"`, or its name is mangled" } else { "" };
        if let Some(code) = &own.code {
            let file = &code.file;
            return vec![format!(
                "kernel `{kernel}` ({place}): `{file}` has no kernel `{in_code}`; it has {has}"
            )];
        }
        return vec![format!(
            "the source of kernel `{kernel}` ({place}) must define a kernel of that name but defines {has}{help}"
        )];
    };
    let parameters: Vec<_> = found.parameters().collect();
    let launches = plan.steps().into_iter().filter_map(|step| match step.call.work() {
        Call::Launch { kernel: name, args, .. } if name == kernel => Some((step.line, args)),
        _ => None,
    });
    let mut why = Vec::new();
    for (at, args) in launches {
        if args.len() != parameters.len() {
            why.push(format!(
                "kernel `{kernel}` ({place}) has {} parameters, but the launch at line {at} passes {} arguments",
                parameters.len(),
                args.len()
            ));
        }
        for (n, (parameter, arg)) in parameters.iter().zip(args).enumerate() {
            if !accepts(parameter, arg) {
                let given = match arg {
                    Arg::Address(_) => "an address".to_owned(),
                    Arg::Input(_) => "the address of memory that the kernel only reads".to_owned(),
                    Arg::Number(number) => format!("a number of type {}", number.ty.word()),
                    Arg::Struct(_) => {
                        format!("a struct of {} bytes", arg.to_bytes(&|_| 0).len())
                    }
                    Arg::Bytes(bytes) => format!("{} bytes", bytes.len()),
                };
                why.push(format!(
                    "parameter {} of kernel `{kernel}` ({place}) is {}, but the launch at line {at} passes {given}",
                    n + 1,
                    words(parameter)
                ));
            }
        }
    }
    why.dedup();
    why
}
