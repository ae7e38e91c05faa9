//! Converts the compilation and the launches of kernels.

use std::collections::BTreeSet;

use case::Kernels;
use plan::{Arg, Call, CaseKernel, KernelCode, Scalar, ScalarType, digest};
use recorder::trace::{ArgumentValue, CONTENTS, TraceCall};

use super::{
    super::arguments::{RecordedCall, bytes},
    Converter,
};

/// Returns true if the call launches a kernel that is not in rocrepro's library, or one that the compiler embedded in
/// the program.
pub(super) fn is_of_code(call: &TraceCall, library: &Kernels) -> bool {
    let Some(kernel) = &call.kernel else { return false };
    !call.function.starts_with("hipModule") || !library.contains_key(&kernel.name)
}

impl<'t> Converter<'t> {
    /// Remembers kernels and their code. Returns false for calls that are not about kernels.
    pub(super) fn kernels(&mut self, call: RecordedCall<'t>) -> Result<bool, String> {
        match call.name() {
            "hiprtcCreateProgram" => {
                let source = match call.argument("src") {
                    Some(ArgumentValue::Text(text)) => text.clone(),
                    Some(ArgumentValue::Memory { content: Some(content), .. }) => {
                        let file = self.trace.folder.join(CONTENTS).join(&content.xxh3);
                        std::fs::read_to_string(file).map_err(|error| error.to_string())?
                    }
                    _ => return Err("its source was not recorded".to_owned()),
                };
                self.programs.insert(call.output_handle("prog")?, source);
            }
            "hiprtcGetCode" => {
                let program = call.address("prog")?;
                if let (Some(code), Some(source)) = (&call.end.code, self.programs.get(&program)) {
                    self.code.insert(code.xxh3.clone(), source.clone());
                }
            }
            "__hipRegisterFatBinary" => {
                if let Some(code) = &call.end.code {
                    let module = call.output_handle("modules")?;
                    self.modules.insert(module, code.xxh3.clone());
                }
            }
            "__hipRegisterFunction" => {
                if let Some(ArgumentValue::Text(kernel)) = call.argument("deviceName") {
                    let of = (call.address("modules")?, kernel.clone());
                    self.functions.insert(call.address("hostFunction")?, of);
                }
            }
            "hipModuleLoad" | "hipModuleLoadData" | "hipModuleLoadDataEx" if call.succeeded() => {
                let code = call.end.code.as_ref().ok_or("its code was not recorded")?;
                self.modules.insert(call.output_handle("module")?, code.xxh3.clone());
            }
            "hipModuleGetFunction" if call.succeeded() => {
                let Some(ArgumentValue::Text(kernel)) = call.argument("kname") else {
                    return Err("its name was not recorded".to_owned());
                };
                let (module, function) = (call.address("module")?, call.output_handle("function")?);
                let words = |text: &str| text.split_whitespace().collect::<String>();
                let source = self.modules.get(&module).and_then(|code| self.code.get(code));
                match self.library.get(kernel).filter(|_| !self.uses_code) {
                    Some(shipped) if source.is_some_and(|text| words(text) == words(shipped)) => {
                        self.plan.kernels.insert(kernel.clone(), shipped.clone());
                        self.names.insert(function, kernel.clone());
                    }
                    Some(_) => {
                        return Err(format!(
                            "`{kernel}` is the name of a kernel of rocrepro's library, but has a different source"
                        ));
                    }
                    None => drop(self.functions.insert(function, (module, kernel.clone()))),
                }
            }
            name if name.starts_with("hiprtc") && call.succeeded() => {}
            "hipModuleUnload" if call.succeeded() => {
                self.notes.insert("modules are unloaded at the end".to_owned());
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn launch(&mut self, call: RecordedCall<'t>) -> Result<Call, String> {
        let is_of_program = !call.name().starts_with("hipModule");
        if is_of_program && !call.succeeded() {
            return Err(
                "a case launches with hipModuleLaunchKernel, whose status may differ".to_owned()
            );
        }
        let function = ["f", "function_address"].iter().find_map(|name| call.address(name).ok());
        let kernel = self.kernel(function.ok_or("its kernel was not recorded")?)?;
        let size = |prefix: &str, whole: [&str; 2]| {
            if let Some(ArgumentValue::Bytes(hex)) =
                whole.iter().find_map(|name| call.argument(name))
            {
                let sizes = bytes(hex).unwrap_or_default();
                let number =
                    |at: usize| Some(u32::from_le_bytes(*sizes.get(4 * at..)?.first_chunk()?));
                let [x, y, z] = [0, 1, 2].map(|at| number(at).ok_or("a size was not recorded"));
                return Ok([x?, y?, z?]);
            }
            let [x, y, z] =
                ["X", "Y", "Z"].map(|axis| call.number_of_32_bits(&format!("{prefix}Dim{axis}")));
            Ok::<_, String>([x?, y?, z?])
        };
        let grid = size("grid", ["numBlocks", "gridDim"])?;
        let block = size("block", ["dimBlocks", "blockDim"])?;
        let given = call.call.kernel.as_ref().and_then(|kernel| kernel.arguments.as_ref());
        let given = given.ok_or("its arguments were not recorded")?;
        let code = self.plan.own_kernels.get(&kernel).and_then(|own| own.code.as_ref());
        let only_read = code.map(|code| pointers_to_const(&code.kernel)).unwrap_or_default();
        let declared = plan::kernel(&kernel).map(|kernel| kernel.parameters).unwrap_or_default();
        let mut args = Vec::new();
        for (index, argument) in given.iter().enumerate() {
            let value = bytes(&argument.bytes).ok_or("its arguments are damaged")?;
            args.push(match argument.kind.as_str() {
                "by_value" => match self.address_in(&value) {
                    Some(_) => self.with_addresses(&value),
                    None => number(value, declared.get(index)),
                },
                "global_buffer" => {
                    let at = u64::from_le_bytes(value.try_into().map_err(|_| "a short pointer")?);
                    match self.place(at, 0) {
                        Some(place) if only_read.contains(&index) => Arg::Input(place),
                        Some(place) => Arg::Address(place),
                        None if at == 0 => Arg::Number(Scalar { ty: ScalarType::U64, bits: 0 }),
                        None => return Err(format!("{at:#x} is not in recorded memory")),
                    }
                }
                other => return Err(format!("its argument {} is a {other}", index + 1)),
            });
        }
        let places = args.iter().flat_map(Arg::places);
        if let Some((place, _)) =
            places.filter(|_| self.uses_code).find(|(place, _)| self.is_on_host(&place.buffer))
        {
            return Err(format!(
                "its argument `{}` is host memory, which the program can write without a recorded call",
                place.buffer
            ));
        }
        let stream = self.stream(call, "stream")?;
        let shared = call.number_of_32_bits("sharedMemBytes")?;
        let cooperative = call.name().contains("Cooperative");
        if is_of_program {
            self.notes.insert("kernels are launched with hipModuleLaunchKernel".to_owned());
        }
        Ok(Call::Launch { kernel, grid, block, args, shared, cooperative, stream })
    }

    /// Returns the name of a kernel in the case, by its handle.
    fn kernel(&mut self, function: u64) -> Result<String, String> {
        if let Some(name) = self.names.get(&function) {
            return Ok(name.clone());
        }
        let of = self.functions.get(&function);
        let (module, kernel) =
            of.ok_or_else(|| format!("no recorded call created the kernel {function:#x}"))?;
        let xxh3 = self.modules.get(module);
        let xxh3 = xxh3.ok_or_else(|| format!("the code of `{kernel}` was not recorded"))?;
        let (xxh3, kernel) = (xxh3.clone(), kernel.clone());
        let file = self.code_of(&xxh3)?;
        let name = self.new_name("k");
        let code = Some(KernelCode { file, kernel });
        self.plan.own_kernels.insert(name.clone(), CaseKernel { code, ..CaseKernel::default() });
        self.plan.kernels.insert(name.clone(), String::new());
        self.names.insert(function, name.clone());
        Ok(name)
    }

    /// Adds a code object to the case, and returns the name of its file. `xxh3` is the hash of the recorded code. A
    /// bundle with several code objects is added as a whole.
    fn code_of(&mut self, xxh3: &str) -> Result<String, String> {
        let bytes = self.recorded(xxh3)?;
        let objects = code_object::code_objects(&bytes);
        let targets: BTreeSet<_> = objects
            .iter()
            .map(|(target, _)| code_object::architecture(target).to_owned())
            .collect();
        let bytes = match objects.as_slice() {
            [] => return Err("its code object cannot be read".to_owned()),
            [(_, code)] => code.to_vec(),
            [..] => bytes,
        };
        let file = format!("{}.co", digest(&bytes));
        if !self.plan.files.contains_key(&file) {
            self.architectures = Some(match self.architectures.take() {
                Some(others) => others.intersection(&targets).cloned().collect(),
                None => targets,
            });
            self.plan.files.insert(file.clone(), bytes.into());
        }
        Ok(file)
    }

    /// Converts a struct that is passed by value and contains addresses.
    fn with_addresses(&self, value: &[u8]) -> Arg {
        let (words, _) = value.as_chunks::<8>();
        let members = words.iter().map(|word| {
            let bits = u64::from_le_bytes(*word);
            match self.place(bits, 1) {
                Some(place) => Arg::Address(place),
                None => Arg::Number(Scalar { ty: ScalarType::U64, bits }),
            }
        });
        let mut members: Vec<_> = members.collect();
        if members.len() == 1 { members.remove(0) } else { Arg::Struct(members) }
    }
}

/// Returns the indices of the parameters that are pointers to `const`, according to the mangled name of a kernel.
fn pointers_to_const(kernel: &str) -> Vec<usize> {
    let name = cpp_demangle::Symbol::new(kernel).ok().and_then(|symbol| symbol.demangle().ok());
    let name = name.unwrap_or_default();
    let (mut depth, mut found, mut first) = (0, Vec::new(), 0);
    let open = name.char_indices().rev().find(|(_, letter)| {
        depth += i32::from(*letter == ')') - i32::from(*letter == '(');
        depth == 0
    });
    let Some(list) = open.and_then(|(at, _)| name.strip_suffix(')')?.get(at + 1..)) else {
        return Vec::new();
    };
    depth = 0;
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list.get(first..at).unwrap_or_default());
                first = at + 1;
            }
            _ => {}
        }
    }
    let is_const = |(_, ty): &(usize, &str)| ty.trim_end().ends_with(" const*");
    found.into_iter().enumerate().filter(is_const).map(|(index, _)| index).collect()
}

/// Converts an argument that is passed by value. `parameter` is its declaration, if the kernel belongs to the library.
fn number(value: Vec<u8>, parameter: Option<&plan::Parameter>) -> Arg {
    let ty = match (value.len(), parameter) {
        (1, _) => ScalarType::U8,
        (2, _) => ScalarType::U16,
        (4, Some(plan::Parameter::F32)) => ScalarType::F32,
        (4, _) => ScalarType::U32,
        (8, _) => ScalarType::U64,
        _ => return Arg::Bytes(value),
    };
    let bits = value.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    Arg::Number(Scalar { ty, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_to_const_are_found_in_mangled_names() {
        let check = |name: &str, expected: &[usize]| {
            assert_eq!(pointers_to_const(name), expected, "{name}")
        };
        check("_Z3addPKiS0_Pii", &[0, 1]);
        check("_Z5scaleIfEvPT_PKS0_S0_", &[1]);
        check("_Z1kPKPKfPS0_", &[0]);
        check("plain", &[]);
        check("_Z4nonev", &[]);
    }
}
